/* SPDX-License-Identifier: MIT */
/*
 * The launcher without walls (isolation=none): init is a process of this machine, of our own uid,
 * in the sandbox's home. It survives us: it makes itself a daemon. The agent binary is kept once
 * per state folder, under its hash.
 */
#include "providers/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/strv.h"
#include "core/agent_blob.h"
#include "loop/child.h"

/* From spawn to "it listens": a start takes a few ms; this is for a machine that swaps. */
#define START_MS 20000

BERTH_DEFINE_AUTO_PTR(strv_items, char **, strv_free_items);

int local_agent_path(const struct local *l, char **ret, struct berth_error *err)
{
	auto_free char *path = NULL, *dir = NULL;
	const struct agent_blob *blob;
	struct utsname u;
	struct stat st;
	int rc;

	uname(&u);
	blob = agent_blob_get(u.machine);
	if (!blob)
		return berth_fail(err, BERTH_E_UNSUPPORTED, "this berth has no agent for %s",
				  u.machine);
	dir = mem_printf("%s/agent/%s", l->state_dir, blob->hash);
	path = dir ? path_join(dir, "berth-agent") : NULL;
	if (!path)
		return berth_fail_nomem(err);
	if (stat(path, &st) < 0 || (size_t)st.st_size != blob->size) {
		rc = mkdir_p(AT_FDCWD, dir, 0700);
		if (rc < 0)
			return berth_fail_errno(err, 0, -rc, "%s", dir);
		rc = write_file_atomic(AT_FDCWD, path, blob->data, blob->size, 0755,
				       WRITE_FILE_SYNC, err);
		if (rc < 0)
			return rc;
	}
	*ret = TAKE_PTR(path);
	return 0;
}

/* What init said before it gave up, one line. */
static int start_failed(int errfd, const char *dir, const char *how, struct berth_error *err)
{
	char text[400] = "";
	ssize_t n = pread_full(errfd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox's init for %s did not start: %s",
			  dir, text[0] ? text : how);
}

static int run_init(struct local *l, const char *agent, const char *dir, struct berth_error *err)
{
	/* --daemon: this process ends, with 0, when the init that it has made (or another
	 * starter's) listens. */
	const char *argv[] = {"berth-agent", "init", "--daemon", NULL, NULL,
			      NULL,          NULL,   NULL,       NULL};
	auto(strv_items) char **env = local_environment(l);
	auto(child) struct child child = CHILD_INIT;
	auto_close int errfd = -1;
	struct child_params p = CHILD_PARAMS_INIT;
	struct child_exit end = {0};
	struct statvfs fs;
	char how[32], idle[24], expires[24];
	size_t n = 3;
	int rc;

	snprintf(idle, sizeof(idle), "%lld",
		 (long long)local_key_number(&l->record.keys, KEY_IDLE));
	snprintf(expires, sizeof(expires), "%lld", (long long)l->record.expires_ms);
	if (l->record.keys.value[KEY_IDLE]) {
		argv[n++] = "--idle-ms";
		argv[n++] = idle;
	}
	if (l->record.expires_ms) {
		argv[n++] = "--expires-ms";
		argv[n++] = expires;
	}
	argv[n] = dir;
	errfd = fd_move_above_2(memfd_create("init-errors", MFD_CLOEXEC));
	if (!env || errfd < 0)
		return berth_fail_nomem(err);
	p.file = agent;
	p.argv = (char *const *)argv;
	p.env = env;
	p.cwd = l->home;
	p.fds = (struct child_fd[]){{errfd, 2}};
	p.n_fds = 1;
	p.setsid = true;
	p.fresh_limits = true;
	rc = child_spawn(&p, &child, NULL, err);
	if (rc == BERTH_E_PERM && statvfs(agent, &fs) == 0 && fs.f_flag & ST_NOEXEC)
		berth_error_hint(err,
				 "its file system is mounted noexec: give another --state DIR");
	if (rc == 0)
		rc = child_wait(&child, START_MS, &end, err);
	if (rc > 0)
		return berth_fail(err, BERTH_E_TIMEOUT, "the sandbox's init for %s is not ready",
				  dir);
	if (rc < 0)
		return rc;
	snprintf(how, sizeof(how), "%s %d", end.signaled ? "signal" : "exit",
		 end.signaled ? end.signal : end.code);
	return end.signaled || end.code != 0 ? start_failed(errfd, dir, how, err) : 0;
}

static int none_start_init(struct local *l, const char *dir, struct berth_error *err)
{
	auto_free char *agent = NULL;
	int rc = mkdir_p(AT_FDCWD, dir, 0700);

	if (rc < 0)
		return berth_fail_errno(err, 0, -rc, "%s", dir);
	rc = local_agent_path(l, &agent, err);
	return rc < 0 ? rc : run_init(l, agent, dir, err);
}

/* Ports are this machine's own. */
static void describe_ports(const struct local *l, char *buf, size_t cap)
{
	struct local_port_want p[LOCAL_PORTS_MAX];
	size_t n = local_keys_ports(&l->record.keys, p), len = 0;

	for (size_t i = 0; i < n && len < cap; i++)
		len += (size_t)snprintf(buf + len, cap - len, "%s%u=http://127.0.0.1:%u",
					i ? " " : "", p[i].port, p[i].port);
}

static void none_describe(const struct local *l, bool alive, struct berth_provider_info *info)
{
	if (alive)
		describe_ports(l, info->ports, sizeof(info->ports));
	snprintf(info->isolation, sizeof(info->isolation), "none");
	snprintf(info->net, sizeof(info->net), "host");
	snprintf(info->containment, sizeof(info->containment), "subreaper");
	info->records_protected = false;
	info->init_is_life = false;
}

const struct launcher local_launcher_none = {
	.name = "none",
	.start_init = none_start_init,
	.describe = none_describe,
};
