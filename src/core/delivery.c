/* SPDX-License-Identifier: MIT */
/*
 * delivery.c: launch, and bring what was missing.
 *
 * Invariants: the launch is asked for first, so that a taken id, another request under it or a
 * limit that cannot be enforced is known before anything in the sandbox changes. Tree and layer are
 * each brought a few times at most: something that vanishes as often as it is brought is said.
 */
#include "core/deploy.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "core/execution.h"
#include "core/install.h"
#include "core/upload.h"

/* Each of tree and layer may have to be brought again when somebody prunes meanwhile. */
#define ROUNDS_MAX 8

void deploy_failed(struct berth_status *st, const char *id, const char *phase, const char *message)
{
	status_init(st, id, BERTH_FAILED);
	snprintf(st->phase, sizeof(st->phase), "%s", phase);
	snprintf(st->message, STATE_MESSAGE_MAX + 1, "%s", message);
}

enum step { STEP_AGAIN = 100, STEP_FAILED = 101 };

static int bring_tree(const struct delivery *d, struct berth_deploy_result *ret,
		      struct berth_error *err)
{
	int r;

	if (!d->a)
		return berth_fail(
			err, BERTH_E_PRECONDITION,
			"the artifact of the recorded execution is not in the sandbox any "
			"more: deploy it again");
	r = upload_artifact(d->s, d->a, d->progress, err);
	if (r == UPLOAD_CHANGED)
		return DELIVERY_CHANGED;
	if (r == UPLOAD_REFUSED) {
		deploy_failed(&ret->status, d->l->id, "upload", err->message);
		return STEP_FAILED;
	}
	return r < 0 ? r : STEP_AGAIN;
}

static int bring_layer(const struct delivery *d, struct berth_deploy_result *ret,
		       struct berth_error *err)
{
	char message[INSTALL_MESSAGE_MAX];
	int r;

	progress_bytes(d->progress, "install", 0, 0);
	r = install_run(d->s, d->l->tree, d->l->layer, d->l->install, d->install_timeout_ms,
			d->progress, message, err);

	if (r == INSTALL_NEEDS_TREE)
		return bring_tree(d, ret, err);
	if (r == INSTALL_FAILED) {
		deploy_failed(&ret->status, d->l->id, "install", message);
		return STEP_FAILED;
	}
	return r < 0 ? r : STEP_AGAIN;
}

static int one_round(const struct delivery *d, bool init_is_life, struct berth_deploy_result *ret,
		     struct berth_error *err)
{
	int r;

	/* The contract of the callback: told before every launch (berth run must know what it can
	 * interrupt). */
	progress_bytes(d->progress, "launch", 0, 0);
	r = launch_run(d->s, d->l, init_is_life, &ret->status, &ret->existed, err);
	switch (r) {
	case LAUNCH_NEEDS_TREE:
		return bring_tree(d, ret, err);
	case LAUNCH_NEEDS_LAYER:
		if (!d->l->layer || !d->l->install)
			return berth_fail(err, BERTH_E_PROTOCOL,
					  "the agent wants a layer that nobody named");
		return bring_layer(d, ret, err);
	case LAUNCH_NEEDS_INPUT:
		return berth_fail(err, BERTH_E_PRECONDITION,
				  "the recorded input of \"%s\" is not there any more",
				  d->l->from ? d->l->from : "");
	default:
		return r;
	}
}

static void describe_sandbox(struct berth_sandbox *s, struct berth_deploy_result *ret,
			     bool *ret_init_is_life)
{
	struct berth_provider_info info;

	/* Softly: an answer without them is better than none. */
	if (berth_sandbox_info(s, &info, NULL) < 0)
		return;
	snprintf(ret->sandbox_id, sizeof(ret->sandbox_id), "%s", info.id);
	ret->expires_ms = info.expires_ms;
	*ret_init_is_life = info.init_is_life;
}

int delivery_run(const struct delivery *d, struct berth_deploy_result *ret, struct berth_error *err)
{
	struct berth_deploy_result result = {0};
	struct berth_error own = BERTH_ERROR_INIT;
	bool init_is_life = false;
	int r;

	if (!err)
		err = &own;
	r = sandbox_ensure_started(d->s, err);
	if (r < 0)
		return r;
	describe_sandbox(d->s, &result, &init_is_life);
	r = STEP_AGAIN;
	for (int i = 0; r == STEP_AGAIN && i < ROUNDS_MAX; i++)
		r = one_round(d, init_is_life, &result, err);
	if (r == STEP_AGAIN)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "what was brought into the sandbox vanishes again and again");
	if (r == DELIVERY_CHANGED || r < 0)
		return r;
	*ret = result;
	return DELIVERY_DONE;
}
