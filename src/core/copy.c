/* SPDX-License-Identifier: MIT */
/*
 * copy.c: the rules of names, and asking about paths in the sandbox.
 *
 * Invariants: what comes from the sandbox is bytes from a stranger: a type that is none of ours is
 * COPY_OTHER, modes are cut to permission bits. It moves no contents: copy_in.c and copy_out.c do.
 */
#include "core/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/time.h"

int copier_init(struct copier *c, struct berth_sandbox *s, const char *id, const char *remote,
		struct berth_error *err)
{
	*c = (struct copier){.id = id, .err = err};
	if (id && !valid_execution_id(id))
		return berth_fail(err, BERTH_E_INVALID,
				  "the execution id \"%s\" is not [A-Za-z0-9][A-Za-z0-9._-]{0,127}",
				  id);
	if (id && !path_stays_inside(*remote ? remote : "."))
		return berth_fail(err, BERTH_E_INVALID,
				  "the path \"%s\" leaves the directory of the execution", remote);
	c->buf = mem_alloc(WIRE_DATA_MAX);
	if (!c->buf)
		return berth_fail_nomem(err);
	return road_get(s, ROAD_START, &c->road, err);
}

void copier_done(struct copier *c)
{
	road_put(c->road);
	free(c->buf);
}

void copy_fields(struct copier *c, struct wire_w *w, void *buf, size_t cap, const char *path)
{
	wire_w_init(w, buf, cap);
	wire_w_str(w, WK_PATH, *path ? path : ".");
	wire_w_str(w, WK_BASE_ID, c->id);
}

int copy_remote_stat(struct copier *c, const char *path, bool follow, struct copy_stat *ret)
{
	uint8_t buf[COPY_FIELDS_MAX];
	struct berth_error own = BERTH_ERROR_INIT;
	struct wire_slice reply;
	struct wire_w w;
	int64_t type;
	int r;

	copy_fields(c, &w, buf, sizeof(buf), path);
	if (follow)
		wire_w_int(&w, WK_FOLLOW, 1);
	r = road_ask(c->road, WIRE_STAT, &w, deadline_from_ms(COPY_STALL_MS), &reply, &own);
	*ret = (struct copy_stat){.kind = COPY_NOTHING};
	/* Not found may also be the execution: then everything else fails, too, and says so. */
	if (r == BERTH_E_NOT_FOUND && c->road->error.remote && own.sys_errno)
		return 0;
	if (r < 0) {
		if (c->err)
			*c->err = own;
		return r;
	}
	type = wire_find_int(reply.p, reply.n, WK_TYPE, COPY_OTHER);
	ret->kind = type == COPY_FILE || type == COPY_DIR || type == COPY_LINK
			    ? (enum copy_kind)type
			    : COPY_OTHER;
	ret->mode = (unsigned)wire_find_int(reply.p, reply.n, WK_MODE, 0644) & 0777;
	ret->mtime_ns = wire_find_int(reply.p, reply.n, WK_MTIME_NS, 0);
	return 0;
}

bool copy_ends_in_slash(const char *path)
{
	size_t n = strlen(path);

	return n && path[n - 1] == '/';
}

bool copy_means_inside(const char *src)
{
	const char *base = path_basename(src);

	/* "x/" is x itself; only a path of slashes is the root */
	if (!*base)
		return src[strspn(src, "/")] == '\0';
	return strcmp(base, ".") == 0 || strcmp(base, "..") == 0;
}

/* DST/NAME, NAME being the last component of SRC. */
static int into(const char *src, const char *dst, char **ret, struct berth_error *err)
{
	auto_free char *normal = path_normalize(src);

	if (normal)
		*ret = path_join(dst, path_basename(normal));
	return normal && *ret ? 0 : berth_fail_nomem(err);
}

static int as_named(const char *dst, char **ret, struct berth_error *err)
{
	*ret = mem_strdup(*dst ? dst : ".");
	return *ret ? 0 : berth_fail_nomem(err);
}

int copy_target(const char *src, enum copy_kind src_kind, const char *dst, enum copy_kind dst_kind,
		char **ret, struct berth_error *err)
{
	bool there = dst_kind != COPY_NOTHING, dir = dst_kind == COPY_DIR;

	if (src_kind == COPY_DIR) {
		if (there && !dir)
			return berth_fail(err, BERTH_E_CONFLICT,
					  "\"%s\" is a directory and \"%s\" is not", src, dst);
		return dir && !copy_means_inside(src) ? into(src, dst, ret, err)
						      : as_named(dst, ret, err);
	}
	if (there && !dir && copy_ends_in_slash(dst))
		return berth_fail(err, BERTH_E_CONFLICT, "\"%s\" is not a directory", dst);
	return dir || copy_ends_in_slash(dst) ? into(src, dst, ret, err) : as_named(dst, ret, err);
}

int copy_fail_type(struct berth_error *err, const char *path)
{
	return berth_fail(err, BERTH_E_INVALID,
			  "\"%s\" is neither a file nor a directory nor a symbolic link", path);
}
