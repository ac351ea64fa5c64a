/* SPDX-License-Identifier: MIT */
/*
 * run.c: see run.h. Keeps no state; waits only through the agent, or with a deadline.
 */
#include "run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct level levels[] = {
	{"pidns", 0, {NULL}},
	{"pidns", 54321, {NULL}},
	{"subreaper", 0, {"--level", "subreaper", NULL}},
	{"subreaper", 54321, {"--level", "subreaper", NULL}},
	{"cgroup", 0, {"--level", "cgroup", NULL}},
};
const unsigned n_levels = sizeof(levels) / sizeof(levels[0]);

const char *worker_binary(void)
{
	const char *p = getenv("BERTH_TEST_WORKER");

	return p ? p : "test-worker";
}

/* ---- requests ---- */

static void put_opts(struct wire_w *w, const struct opts *o)
{
	const struct {
		uint16_t key;
		int64_t v;
	} ints[] = {
		{SK_KIND, o->kind},
		{SK_STARTUP_MS, o->startup_ms},
		{SK_TIMEOUT_MS, o->timeout_ms},
		{SK_MEMORY, o->memory},
		{SK_PIDS, o->pids},
		{SK_CPUS_MILLI, o->cpus_milli},
		{SK_CPU_TIME_MS, o->cpu_time_ms},
		{SK_FILE_SIZE, o->file_size},
		{SK_OPEN_FILES, o->open_files},
		{SK_OUTPUT_LIMIT, o->output_limit},
		{SK_TTY_COLS, o->cols},
		{SK_TTY_ROWS, o->rows},
		{SK_STDIN_OPEN, o->stdin_open},
	};

	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
		if (ints[i].v)
			wire_w_int(w, ints[i].key, ints[i].v);
	}
	if (o->grace_set)
		wire_w_int(w, SK_GRACE_MS, o->grace_ms);
	wire_w_int(w, SK_DURABLE, o->durable);
	wire_w_int(w, SK_RECORD_ENV, !o->no_record_env);
	if (o->input) {
		wire_w_int(w, SK_INPUT_KIND, o->input_path ? SPEC_INPUT_FILE : SPEC_INPUT_STDIN);
		wire_w_int(w, SK_INPUT_LEN, (int64_t)o->input_len);
		wire_w_str(w, SK_INPUT_PATH, o->input_path);
	}
	wire_w_str(w, SK_WORKDIR, o->workdir);
	wire_w_str(w, SK_TREE, o->tree);
	for (const char *const *e = o->env; e && *e; e++) {
		wire_w_str(w, SK_ENV, *e);
		wire_w_bytes(w, SK_ENV_NAME, *e, strcspn(*e, "="));
	}
}

int run_launch(struct client *c, const char *id, const struct opts *o, const char *const *argv,
	       struct state *ret)
{
	static const struct opts none;
	struct wire_w *w = client_begin(c, WIRE_LAUNCH);
	size_t at = wire_w_begin(w, WK_SPEC);

	o = o ? o : &none;
	wire_w_str(w, SK_ID, id);
	for (; *argv; argv++)
		wire_w_str(w, SK_ARG, *argv);
	put_opts(w, o);
	wire_w_end(w, at);
	client_end(c);
	if (o->input) {
		client_data(c, o->input, o->input_len);
		client_begin(c, WIRE_END);
		client_end(c);
	}
	client_call(c, 0, NULL, NULL);
	return run_take(c, ret);
}

int run_worker(struct client *c, const char *id, const struct opts *o, const char *const *ops,
	       struct state *ret)
{
	const char *argv[64] = {worker_binary()};

	for (size_t i = 0; ops[i] && i < 62; i++)
		argv[i + 1] = ops[i];
	return run_launch(c, id, o, argv, ret);
}

static struct wire_w *begin(struct client *c, uint8_t type, const char *id, int64_t kind)
{
	struct wire_w *w = client_begin(c, type);

	wire_w_str(w, WK_ID, id);
	if (kind)
		wire_w_int(w, WK_KIND, kind);
	return w;
}

static int finish(struct client *c, struct state *ret)
{
	client_end(c);
	client_call(c, 0, NULL, NULL);
	return run_take(c, ret);
}

int run_wait(struct client *c, const char *id, int64_t kind, struct state *ret)
{
	wire_w_int(begin(c, WIRE_WATCH, id, kind), WK_TERMINAL_ONLY, 1);
	return finish(c, ret);
}

int run_status(struct client *c, const char *id, int64_t kind, struct state *ret)
{
	begin(c, WIRE_STATUS, id, kind);
	return finish(c, ret);
}

int run_cancel(struct client *c, const char *id, int64_t kind, int64_t grace_ms, struct state *ret)
{
	struct wire_w *w = begin(c, WIRE_CANCEL, id, kind);

	if (grace_ms >= 0)
		wire_w_int(w, WK_GRACE_MS, grace_ms);
	return finish(c, ret);
}

int run_simple(struct client *c, uint8_t type, const char *id, int64_t kind, uint16_t key,
	       int64_t value)
{
	struct wire_w *w = begin(c, type, id, kind);

	if (key)
		wire_w_int(w, key, value);
	client_end(c);
	client_call(c, 0, NULL, NULL);
	return client_code(c);
}

int run_until_output(struct client *c, const char *id, int64_t kind, int stream, uint64_t n,
		     struct state *ret)
{
	int64_t out = -1, err = -1, state = 0;

	for (;;) {
		struct wire_w *w = begin(c, WIRE_WATCH, id, kind);

		wire_w_int(w, WK_KNOWN_OUT, out);
		wire_w_int(w, WK_KNOWN_ERR, err);
		wire_w_int(w, WK_KNOWN_STATE, state);
		if (finish(c, ret) < 0)
			return -1;
		out = (int64_t)ret->st.out.length;
		err = (int64_t)ret->st.err.length;
		state = ret->st.state;
		if ((uint64_t)(stream == WIRE_STDERR ? err : out) >= n || state > WIRE_S_RUNNING)
			return (int)state;
	}
}

char *run_read(struct client *c, const char *id, int64_t kind, int stream, size_t *ret_n,
	       uint64_t *ret_gap)
{
	char *all = NULL;
	int64_t offset = 0;

	*ret_n = 0;
	*ret_gap = 0;
	for (;;) {
		struct wire_w *w = begin(c, WIRE_READ, id, kind);
		int64_t next;

		wire_w_int(w, WK_STREAM, stream);
		wire_w_int(w, WK_OFFSET, offset);
		wire_w_int(w, WK_MAX, 4 << 20);
		client_end(c);
		if (client_call(c, 0, NULL, NULL) != WIRE_OK)
			return all;
		next = client_int(c, WK_NEXT, -1);
		if (client_int(c, WK_GAP_TO, 0))
			*ret_gap += (uint64_t)(client_int(c, WK_GAP_TO, 0) - offset);
		all = realloc(all, *ret_n + c->data_len + 1);
		if (!all)
			abort();
		if (c->data_len)
			memcpy(all + *ret_n, c->data, c->data_len);
		*ret_n += c->data_len;
		all[*ret_n] = '\0';
		if (next < 0 || next == offset)
			return all;
		offset = next;
	}
}

/* ---- replies ---- */

static void text(char *to, size_t cap, struct wire_slice v)
{
	size_t n = v.n < cap ? v.n : cap - 1;

	if (n)
		memcpy(to, v.p, n);
	to[n] = '\0';
}

static void take_reply(struct state *s)
{
	struct journal j;
	struct journal_facts f = {0};
	struct wire_slice v, live = {NULL, 0};
	struct wire_r r;
	uint16_t key;

	s->held = f.held = wire_find_int(s->bytes, s->n, WK_HELD, 0);
	s->same_boot = f.same_boot = wire_find_int(s->bytes, s->n, WK_SAMEBOOT, 0);
	s->same_inc = f.same_incarnation = wire_find_int(s->bytes, s->n, WK_SAMEINC, 0);
	s->existed = wire_find_int(s->bytes, s->n, WK_EXISTED, 0);
	wire_find(s->bytes, s->n, WK_LIVE, &live);
	if (journal_from_head(live.p, live.n, &j) < 0) {
		s->code = -1;
		return;
	}
	wire_r_init(&r, s->bytes, s->n);
	while (wire_r_next(&r, &key, &v)) {
		if (key == WK_ENTRY)
			journal_feed(&j, v);
		s->has_spec = s->has_spec || key == WK_SPEC;
	}
	record_status(&j, &f, &s->st);
}

int run_take(struct client *c, struct state *ret)
{
	*ret = (struct state){.code = client_code(c)};
	if (ret->code > 0) {
		snprintf(ret->message, sizeof(ret->message), "%s", client_str(c, WK_MESSAGE));
		snprintf(ret->stage, sizeof(ret->stage), "%s", client_str(c, WK_STAGE));
		snprintf(ret->need, sizeof(ret->need), "%s", client_str(c, WK_NEED));
	}
	if (ret->code || c->n > sizeof(ret->bytes))
		return -1;
	memcpy(ret->bytes, c->p, c->n);
	ret->n = c->n;
	take_reply(ret);
	if (ret->code)
		return -1;
	text(ret->message, sizeof(ret->message), ret->st.message);
	text(ret->phase, sizeof(ret->phase), ret->st.phase);
	text(ret->resource, sizeof(ret->resource), ret->st.resource);
	text(ret->containment, sizeof(ret->containment), ret->st.containment);
	text(ret->view, sizeof(ret->view), ret->st.view);
	text(ret->stage, sizeof(ret->stage), ret->st.stage);
	return ret->st.state;
}

/* ---- processes ---- */

static ssize_t slurp(const char *path, char *buf, size_t cap)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return -1;
	n = fread(buf, 1, cap - 1, f);
	fclose(f);
	buf[n] = '\0';
	return (ssize_t)n;
}

static bool has_word(pid_t pid, const char *word)
{
	char path[64], buf[16384];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	n = slurp(path, buf, sizeof(buf));
	if (n <= 0 || strstr(buf, "berth-agent"))
		return false;
	for (char *p = buf; p < buf + n; p += strlen(p) + 1) {
		if (strcmp(p, word) == 0)
			return true;
	}
	return false;
}

int marked(const char *word, pid_t *pids, int max)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		pid_t pid = (pid_t)atoi(e->d_name);

		if (pid <= 0 || !has_word(pid, word))
			continue;
		if (pids && n < max)
			pids[n] = pid;
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

struct mark {
	const char *word;
	int n;
};

static bool marked_now(void *arg)
{
	const struct mark *m = arg;

	return marked(m->word, NULL, 0) == m->n;
}

bool marked_until(const char *word, int n)
{
	struct mark m = {word, n};

	return client_until(marked_now, &m);
}

pid_t parent_of(pid_t pid)
{
	char path[64], buf[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (slurp(path, buf, sizeof(buf)) <= 0 || !(p = strrchr(buf, ')')))
		return -1;
	return (pid_t)atoi(p + 4);
}

pid_t child_named(pid_t parent, const char *name)
{
	char path[320], line[32];
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (d && !found && (e = readdir(d))) {
		pid_t pid = (pid_t)atoi(e->d_name);
		FILE *f;

		if (pid <= 0 || parent_of(pid) != parent)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		f = fopen(path, "re");
		if (f && fgets(line, sizeof(line), f)) {
			line[strcspn(line, "\n")] = '\0';
			if (strcmp(line, name) == 0)
				found = pid;
		}
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return found;
}

pid_t supervisor_of(pid_t worker)
{
	char path[64], buf[4096];

	for (pid_t pid = parent_of(worker); pid > 1; pid = parent_of(pid)) {
		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		if (slurp(path, buf, sizeof(buf)) > 0 && strstr(buf, "berth-agent"))
			return pid;
	}
	return -1;
}
