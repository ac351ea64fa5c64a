/* SPDX-License-Identifier: MIT */
/*
 * stage_options.c: the command line of `berth-agent stage`, one row and one function per option.
 *
 * It checks form only: that a number is one, that a path is absolute. It opens nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/stage.h"
#include "wire/box.h"

bool stage_number(const char *v, int64_t max, int64_t *ret)
{
	char *end;
	long long n;

	if (*v < '0' || *v > '9')
		return false;
	n = strtoll(v, &end, 10);
	if (*end || n > max)
		return false;
	*ret = n;
	return true;
}

static bool take_fd(const char *v, int *ret)
{
	int64_t n;

	if (!stage_number(v, 1 << 20, &n) || n < 3)
		return false;
	*ret = (int)n;
	return true;
}

static bool take_path(const char *v, const char **ret)
{
	*ret = v;
	return *v == '/';
}

static bool opt_bwrap(struct stage_options *o, const char *v)
{
	return take_path(v, &o->bwrap);
}

static bool opt_agent(struct stage_options *o, const char *v)
{
	return take_path(v, &o->agent);
}

static bool opt_newuidmap(struct stage_options *o, const char *v)
{
	return take_path(v, &o->newuidmap);
}

static bool opt_newgidmap(struct stage_options *o, const char *v)
{
	return take_path(v, &o->newgidmap);
}

static bool opt_slirp(struct stage_options *o, const char *v)
{
	return take_path(v, &o->slirp);
}

static bool opt_rootfs(struct stage_options *o, const char *v)
{
	return take_path(v, &o->rootfs);
}

static bool opt_hostname(struct stage_options *o, const char *v)
{
	o->hostname = v;
	return *v && strlen(v) <= 64;
}

static bool opt_ready(struct stage_options *o, const char *v)
{
	return take_fd(v, &o->readyfd);
}

static bool opt_net_ready(struct stage_options *o, const char *v)
{
	return take_fd(v, &o->netreadyfd);
}

static bool opt_lock(struct stage_options *o, const char *v)
{
	return take_fd(v, &o->lockfd);
}

static bool opt_ids(struct stage_options *o, const char *v)
{
	o->ids_given = true;
	o->single = strcmp(v, "single") == 0;
	return o->single || strcmp(v, "range") == 0;
}

static bool opt_base(struct stage_options *o, const char *v)
{
	return stage_number(v, UINT32_MAX - 8, &o->base);
}

static bool opt_gbase(struct stage_options *o, const char *v)
{
	return stage_number(v, UINT32_MAX - 8, &o->gbase);
}

static bool opt_net(struct stage_options *o, const char *v)
{
	return net_mode_parse(v, &o->net);
}

/* Absolute, and the one spelling of it. */
static bool path_is_plain(const char *path)
{
	size_t n = strlen(path);

	return n > 1 && n < 4096 && path[0] == '/' && path[n - 1] != '/' && !strstr(path, "//") &&
	       !strstr(path, "/./") && !strstr(path, "/../") && strcmp(path + n - 2, "/.") != 0 &&
	       (n < 3 || strcmp(path + n - 3, "/..") != 0);
}

static bool add_path(struct stage_options *o, const char *v, bool rw)
{
	if (o->n_paths == STAGE_PATHS_MAX || !path_is_plain(v) || box_path_is_own(v))
		return false;
	o->paths[o->n_paths++] = (struct stage_path){.path = v, .rw = rw};
	return true;
}

static bool opt_ro(struct stage_options *o, const char *v)
{
	return add_path(o, v, false);
}

static bool opt_rw(struct stage_options *o, const char *v)
{
	return add_path(o, v, true);
}

static bool opt_groups(struct stage_options *o, const char *v)
{
	o->groups = v;
	return *v && !strchr(v, '/') && v[0] != '.';
}

static bool opt_memory(struct stage_options *o, const char *v)
{
	return stage_number(v, INT64_MAX, &o->limits.memory);
}

static bool opt_pids(struct stage_options *o, const char *v)
{
	return stage_number(v, INT32_MAX, &o->limits.pids);
}

static bool opt_cpus(struct stage_options *o, const char *v)
{
	return stage_number(v, INT32_MAX, &o->limits.cpus_milli);
}

static bool opt_port(struct stage_options *o, const char *v)
{
	struct stage_port *p = &o->ports[o->n_ports];
	const char *eq = strchr(v, '=');

	if (o->n_ports == STAGE_PORTS_MAX || !eq || !take_fd(eq + 1, &p->fd))
		return false;
	p->port = (int)strtol(v, NULL, 10);
	o->n_ports++;
	return p->port > 0 && p->port < 65536;
}

static bool opt_idle(struct stage_options *o, const char *v)
{
	return stage_number(v, INT64_MAX, &o->idle_ms);
}

static bool opt_expires(struct stage_options *o, const char *v)
{
	return stage_number(v, INT64_MAX, &o->expires_ms);
}

static bool opt_tmp_size(struct stage_options *o, const char *v)
{
	return stage_number(v, INT64_MAX, &o->tmp_size);
}

static const struct {
	const char *name;
	bool (*take)(struct stage_options *o, const char *v);
} options[] = {
	{"--bwrap", opt_bwrap},
	{"--agent", opt_agent},
	{"--hostname", opt_hostname},
	{"--ready", opt_ready},
	{"--ids", opt_ids},
	{"--base", opt_base},
	{"--gbase", opt_gbase},
	{"--newuidmap", opt_newuidmap},
	{"--newgidmap", opt_newgidmap},
	{"--net", opt_net},
	{"--slirp", opt_slirp},
	{"--net-ready", opt_net_ready},
	{"--lock", opt_lock},
	{"--rootfs", opt_rootfs},
	{"--ro", opt_ro},
	{"--rw", opt_rw},
	{"--groups", opt_groups},
	{"--memory", opt_memory},
	{"--pids", opt_pids},
	{"--cpus-milli", opt_cpus},
	{"--port", opt_port},
	{"--idle-ms", opt_idle},
	{"--expires-ms", opt_expires},
	{"--tmp-size", opt_tmp_size},
};

static int take_option(struct stage_options *o, const char *name, const char *v)
{
	for (size_t k = 0; k < ARRAY_LEN(options); k++) {
		if (strcmp(name, options[k].name) != 0)
			continue;
		if (v && options[k].take(o, v))
			return 0;
		return stage_no(NULL, 0, "%s cannot be \"%s\"", name, v ? v : "");
	}
	return stage_no(NULL, 0, "unknown option %s", name);
}

int stage_options_parse(int argc, char **argv, struct stage_options *o)
{
	*o = (struct stage_options){
		.readyfd = -1, .netreadyfd = -1, .lockfd = -1, .base = -1, .gbase = -1};
	for (int i = 1; i < argc; i += 2) {
		if (take_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL) < 0)
			return -1;
	}
	if (!o->ids_given || (!o->single && (o->base <= 0 || o->gbase <= 0)))
		return stage_no(NULL, 0, "needs --ids single, or --ids range, --base and --gbase");
	return 0;
}

int stage_options_check(const struct stage_options *o)
{
	if (!o->bwrap || !o->agent || !o->hostname || o->readyfd < 0)
		return stage_no(NULL, 0, "needs --bwrap, --agent, --hostname and --ready");
	if ((o->net == NET_EGRESS || o->net == NET_PUBLIC) && (!o->slirp || o->netreadyfd < 0))
		return stage_no(NULL, 0, "this kind of network needs --slirp and --net-ready");
	return 0;
}
