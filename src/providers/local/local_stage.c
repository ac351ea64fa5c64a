/* SPDX-License-Identifier: MIT */
/*
 * What isolation=bwrap needs of this machine, and the command line of `berth-agent stage` that
 * a sandbox's keys come to. Nothing is started here.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strv.h"
#include "core/host.h"
#include "providers/local/local_bwrap.h"

void local_tools_done(struct local_tools *t)
{
	free(t->bwrap);
	free(t->slirp);
	free(t->newuidmap);
	free(t->newgidmap);
	free(t->systemd_run);
	*t = (struct local_tools){0};
}

/* ── preflight ──────────────────────────────────────────────────────────────────────────── */

static int need(char **dst, const char *program, const char *what, const char *hint,
		struct berth_error *err)
{
	*dst = host_program(program);
	if (*dst)
		return 0;
	berth_fail(err, BERTH_E_UNAVAILABLE, "%s needs %s, which is not on this machine", what,
		   program);
	return berth_error_hint(err, "%s", hint);
}

static bool has_limits(const struct local_keys *k)
{
	return k->value[KEY_MEMORY] || k->value[KEY_PIDS] || k->value[KEY_CPUS];
}

enum local_scope local_scope_decide(bool root, bool limits, bool own, bool manager)
{
	if (root || own || !limits)
		return SCOPE_NOT_NEEDED;
	return manager ? SCOPE_SYSTEMD : SCOPE_NONE;
}

static int find_scope(const struct local_keys *k, struct local_tools *t, struct berth_error *err)
{
	enum local_scope s;

	if (geteuid() == 0 || !has_limits(k))
		return 0;
	s = local_scope_decide(false, true, host_groups_own(),
			       host_scope_there(getenv("XDG_RUNTIME_DIR")));
	if (s == SCOPE_SYSTEMD)
		return need(&t->systemd_run, "systemd-run", "a limit for an ordinary user",
			    "apt install systemd; or leave memory=, pids= and cpus= out", err);
	if (s == SCOPE_NOT_NEEDED)
		return 0;
	berth_fail(err, BERTH_E_UNAVAILABLE,
		   "memory=, pids= and cpus= need a control group, and yours is not writable and "
		   "no systemd of this user answers");
	return berth_error_hint(err, "log in anew, or loginctl enable-linger; or run as root; or "
				     "leave the limits out");
}

int local_preflight(const struct local_keys *k, struct local_tools *t, struct berth_error *err)
{
	const char *net = local_key_value(k, KEY_NET);
	bool range = strcmp(local_key_value(k, KEY_UIDS), "range") == 0;
	int rc = need(&t->bwrap, "bwrap", "isolation=bwrap",
		      "apt install bubblewrap; or isolation=none, which isolates nothing", err);

	if (rc == 0 && (strcmp(net, "egress") == 0 || strcmp(net, "public") == 0))
		rc = need(&t->slirp, "slirp4netns",
			  strcmp(net, "egress") == 0 ? "net=egress" : "net=public",
			  "apt install slirp4netns; or net=none", err);
	if (rc == 0 && range && geteuid() != 0) {
		rc = need(&t->newuidmap, "newuidmap", "uids=range",
			  "apt install uidmap; or uids=single, which keeps less apart", err);
		if (rc == 0)
			rc = need(&t->newgidmap, "newgidmap", "uids=range",
				  "apt install uidmap; or uids=single, which keeps less apart",
				  err);
	}
	if (rc == 0 && !range && geteuid() == 0) {
		berth_fail(err, BERTH_E_INVALID,
			   "uids=single: as root, the sandbox would have uid 0 of this machine");
		rc = berth_error_hint(err, "leave uids= out");
	}
	return rc < 0 ? rc : find_scope(k, t, err);
}

/* ── the command line ───────────────────────────────────────────────────────────────────── */

static int add_option(struct strv *v, const char *name, const char *value)
{
	int rc = value ? strv_add(v, name) : 0;

	return rc == 0 && value ? strv_add(v, value) : rc;
}

static int add_number(struct strv *v, const char *name, int64_t n)
{
	int rc = n > 0 ? strv_add(v, name) : 0;

	return rc == 0 && n > 0 ? strv_addf(v, "%lld", (long long)n) : rc;
}

static int add_paths(struct strv *v, const char *name, const char *list)
{
	char part[PATH_BUF_MAX];
	int rc = 0;

	while (rc == 0 && local_key_part(&list, part, sizeof(part)))
		rc = add_option(v, name, part);
	return rc;
}

static int add_ids(struct strv *v, const struct local *l, const struct local_tools *t)
{
	bool range = strcmp(local_key_value(&l->record.keys, KEY_UIDS), "range") == 0;
	int rc = add_option(v, "--ids", range ? "range" : "single");

	if (rc == 0)
		rc = add_number(v, "--base", l->record.uid_base);
	if (rc == 0)
		rc = add_number(v, "--gbase", l->record.gid_base);
	if (rc == 0)
		rc = add_option(v, "--newuidmap", t->newuidmap);
	return rc == 0 ? add_option(v, "--newgidmap", t->newgidmap) : rc;
}

static int add_network(struct strv *v, const struct local *l, const struct local_tools *t)
{
	int rc = add_option(v, "--net", local_key_value(&l->record.keys, KEY_NET));

	if (rc == 0)
		rc = add_option(v, "--slirp", t->slirp);
	return rc == 0 && t->slirp ? add_number(v, "--net-ready", FD_NET_READY) : rc;
}

static int add_groups(struct strv *v, const struct local *l)
{
	const struct local_keys *k = &l->record.keys;
	int rc = strv_add(v, "--groups");

	if (rc == 0)
		rc = strv_addf(v, "berth-%s", l->record.id);
	if (rc == 0)
		rc = add_number(v, "--memory", local_key_number(k, KEY_MEMORY));
	if (rc == 0)
		rc = add_number(v, "--pids", local_key_number(k, KEY_PIDS));
	return rc == 0 ? add_number(v, "--cpus-milli", local_key_number(k, KEY_CPUS)) : rc;
}

static int add_scope(struct strv *v, const char *systemd_run)
{
	static const char *const scope[] = {"--user", "--scope",      "--quiet", "--collect",
					    "-p",     "Delegate=yes", "--"};
	int rc = systemd_run ? strv_add(v, systemd_run) : 0;

	for (size_t i = 0; systemd_run && rc == 0 && i < ARRAY_LEN(scope); i++)
		rc = strv_add(v, scope[i]);
	return rc;
}

int local_stage_argv(const struct local *l, const struct local_tools *t, const char *agent,
		     const struct local_ports *ports, struct strv *v)
{
	const struct local_keys *k = &l->record.keys;
	int rc = add_scope(v, t->systemd_run);

	if (rc == 0)
		rc = strv_add(v, agent);
	if (rc == 0)
		rc = strv_add(v, "stage");
	if (rc == 0)
		rc = add_option(v, "--bwrap", t->bwrap);
	if (rc == 0)
		rc = add_option(v, "--agent", agent);
	if (rc == 0)
		rc = add_option(v, "--hostname", l->name);
	if (rc == 0)
		rc = add_number(v, "--ready", FD_READY);
	if (rc == 0)
		rc = add_number(v, "--lock", FD_LOCK);
	if (rc == 0)
		rc = add_ids(v, l, t);
	if (rc == 0)
		rc = add_network(v, l, t);
	if (rc == 0)
		rc = add_option(v, "--rootfs", k->value[KEY_ROOTFS]);
	if (rc == 0)
		rc = add_paths(v, "--ro", k->value[KEY_RO]);
	if (rc == 0)
		rc = add_paths(v, "--rw", k->value[KEY_RW]);
	if (rc == 0)
		rc = add_groups(v, l);
	for (size_t i = 0; rc == 0 && i < ports->n; i++) {
		if (ports->p[i].fd < 0)
			continue;
		rc = strv_add(v, "--port");
		if (rc == 0)
			rc = strv_addf(v, "%u=%d", ports->p[i].port, FD_PORTS + (int)i);
	}
	if (rc == 0)
		rc = add_number(v, "--idle-ms", local_key_number(k, KEY_IDLE));
	return rc == 0 ? add_number(v, "--expires-ms", l->record.expires_ms) : rc;
}
