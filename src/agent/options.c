/* SPDX-License-Identifier: MIT */
/*
 * options.c: the command line of init, as a table.
 *
 * It is written by berth itself (the local provider and stage.c), never by people: what is not
 * understood is an error and not a guess.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/options.h"

static bool number(const char *s, int64_t max, int64_t *ret)
{
	char *end;
	long long v;

	if (*s < '0' || *s > '9')
		return false;
	v = strtoll(s, &end, 10);
	if (v < 0 || v > max)
		return false;
	*ret = v;
	return *end == '\0';
}

static bool take_fd(const char *s, int *ret)
{
	int64_t v;

	if (!number(s, 1 << 20, &v))
		return false;
	*ret = (int)v;
	return true;
}

/* "NAME=FD": the length of NAME. */
static bool named_fd(const char *s, size_t *ret_name, int *ret_fd)
{
	const char *eq = strchr(s, '=');

	*ret_name = eq ? (size_t)(eq - s) : 0;
	return eq && take_fd(eq + 1, ret_fd);
}

static bool opt_ready(struct init_options *o, const char *v)
{
	return take_fd(v, &o->readyfd);
}

static bool opt_exit_fd(struct init_options *o, const char *v)
{
	return take_fd(v, &o->exitfd);
}

/* The lock of a start. */
static bool opt_staging(struct init_options *o, const char *v)
{
	return take_fd(v, &o->staging) && o->staging > 2;
}

static bool opt_net_watch(struct init_options *o, const char *v)
{
	return take_fd(v, &o->netwatch);
}

static bool opt_idle(struct init_options *o, const char *v)
{
	return number(v, INT64_MAX, &o->idle_ms);
}

static bool opt_expires(struct init_options *o, const char *v)
{
	return number(v, INT64_MAX, &o->expires_ms);
}

static bool opt_level(struct init_options *o, const char *v)
{
	static const char *const names[] = {
		[LEVEL_PIDNS] = "pidns",
		[LEVEL_CGROUP] = "cgroup",
		[LEVEL_SUBREAPER] = "subreaper",
	};

	(void)o;
	for (int i = LEVEL_PIDNS; i <= LEVEL_SUBREAPER; i++) {
		if (strcmp(v, names[i]) == 0)
			agent.level = i;
	}
	return strcmp(v, names[agent.level]) == 0;
}

static bool opt_worker(struct init_options *o, const char *v)
{
	char *end;
	unsigned long uid = strtoul(v, &end, 10), gid;

	(void)o;
	if (end == v || *end != ':' || end[1] < '0' || end[1] > '9')
		return false;
	gid = strtoul(end + 1, &end, 10);
	agent.worker_uid = (uid_t)uid;
	agent.worker_gid = (gid_t)gid;
	return *end == '\0';
}

static bool opt_app(struct init_options *o, const char *v)
{
	(void)o;
	agent.app = v;
	return *v == '/';
}

static bool opt_group(struct init_options *o, const char *v)
{
	static const char *const names[AGENT_GROUPS] = {
		[GROUP_MEMORY] = "memory",   [GROUP_PIDS] = "pids", [GROUP_CPU] = "cpu",
		[GROUP_CPUACCT] = "cpuacct", [GROUP_V2] = "v2",
	};
	size_t n;
	int fd;

	(void)o;
	if (!named_fd(v, &n, &fd))
		return false;
	agent.groups_given = true;
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (strlen(names[i]) == n && strncmp(v, names[i], n) == 0) {
			agent.group_fds[i] = fd;
			return true;
		}
	}
	return false;
}

static bool opt_port(struct init_options *o, const char *v)
{
	struct init_port *p = &o->ports[o->n_ports];
	size_t n;

	if (o->n_ports == PORTS_MAX || !named_fd(v, &n, &p->fd))
		return false;
	p->port = (int)strtol(v, NULL, 10);
	o->n_ports++;
	return p->port > 0 && p->port < 65536;
}

static bool opt_daemon(struct init_options *o, const char *v)
{
	(void)v;
	return o->background = true;
}

static bool opt_walled(struct init_options *o, const char *v)
{
	(void)o;
	(void)v;
	return agent.walled = true;
}

static bool opt_shared(struct init_options *o, const char *v)
{
	(void)o;
	(void)v;
	agent.file_mode = 0660;
	agent.dir_mode = 0770;
	return true;
}

static bool opt_public(struct init_options *o, const char *v)
{
	(void)v;
	return o->public_only = true;
}

static const struct {
	const char *name;
	bool flag; /* has no value */
	bool (*take)(struct init_options *o, const char *v);
} options[] = {
	/* clang-format off */
	{"--daemon", true, opt_daemon},
	{"--walled", true, opt_walled},
	{"--shared", true, opt_shared},
	{"--public-only", true, opt_public},
	{"--level", false, opt_level},
	{"--ready", false, opt_ready},
	{"--worker", false, opt_worker},
	{"--app", false, opt_app},
	{"--group", false, opt_group},
	{"--port", false, opt_port},
	{"--exit-fd", false, opt_exit_fd},
	{"--staging", false, opt_staging},
	{"--net-watch", false, opt_net_watch},
	{"--idle-ms", false, opt_idle},
	{"--expires-ms", false, opt_expires},
	/* clang-format on */
};

/* One option at argv[*i], which is moved on. */
static bool take_option(struct init_options *o, int argc, char **argv, int *i)
{
	for (size_t k = 0; k < ARRAY_LEN(options); k++) {
		if (strcmp(argv[*i], options[k].name) != 0)
			continue;
		if (options[k].flag)
			return options[k].take(o, NULL);
		return *i + 1 < argc && options[k].take(o, argv[++*i]);
	}
	return false;
}

int init_options_parse(int argc, char **argv, struct init_options *ret)
{
	int i;

	*ret = (struct init_options){.readyfd = -1, .exitfd = -1, .netwatch = -1, .staging = -1};
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!take_option(ret, argc, argv, &i))
			return -1;
	}
	if (i != argc - 1 || !argv[i][0])
		return -1;
	ret->dir = argv[i];
	return 0;
}

size_t init_options_fds(const struct init_options *o, int *ret)
{
	size_t n = 0;

	ret[n++] = o->readyfd;
	ret[n++] = o->exitfd;
	ret[n++] = o->netwatch;
	ret[n++] = o->staging;
	for (int i = 0; i < AGENT_GROUPS; i++)
		ret[n++] = agent.group_fds[i];
	for (size_t i = 0; i < o->n_ports; i++)
		ret[n++] = o->ports[i].fd;
	return n;
}
