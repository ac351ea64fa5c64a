/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_DEPLOY_H
#define BERTH_CORE_DEPLOY_H
/*
 * What deploy and relaunch share: bringing a checked launch to its sandbox, with what it needs
 * there.
 */
#include "core/artifact.h"
#include "core/launch.h"
#include "core/progress.h"

struct delivery {
	struct berth_sandbox *s;
	struct launch *l;
	const struct artifact *a; /* NULL: a recorded tree, which cannot be brought again */
	int64_t install_timeout_ms;
	const struct progress *progress;
};

enum delivery_result {
	DELIVERY_DONE = 0,
	DELIVERY_CHANGED =
		1, /* the artifact is not any more what was hashed; *err names the file */
};

/*
 * Launches; when the agent says that the tree or the layer is missing, brings it and asks again.
 * DELIVERY_DONE: *ret is filled, also with failed/upload and failed/install, which leave no record.
 */
int delivery_run(const struct delivery *d, struct berth_deploy_result *ret,
		 struct berth_error *err) attr_warn_unused;

/* A duration of a request: 0 or more, not absurd. BERTH_E_INVALID names it. */
int check_duration(const char *what, int64_t ms, struct berth_error *err) attr_warn_unused;

/* State failed in a phase before the launch. */
void deploy_failed(struct berth_status *st, const char *id, const char *phase, const char *message);

#endif
