/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_EXECUTION_H
#define BERTH_CORE_EXECUTION_H
/*
 * Records of executions and sessions: from the bytes of a journal or of a STATUS reply to a
 * berth_status, over the direct road (berth directory readable here) or the agent's.
 */
#include "core/core.h"
#include "wire/journal.h"

/*
 * A STATUS reply (payload of OK or EVENT) as a status. init_is_life: as in berth_provider_info.
 * BERTH_E_PROTOCOL when it is none. The spec in the reply (WK_SPEC, or the journal's entry) fills
 * mode and artifact.
 */
int status_from_reply(struct wire_slice payload, bool init_is_life, struct berth_status *ret,
		      struct berth_error *err) attr_warn_unused;
/* The same as numbers; both results borrow from the payload. */
int reply_decode(struct wire_slice payload, bool init_is_life, struct journal *ret_j,
		 struct record_status *ret, struct berth_error *err) attr_warn_unused;
/* The SPEC of a STATUS reply: WK_SPEC or the SPEC entry; n = 0 when there is none. */
struct wire_slice reply_spec(struct wire_slice payload);

/* A status that is only a state, for answers that leave no record (failed/upload …). */
void status_init(struct berth_status *ret, const char *id, enum berth_state state);

/*
 * The whole record of one execution as STATUS with WANT_ENV=1 tells it; *ret is the payload
 * (malloc'ed, owned by caller, free with free()). For relaunch and for comparing requests. Takes
 * whatever road is quickest. BERTH_E_NOT_FOUND: no such record.
 */
int record_fetch(struct berth_sandbox *s, const char *id, int kind, uint8_t **ret, size_t *ret_n,
		 struct berth_error *err) attr_warn_unused;

/* berth_cancel() for either kind; nothing is checked. */
int execution_cancel(struct berth_sandbox *s, const char *id, int kind, int64_t grace_ms,
		     struct berth_status *ret, struct berth_error *err) attr_warn_unused;

#endif
