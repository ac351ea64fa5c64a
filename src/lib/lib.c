/* SPDX-License-Identifier: MIT */
/*
 * The top of the library: the one place that knows which drivers there are. Everything else of
 * berth/berth.h is defined in core, where its work is.
 */
#include <berth/berth.h>

#include "core/core.h"

extern const struct berth_provider_ops berth_provider_local;
extern const struct berth_provider_ops *const berth_provider_fakes[];

static const struct berth_provider_ops *const drivers[] = {
	&berth_provider_local,
};

int berth_new(const char *state_dir, struct berth **ret, struct berth_error *err)
{
	struct berth *b = NULL;
	int rc = core_context_new(state_dir, drivers, ARRAY_LEN(drivers), &b, err);

	for (size_t i = 0; rc == 0 && berth_provider_fakes[i]; i++)
		rc = berth_provider_add(b, berth_provider_fakes[i], err);
	if (rc < 0) {
		berth_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}
