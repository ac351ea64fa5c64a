/* SPDX-License-Identifier: MIT */
/*
 * seal.c: what a supervisor writes into its journal: STATE running, and TERMINAL.
 *
 * Invariants: entries go into bytes that were written at reservation, so no full disk can stop
 * them; what is written is kept as it is for
 * replies. The terminal state follows from the cause and the wait status alone.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/super.h"

#define WRITE_TRIES 3

static const char *level_name(int level)
{
	return level == LEVEL_PIDNS ? "pidns" : level == LEVEL_CGROUP ? "cgroup" : "subreaper";
}

/* The same bytes through a mapping: for a pwrite that fails although the space is there. */
static bool put_mapped(const struct launch *l, size_t at, const uint8_t *entry, size_t len)
{
	size_t from = at & ~(size_t)4095, span = at - from + len;
	uint8_t *p = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, l->jfd, (off_t)from);

	if (p == MAP_FAILED)
		return false;
	memcpy(p + (at - from), entry, len);
	munmap(p, span);
	return true;
}

/* Into bytes that exist: no full disk can stop this. True when the entry is there. */
static bool append(const struct launch *l, size_t at, uint32_t type, const void *p, size_t n)
{
	uint8_t entry[4096];
	size_t len = journal_entry(entry, sizeof(entry), type, p, n);

	for (int i = 0; len && i < WRITE_TRIES; i++) {
		if (pwrite(l->jfd, entry, len, (off_t)at) == (ssize_t)len)
			return true;
	}
	return len && put_mapped(l, at, entry, len);
}

bool seal_executing(struct super *s)
{
	uint8_t entry[256];
	struct wire_w w;

	wire_w_init(&w, entry, sizeof(entry));
	wire_w_int(&w, JK_STATE, WIRE_S_STARTING);
	wire_w_int(&w, JK_TIME_MS, wall_ms());
	wire_w_str(&w, JK_STAGE, "exec");
	wire_w_str(&w, JK_CONTAINMENT, level_name(s->l->level));
	wire_w_str(&w, JK_VIEW, s->view.level);
	if (!append(s->l, s->l->jend, JOURNAL_STATE, entry, w.len))
		return false;
	s->l->jend += journal_entry_size(w.len);
	return true;
}

void seal_running(struct super *s)
{
	struct wire_w w;

	wire_w_init(&w, s->state_entry, sizeof(s->state_entry));
	wire_w_int(&w, JK_STATE, WIRE_S_RUNNING);
	wire_w_int(&w, JK_TIME_MS, s->started_ms);
	wire_w_int(&w, JK_STARTED_MS, s->started_ms);
	wire_w_str(&w, JK_CONTAINMENT, level_name(s->l->level));
	wire_w_str(&w, JK_VIEW, s->view.level);
	s->state_len = w.len;
	/* Behind an entry that is not there nothing would be found. */
	if (append(s->l, s->l->jend, JOURNAL_STATE, s->state_entry, s->state_len))
		s->l->jend += journal_entry_size(s->state_len);
}

static void put_status(struct wire_w *w, const struct super *s)
{
	if (!s->main_done || !s->started_ms)
		return; /* nothing that ran */
	if (WIFEXITED(s->status))
		wire_w_int(w, JK_EXIT_CODE, WEXITSTATUS(s->status));
	else if (WIFSIGNALED(s->status))
		wire_w_int(w, JK_SIGNAL, WTERMSIG(s->status));
}

static void put_stream(struct wire_w *w, const struct output *o)
{
	bool err = o->stream == WIRE_STDERR;
	uint8_t hash[16], gap[16];

	wire_w_int(w, err ? JK_ERR_LEN : JK_OUT_LEN, (int64_t)o->len);
	output_hash(o, hash);
	wire_w_bytes(w, err ? JK_ERR_HASH : JK_OUT_HASH, hash, sizeof(hash));
	/* An empty gap still says where the ring begins. */
	if (!o->ringed && o->gap_from == o->gap_to)
		return;
	wire_put_u64(gap, o->gap_from);
	wire_put_u64(gap + 8, o->gap_to);
	wire_w_bytes(w, err ? JK_ERR_GAP : JK_OUT_GAP, gap, sizeof(gap));
}

static int64_t tv_ms(struct timeval tv)
{
	return (int64_t)tv.tv_sec * 1000 + tv.tv_usec / 1000;
}

static void put_usage(struct wire_w *w, const struct super *s)
{
	struct rusage ru;
	int64_t user, system, peak = -1;

	getrusage(RUSAGE_CHILDREN, &ru);
	user = tv_ms(ru.ru_utime);
	system = tv_ms(ru.ru_stime);
	if (s->l->group.any && group_cpu_us(&s->l->group, &user, &system) >= 0) {
		user /= 1000;
		system /= 1000;
	}
	wire_w_int(w, JK_USER_MS, user);
	wire_w_int(w, JK_SYSTEM_MS, system);
	if (agent.groups_given)
		peak = group_memory_peak(&s->l->group);
	wire_w_int(w, JK_MAX_RSS, peak >= 0 ? peak : (int64_t)ru.ru_maxrss * 1024);
}

static void put_hits(struct wire_w *w, const struct super *s)
{
	int64_t hits = s->l->group.any ? group_pids_hits(&s->l->group) : 0;
	uint8_t v[5 + 8] = "pids";

	if (hits <= 0)
		return;
	wire_put_u64(v + 5, (uint64_t)hits);
	wire_w_bytes(w, JK_LIMIT_HIT, v, sizeof(v));
}

/* A main process that a limit of ours ended by itself: RLIMIT_CPU by SIGXCPU or, ignored, by
 * SIGKILL; RLIMIT_FSIZE by SIGXFSZ. */
static void resource_from_signal(struct super *s)
{
	const struct spec *sp = &s->l->spec;
	int sig = s->main_done && WIFSIGNALED(s->status) ? WTERMSIG(s->status) : 0;
	int64_t used = tv_ms(s->main_usage.ru_utime) + tv_ms(s->main_usage.ru_stime);

	if (sp->cpu_time_ms &&
	    (sig == SIGXCPU ||
	     (sig == SIGKILL && used + 50 >= (sp->cpu_time_ms + 999) / 1000 * 1000))) {
		s->resource = "cpu";
		s->resource_limit = sp->cpu_time_ms;
	} else if (sp->file_size && sig == SIGXFSZ) {
		s->resource = "file_size";
		s->resource_limit = sp->file_size;
	} else {
		return;
	}
	s->cause = CAUSE_LIMIT;
}

static void put_cause(struct wire_w *w, const struct super *s)
{
	switch (s->cause) {
	case CAUSE_CANCEL:
		wire_w_int(w, JK_STATE, WIRE_S_CANCELLED);
		wire_w_str(w, JK_MESSAGE, s->message);
		break;
	case CAUSE_STARTUP:
	case CAUSE_TIMEOUT:
		wire_w_int(w, JK_STATE, WIRE_S_TIMED_OUT);
		wire_w_str(w, JK_PHASE, s->cause == CAUSE_STARTUP ? "startup" : "execution");
		break;
	case CAUSE_LIMIT:
		wire_w_int(w, JK_STATE, WIRE_S_RESOURCE_EXHAUSTED);
		wire_w_str(w, JK_RESOURCE, s->resource);
		wire_w_int(w, JK_LIMIT, s->resource_limit);
		break;
	case CAUSE_FAILED:
		wire_w_int(w, JK_STATE, WIRE_S_FAILED);
		wire_w_str(w, JK_PHASE, "launch");
		wire_w_str(w, JK_MESSAGE, s->fail.message);
		wire_w_str(w, JK_STAGE, s->fail.stage);
		if (s->fail.err)
			wire_w_int(w, JK_ERRNO, s->fail.err);
		break;
	default:
		wire_w_int(w, JK_STATE, WIRE_S_EXITED);
	}
}

void seal_terminal(struct super *s)
{
	struct wire_w w;

	if (s->cause == CAUSE_EXIT)
		resource_from_signal(s);
	wire_w_init(&w, s->terminal_entry, sizeof(s->terminal_entry));
	put_cause(&w, s);
	put_status(&w, s);
	wire_w_int(&w, JK_TIME_MS, wall_ms());
	if (s->started_ms)
		wire_w_int(&w, JK_STARTED_MS, s->started_ms);
	wire_w_str(&w, JK_CONTAINMENT, level_name(s->l->level));
	wire_w_str(&w, JK_VIEW, s->view.level);
	if (s->started_ms)
		put_usage(&w, s);
	put_hits(&w, s);
	put_stream(&w, &s->out[0]);
	put_stream(&w, &s->out[1]);
	s->terminal_len = w.len;
	append(s->l, s->l->jend, JOURNAL_TERMINAL, s->terminal_entry, s->terminal_len);
	if (s->l->spec.durable)
		fdatasync(s->l->jfd);
}

void seal_failed(const struct launch *l, const struct agent_fail *f)
{
	uint8_t payload[1024];
	struct wire_w w;

	wire_w_init(&w, payload, sizeof(payload));
	wire_w_int(&w, JK_STATE, WIRE_S_FAILED);
	wire_w_str(&w, JK_PHASE, "launch");
	wire_w_str(&w, JK_MESSAGE, f->message);
	wire_w_str(&w, JK_STAGE, f->stage);
	if (f->err)
		wire_w_int(&w, JK_ERRNO, f->err);
	wire_w_int(&w, JK_TIME_MS, wall_ms());
	append(l, l->jend, JOURNAL_TERMINAL, payload, w.len);
	if (l->spec.durable)
		fdatasync(l->jfd);
}
