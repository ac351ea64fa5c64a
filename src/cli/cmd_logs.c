/* SPDX-License-Identifier: MIT */
/*
 * berth logs: recorded output, raw to the streams' own fds or as JSON objects. Watching ends
 * nothing: when the reader or the watcher goes, the execution runs on.
 *
 * Raw reads go through berth_follow(), which writes to the fds itself; JSON reads are berth_read()
 * calls, so that every object says what was true at that moment, and berth_follow() is only used
 * to wait for more.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "cli/cli.h"

/* One object is made whole in memory. */
#define MAX_BYTES_CAP (32L * 1024 * 1024)
#define TAIL_BLOCK    (256 * 1024)

static struct {
	const char *stream;
	bool follow, wake;
	int64_t lines, offset, max_bytes;
} o = {.lines = -1, .offset = -1};

const struct cli_opt logs_options[] = {
	{.name = "stream",
	 .kind = OPT_STRING,
	 .arg = "stdout|stderr",
	 .choices = "stdout|stderr",
	 .help = "only this stream, on stdout; without it each goes to its own fd",
	 .value = &o.stream},
	{.name = "follow",
	 .letter = 'f',
	 .kind = OPT_FLAG,
	 .help = "go on to the end of the execution and exit as it did",
	 .value = &o.follow},
	{.name = "lines",
	 .letter = 'n',
	 .kind = OPT_COUNT,
	 .flags = OPT_ZERO,
	 .arg = "LINES",
	 .help = "begin this many lines before the end, per stream",
	 .value = &o.lines},
	{.name = "offset",
	 .kind = OPT_SIZE,
	 .flags = OPT_ZERO,
	 .arg = "N",
	 .help = "begin at this byte, counted from the stream's beginning",
	 .value = &o.offset},
	{.name = "max-bytes",
	 .kind = OPT_SIZE,
	 .arg = "N",
	 .deflt = "no limit; 1M with --json",
	 .help = "read at most this many bytes (of each stream; with --json of each object)",
	 .value = &o.max_bytes},
	{.name = "wake",
	 .kind = OPT_FLAG,
	 .help = "resume a stopped sandbox; never creates one",
	 .value = &o.wake},
	{0},
};

static const char *stream_name(enum berth_output s)
{
	return s == BERTH_STDOUT ? "stdout" : "stderr";
}

static const char *id(void)
{
	return cli.args[0];
}

/* ── -n ─────────────────────────────────────────────────────────────────────────────────────── */

/* Kept bytes of a stream, read to look backwards for lines. */
struct block {
	uint64_t from; /* where they begin */
	size_t n;
	uint64_t before; /* where what is kept before them ends: a gap may lie between */
};

/* Reads [from, to) of a stream as far as it is kept, of two parts beside a gap only the later. */
static int read_block(enum berth_output s, uint64_t from, uint64_t to, uint8_t *buf,
		      struct block *ret, struct berth_error *err)
{
	uint64_t at = from;

	*ret = (struct block){.from = from, .before = from};
	while (at < to) {
		struct berth_read_result res = {0};
		int r = berth_read(cli.sandbox, id(), s, at, buf + ret->n, (size_t)(to - at), &res,
				   err);

		if (r < 0)
			return r;
		if (res.has_gap && res.offset > at) {
			memmove(buf, buf + ret->n, res.n);
			*ret = (struct block){.from = res.offset, .before = res.gap_from};
		}
		if (!res.n || res.offset >= to) /* overwritten meanwhile: no part of it is left */
			return 0;
		ret->n += (size_t)(MIN_OF(res.next_offset, to) - res.offset);
		at = res.next_offset;
	}
	return 0;
}

/*
 * The offset at which the last o.lines lines begin. They are those of what is kept, as it is
 * printed: what stands before a gap and what stands behind it is one line.
 */
static int tail_offset(enum berth_output s, uint64_t end, uint64_t *ret, struct berth_error *err)
{
	auto_free uint8_t *buf = malloc(TAIL_BLOCK);
	int64_t left = o.lines;
	uint64_t to = end;
	bool last = true;

	if (!buf)
		return berth_fail_nomem(err);
	while (left > 0 && to > 0) {
		struct block b;
		int r = read_block(s, to > TAIL_BLOCK ? to - TAIL_BLOCK : 0, to, buf, &b, err);

		if (r < 0)
			return r;
		for (size_t i = b.n; i > 0; i--) {
			/* The newline that ends the last line begins no further one. */
			if (buf[i - 1] == '\n' && !last && --left == 0) {
				*ret = b.from + i;
				return 0;
			}
			last = false;
		}
		to = b.before;
	}
	*ret = left > 0 ? to : end;
	return 0;
}

/* Where each stream begins. @st is asked for only when lines are counted. */
static int begin(uint64_t offset[3], struct berth_error *err)
{
	struct berth_status st = {0};
	int r;

	offset[BERTH_STDOUT] = offset[BERTH_STDERR] = o.offset > 0 ? (uint64_t)o.offset : 0;
	if (o.lines < 0)
		return 0;
	r = berth_status(cli.sandbox, id(), &st, err);
	if (r < 0)
		return r;
	r = tail_offset(BERTH_STDOUT, st.stdout_bytes, &offset[BERTH_STDOUT], err);
	return r < 0 ? r : tail_offset(BERTH_STDERR, st.stderr_bytes, &offset[BERTH_STDERR], err);
}

/* ── raw ────────────────────────────────────────────────────────────────────────────────────── */

struct raw {
	uint64_t left[3]; /* of --max-bytes */
	int fd[3];
	unsigned open; /* streams that still want bytes */
	int sys_errno; /* a write that failed */
};

static int raw_data(void *arg, enum berth_output s, const void *p, size_t n)
{
	struct raw *w = arg;
	size_t take = (size_t)MIN_OF((uint64_t)n, w->left[s]);
	int r = take ? write_full(w->fd[s], p, take) : 0;

	if (r < 0) {
		w->sys_errno = -r;
		return 1;
	}
	w->left[s] -= take;
	if (!w->left[s])
		w->open &= ~(1u << s);
	return w->open ? 0 : 1;
}

static void raw_gap(void *arg, enum berth_output s, uint64_t from, uint64_t to)
{
	(void)arg;
	fprintf(stderr, "berth: %s: bytes %llu-%llu were not kept\n", stream_name(s),
		(unsigned long long)from, (unsigned long long)to);
}

static int raw_end(const struct berth_status *st)
{
	char words[1024];

	if (!o.follow) {
		if (st->state == BERTH_PROVIDER_UNAVAILABLE)
			cli_note("interrupted: %s", state_words(st, words, sizeof(words)));
		return 0;
	}
	if (!berth_state_terminal((int)st->state))
		cli_note("interrupted: %s", state_words(st, words, sizeof(words)));
	return state_exit_code(st);
}

static int logs_raw(unsigned streams, const uint64_t offset[3])
{
	struct raw w = {.open = streams, .fd = {-1, 1, o.stream ? 1 : 2}};
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_status st = {0};
	struct berth_follow f;
	int r;

	berth_follow_init(&f);
	f.streams = streams;
	memcpy(f.offset, offset, sizeof(f.offset));
	f.until_current = !o.follow;
	f.gap = raw_gap;
	f.arg = &w;
	w.left[1] = w.left[2] = (uint64_t)o.max_bytes;
	if (o.max_bytes)
		f.data = raw_data;
	for (int s = 1; s <= 2 && !o.max_bytes; s++)
		f.fd_out[s] = w.fd[s];
	r = berth_follow(cli.sandbox, id(), &f, &st, &err);
	if (r > 0 && w.sys_errno)
		r = berth_fail_errno(&err, BERTH_E_IO, w.sys_errno, "cannot write the output");
	if (r > 0)
		return 0; /* --max-bytes reached */
	if (r < 0 && err.sys_errno == EPIPE)
		return 128 + SIGPIPE;
	return r < 0 ? cli_fail(&err) : raw_end(&st);
}

/* ── JSON ───────────────────────────────────────────────────────────────────────────────────── */

static int read_json(enum berth_output s, const struct berth_read_result *res, const uint8_t *data)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(JSON_OUT_MAX);
	struct json j = JSON_INIT(&b);

	json_object(&j);
	json_kv_str(&j, "stream", stream_name(s));
	json_key(&j, "data");
	json_base64(&j, data, res->n);
	json_kv_uint(&j, "offset", res->offset);
	json_kv_uint(&j, "nextOffset", res->next_offset);
	if (res->has_total)
		json_kv_uint(&j, "totalBytes", res->total);
	else
		json_kv_null(&j, "totalBytes");
	json_kv_bool(&j, "eof", res->eof);
	json_kv_bool(&j, "truncated", res->truncated);
	json_kv_bool(&j, "interrupted", res->interrupted);
	if (res->has_gap) {
		json_kv_object(&j, "gap");
		json_kv_uint(&j, "from", res->gap_from);
		json_kv_uint(&j, "to", res->gap_to);
		json_end(&j);
	}
	json_end(&j);
	return print_json(&b, &j);
}

static int stop_at_data(void *arg, enum berth_output s, const void *p, size_t n)
{
	(void)arg;
	(void)s;
	(void)p;
	return n ? 1 : 0;
}

/* Blocks until there is something behind @offset (1) or the state is final (0). */
static int wait_for_more(enum berth_output s, uint64_t offset, struct berth_status *st,
			 struct berth_error *err)
{
	struct berth_follow f;

	berth_follow_init(&f);
	f.streams = 1u << s;
	f.offset[s] = offset;
	f.resumed = true;
	f.data = stop_at_data;
	return berth_follow(cli.sandbox, id(), &f, st, err);
}

/* How it stands, asked by one that has followed it: see struct berth_follow, resumed. */
static bool has_ended(enum berth_output s, struct berth_status *st)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_follow f;

	berth_follow_init(&f);
	f.streams = 1u << s;
	f.offset[s] = UINT64_MAX;
	f.resumed = true;
	f.until_current = true;
	f.data = stop_at_data;
	return berth_follow(cli.sandbox, id(), &f, st, &err) == 0 &&
	       berth_state_terminal((int)st->state);
}

/* The end that the follower has seen holds, whatever became of the sandbox since. */
static void as_sealed(enum berth_output s, const struct berth_status *st,
		      struct berth_read_result *res)
{
	res->interrupted = false;
	res->has_total = true;
	res->total = s == BERTH_STDERR ? st->stderr_bytes : st->stdout_bytes;
	res->truncated = res->next_offset < res->total;
	res->eof = !res->truncated;
}

struct follower {
	enum berth_output s;
	uint64_t offset;
	bool watched; /* it has been seen alive, or its end has */
	bool final;   /* nothing more will come: st tells why */
	bool ended;   /* and that is its sealed end */
	struct berth_status st;
};

static int next_piece(struct follower *f, uint8_t *buf, size_t cap, struct berth_read_result *res,
		      struct berth_error *err)
{
	int r = berth_read(cli.sandbox, id(), f->s, f->offset, buf, cap, res, err);

	/* The record may have gone with its sandbox: all of it has been read. */
	if (r < 0 && f->ended) {
		*res = (struct berth_read_result){.offset = f->offset, .next_offset = f->offset};
		as_sealed(f->s, &f->st, res);
		return res->eof ? 0 : r;
	}
	if (r < 0)
		return r;
	if (res->interrupted && f->watched && !f->ended)
		f->ended = has_ended(f->s, &f->st);
	if (res->interrupted && f->ended)
		as_sealed(f->s, &f->st, res);
	f->watched |= !res->interrupted;
	f->offset = res->next_offset;
	return 0;
}

/* One step: a piece is printed, or waited for. 0 go on, 1 done, or a failure. */
static int follow_step(struct follower *f, uint8_t *buf, size_t cap, int *ret_code,
		       struct berth_error *err)
{
	struct berth_read_result res = {0};
	int r = next_piece(f, buf, cap, &res, err);
	bool end = res.eof || res.interrupted || f->final;

	if (r < 0)
		return r;
	if (res.n || res.has_gap || end) {
		*ret_code = read_json(f->s, &res, buf);
		if (!*ret_code && fflush(stdout))
			*ret_code = 128 + SIGPIPE;
		if (*ret_code)
			return 1;
	}
	if (res.n && !res.eof)
		return 0; /* there may be more already */
	if (end) {
		r = f->ended ? 0 : berth_status(cli.sandbox, id(), &f->st, err);
		*ret_code = r < 0 ? 0 : state_exit_code(&f->st);
		return r < 0 ? r : 1;
	}
	r = wait_for_more(f->s, f->offset, &f->st, err);
	if (r < 0)
		return r;
	f->final = r == 0;
	f->ended = f->final && berth_state_terminal((int)f->st.state);
	return 0;
}

static int follow_json(enum berth_output s, uint64_t offset, uint8_t *buf, size_t cap)
{
	struct berth_error err = BERTH_ERROR_INIT;
	struct follower f = {.s = s, .offset = offset};
	int code = 0, r;

	do
		r = follow_step(&f, buf, cap, &code, &err);
	while (r == 0);
	return r < 0 ? cli_fail(&err) : code;
}

static int logs_json(enum berth_output s, uint64_t offset)
{
	size_t cap = o.max_bytes ? (size_t)MIN_OF(o.max_bytes, (int64_t)MAX_BYTES_CAP)
				 : (size_t)LOGS_JSON_DEFAULT_MAX;
	auto_free uint8_t *buf = malloc(cap);
	struct berth_error err = BERTH_ERROR_INIT;
	struct berth_read_result res = {0};

	if (!buf) {
		berth_fail_nomem(&err);
		return cli_fail(&err);
	}
	if (o.follow)
		return follow_json(s, offset, buf, cap);
	if (berth_read(cli.sandbox, id(), s, offset, buf, cap, &res, &err) < 0)
		return cli_fail(&err);
	return read_json(s, &res, buf);
}

int cmd_logs(void)
{
	struct berth_error err = BERTH_ERROR_INIT;
	enum berth_output only =
		o.stream && !strcmp(o.stream, "stderr") ? BERTH_STDERR : BERTH_STDOUT;
	unsigned streams = o.stream ? 1u << only : 1u << BERTH_STDOUT | 1u << BERTH_STDERR;
	uint64_t offset[3] = {0};
	int r = check_id(id());

	cli.watching = o.follow;
	if (!r && o.lines >= 0 && o.offset >= 0)
		r = cli_usage(NULL, "--lines and --offset exclude each other");
	if (!r && cli.json && !o.stream)
		r = cli_usage("--stream stdout or --stream stderr",
			      "--json needs --stream, as one object is of one stream");
	if (!r)
		r = cli_open(o.wake ? BERTH_OPEN_WAKE : 0);
	if (r)
		return r;
	if (begin(offset, &err) < 0)
		return cli_fail(&err);
	return cli.json ? logs_json(only, offset[only]) : logs_raw(streams, offset);
}
