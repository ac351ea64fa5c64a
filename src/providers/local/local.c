/* SPDX-License-Identifier: MIT */
/*
 * The local provider: sandboxes on this machine. The table and what is too small for a file of its
 * own; it looks at nothing before an operation asks for it.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/parse.h"
#include "base/path.h"

static void local_release(void *handle)
{
	struct local *l = handle;

	if (!l)
		return;
	local_unload(l);
	free(l->state_dir);
	free(l->name);
	free(l->full);
	free(l->base);
	free(l->home);
	free(l->inner);
	local_keys_done(&l->want);
	free(l);
}
BERTH_DEFINE_AUTO_PTR(local, struct local *, local_release);

/* What a spec says must be true of some sandbox; whether of this one, is seen when it is loaded. */
static int take_pairs(struct local *l, const struct berth_sandbox_spec *spec,
		      struct berth_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < spec->n_pairs; i++)
		rc = local_keys_take(&l->want, spec->pairs[i].key, spec->pairs[i].value, err);
	l->remote_dir = spec->remote_dir || l->want.value[KEY_DIR];
	if (rc == 0 && l->want.value[KEY_ISOLATION])
		rc = local_keys_fit(&l->want, NULL, err);
	if (rc == 0 && l->remote_dir && l->want.value[KEY_ISOLATION] && local_walled(l))
		rc = local_check_dir(l, NULL, err);
	return rc;
}

int local_check_dir(const struct local *l, const char *dir, struct berth_error *err)
{
	if (!local_walled(l) || (dir && strcmp(dir, l->inner) == 0))
		return 0;
	return berth_fail(err, BERTH_E_INVALID,
			  "--remote-dir and dir= are for isolation=none: with isolation=bwrap, as "
			  "%s has, berth's files are out of the sandbox's reach, and have no other "
			  "place",
			  l->full);
}

static int local_attach(const struct berth_sandbox_spec *spec, void **ret_handle,
			struct berth_error *err)
{
	auto(local) struct local *l = mem_zalloc(1, sizeof(*l));
	int rc;

	if (!l)
		return berth_fail_nomem(err);
	l->state_dir = mem_strdup(spec->state_dir);
	l->name = mem_strdup(spec->name);
	l->full = mem_printf("%s:%s", spec->provider, spec->name);
	l->base = mem_printf("%s/local/%s", spec->state_dir, spec->name);
	l->home = mem_printf("%s/local/%s/home", spec->state_dir, spec->name);
	l->inner = mem_printf("%s/local/%s/berth", spec->state_dir, spec->name);
	if (!l->state_dir || !l->name || !l->full || !l->base || !l->home || !l->inner)
		return berth_fail_nomem(err);
	rc = take_pairs(l, spec, err);
	if (rc < 0)
		return rc;
	*ret_handle = TAKE_PTR(l);
	return 0;
}

static int copy_out(char *dst, size_t cap, const char *s, struct berth_error *err)
{
	size_t n = strlen(s);

	if (n >= cap)
		return berth_fail(err, BERTH_E_TOO_LARGE, "the path %s is too long", s);
	memcpy(dst, s, n + 1);
	return 0;
}

static int local_home(void *handle, char *home, size_t cap, struct berth_error *err)
{
	struct local *l = handle;

	(void)!local_load(l, NULL); /* one that is not there is as it would be made */
	return copy_out(home, cap, local_walled(l) ? "/home/user" : l->home, err);
}

static int local_dir(void *handle, char *dir, size_t cap, struct berth_error *err)
{
	struct local *l = handle;
	int rc = local_load(l, err);

	if (rc < 0 && rc != BERTH_E_NOT_FOUND)
		return rc;
	if (local_walled(l))
		return copy_out(dir, cap, l->inner, err);
	if (rc < 0)
		return rc;
	if (!l->record.keys.value[KEY_DIR])
		return berth_fail(err, BERTH_E_NOT_FOUND, "no directory was given at creation");
	return copy_out(dir, cap, l->record.keys.value[KEY_DIR], err);
}

static int local_open_dir(void *handle, const char *dir, int *ret_fd, struct berth_error *err)
{
	struct local *l = handle;
	int fd, rc = local_load(l, NULL);

	if (rc == 0)
		rc = local_check_dir(l, dir, err);
	if (rc == BERTH_E_INVALID)
		return rc;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return berth_fail(err, BERTH_E_NOT_FOUND, "there is no %s", dir);
	if (fd < 0)
		return berth_fail_errno(err, 0, errno, "%s", dir);
	*ret_fd = fd;
	return 0;
}

static int local_put_file(void *handle, const char *path, unsigned mode, const void *data,
			  size_t len, struct berth_error *err)
{
	auto_free char *parent = mem_strdup(path);
	struct local *l = handle;
	char *slash;
	int rc;

	if (!parent)
		return berth_fail_nomem(err);
	slash = strrchr(parent, '/');
	if (*path != '/' || !slash[1])
		return berth_fail(err, BERTH_E_INVALID, "%s is no absolute path of a file", path);
	if (local_load(l, NULL) == 0 && local_walled(l))
		return local_inside_put(l, path, mode, data, len, err);
	*slash = '\0';
	rc = *parent ? mkdir_p(AT_FDCWD, parent, 0777) : 0;
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", parent);
	return write_file_atomic(AT_FDCWD, path, data, len, (mode_t)mode, 0, err);
}

/* One that has expired is removed when it is come across, and not told of. A failure to is told by
 * the one that is told of then. */
static bool gone(const char *state_dir, const char *name)
{
	const struct berth_sandbox_spec spec = {
		.provider = "local", .name = name, .state_dir = state_dir};
	void *handle = NULL;
	bool over;

	if (local_attach(&spec, &handle, NULL) < 0)
		return false;
	over = local_load_any(handle, NULL) == 0 && local_expired(handle) &&
	       local_destroy(handle, NULL) == 0;
	local_release(handle);
	return over;
}

static int local_list(const char *state_dir, int (*fn)(void *arg, const char *name), void *arg,
		      struct berth_error *err)
{
	auto_free char *path = mem_printf("%s/local", state_dir);
	auto_closedir DIR *d = path ? opendir(path) : NULL;
	struct dirent *e;
	int rc = 0;

	if (!path)
		return berth_fail_nomem(err);
	if (!d && errno == ENOENT)
		return 0;
	if (!d)
		return berth_fail_errno(err, 0, errno, "%s", path);
	while (rc == 0 && (e = readdir(d))) {
		auto_free char *record = NULL;

		if (!valid_sandbox_name(e->d_name))
			continue;
		record = mem_printf("%s/%s/sandbox", path, e->d_name);
		if (!record)
			return berth_fail_nomem(err);
		if (access(record, F_OK) == 0 && !gone(state_dir, e->d_name))
			rc = fn(arg, e->d_name);
	}
	return rc;
}

const struct berth_provider_ops berth_provider_local = {
	.abi = BERTH_PROVIDER_ABI,
	.name = "local",
	.keys = local_provider_keys,
	.attach = local_attach,
	.release = local_release,
	.start = local_start,
	.resume = local_resume,
	.stop = local_stop,
	.destroy = local_destroy,
	.info = local_info,
	.execute = local_execute,
	.open = local_open,
	.open_agent = local_open_agent,
	.start_agent = local_start_agent,
	.open_dir = local_open_dir,
	.put_file = local_put_file,
	.port_url = local_port_url,
	.home = local_home,
	.dir = local_dir,
	.list = local_list,
};
