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
	free(l->want_isolation);
	free(l->want_dir);
	free(l);
}
BERTH_DEFINE_AUTO_PTR(local, struct local *, local_release);

static int check_isolation(struct local *l, struct berth_error *err)
{
	const char *v = l->want_isolation;

	if (!v || strcmp(v, "none") == 0)
		return 0;
	if (strcmp(v, "bwrap") == 0) {
		/* One that exists with another answers for itself. */
		if (local_load(l, err) == BERTH_E_CONFLICT)
			return BERTH_E_CONFLICT;
		berth_fail(err, BERTH_E_INVALID,
			   "isolation=bwrap is not built yet in this version of berth");
		berth_error_hint(err, "\"?isolation=none\" asks for no isolation by name");
		return BERTH_E_INVALID;
	}
	return berth_fail(err, BERTH_E_INVALID, "isolation=%s: known are bwrap, none", v);
}

static int take_pairs(struct local *l, const struct berth_sandbox_spec *spec,
		      struct berth_error *err)
{
	for (size_t i = 0; i < spec->n_pairs; i++) {
		char **dst = strcmp(spec->pairs[i].key, "isolation") == 0 ? &l->want_isolation
			     : strcmp(spec->pairs[i].key, "dir") == 0     ? &l->want_dir
									  : NULL;

		if (!dst)
			continue;
		free(*dst);
		*dst = mem_strdup(spec->pairs[i].value);
		if (!*dst)
			return berth_fail_nomem(err);
	}
	return 0;
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
	if (!l->state_dir || !l->name || !l->full || !l->base || !l->home)
		return berth_fail_nomem(err);
	rc = take_pairs(l, spec, err);
	if (rc == 0)
		rc = check_isolation(l, err);
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
	const struct local *l = handle;

	return copy_out(home, cap, l->home, err);
}

static int local_dir(void *handle, char *dir, size_t cap, struct berth_error *err)
{
	struct local *l = handle;
	int rc = local_load(l, err);

	if (rc < 0)
		return rc;
	if (!l->record.dir)
		return berth_fail(err, BERTH_E_NOT_FOUND, "no directory was given at creation");
	return copy_out(dir, cap, l->record.dir, err);
}

static int local_open_dir(void *handle, const char *dir, int *ret_fd, struct berth_error *err)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

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
	char *slash;
	int rc;

	if (!parent)
		return berth_fail_nomem(err);
	slash = strrchr(parent, '/');
	if (*path != '/' || !slash[1])
		return berth_fail(err, BERTH_E_INVALID, "%s is no absolute path of a file", path);
	*slash = '\0';
	rc = *parent ? mkdir_p(AT_FDCWD, parent, 0777) : 0;
	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", parent);
	return write_file_atomic(AT_FDCWD, path, data, len, (mode_t)mode, 0, err);
}

static int local_port_url(void *handle, unsigned port, char *url, size_t cap,
			  struct berth_error *err)
{
	if (port < 1 || port > 65535)
		return berth_fail(err, BERTH_E_INVALID, "%u is no port", port);
	if (snprintf(url, cap, "http://127.0.0.1:%u", port) >= (int)cap)
		return berth_fail(err, BERTH_E_TOO_LARGE, "the URL does not fit");
	return 0;
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
		if (access(record, F_OK) == 0)
			rc = fn(arg, e->d_name);
	}
	return rc;
}

static const struct berth_provider_key keys[] = {
	{"isolation", "none: no namespaces, everything runs as you; bwrap (not built yet)", true},
	{"dir", "where berth lives in the sandbox (default: berth in its home)", true},
	{NULL, NULL, false},
};

const struct berth_provider_ops berth_provider_local = {
	.abi = BERTH_PROVIDER_ABI,
	.name = "local",
	.keys = keys,
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
