/* SPDX-License-Identifier: MIT */
/*
 * gen-seccomp: src/agent/seccomp_rules.h as BPF in a C header, and as a page.
 *
 *	gen-seccomp --header FILE    both architectures' filters
 *	gen-seccomp --doc FILE       docs/seccomp.md
 *
 * Runs while berth is built. libseccomp tells the numbers of the calls on each architecture; the
 * agent does without it. The instructions are put together here, because libseccomp compares call by
 * call: 600 instructions, whose loading took 200 us for every program that is started. Most calls
 * with one verdict are neighbours, and a binary tree over the borders is a quarter of that. Every
 * number of both filters is tested against the table (tests/unit/agent/test_seccomp.c).
 *
 * A filter: the architecture, then the calls with rules about arguments, then the tree. A foreign
 * architecture (on x86-64 also i386 and x32 calls) kills the process: no program gets there by
 * accident, and a call number means something else there.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/seccomp_rules.h"

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define PROGRAM_MAX 1024
#define CALLS_MAX   512 /* numbers from here on are in no group */
#define X32_BIT     0x40000000u

struct program {
	struct sock_filter in[PROGRAM_MAX];
	size_t n;
};

static const struct target {
	const char *name;
	uint32_t token, audit;
} targets[] = {
	{"x86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64},
	{"aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("gen-seccomp: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void add(struct program *p, struct sock_filter in)
{
	if (p->n == PROGRAM_MAX)
		die("the filter is longer than %d instructions", PROGRAM_MAX);
	p->in[p->n++] = in;
}

static void load(struct program *p, size_t offset)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static uint32_t verdict(int err)
{
	return err ? SECCOMP_RET_ERRNO | (uint32_t)err : SECCOMP_RET_ALLOW;
}

static void ret(struct program *p, uint32_t verdict)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void jump(struct program *p, uint16_t how, uint32_t value, size_t yes, size_t no)
{
	if (yes > UINT8_MAX || no > UINT8_MAX)
		die("a jump over %zu instructions", yes > no ? yes : no);
	add(p, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | how | BPF_K), value, (uint8_t)yes,
					    (uint8_t)no));
}

static void append(struct program *p, const struct program *more)
{
	for (size_t i = 0; i < more->n; i++)
		add(p, more->in[i]);
}

/* The number of a call on @t, -1 when @t has none. */
static int number(const struct target *t, const char *call)
{
	int nr = seccomp_syscall_resolve_name_arch(t->token, call);

	if (nr >= 0)
		return nr;
	for (size_t i = 0; i < COUNT(seccomp_numbers); i++) {
		const struct seccomp_number *s = &seccomp_numbers[i];

		if (strcmp(s->call, call) == 0)
			return *s->arch && strcmp(s->arch, t->name) != 0 ? -1 : s->number;
	}
	if (nr == __NR_SCMP_ERROR)
		die("no such system call: %s", call);
	return -1;
}

/* --- what each number gets --- */

/* @ret[i]: the verdict for call i, from the groups. */
static void verdicts(const struct target *t, uint32_t ret[CALLS_MAX])
{
	for (size_t i = 0; i < CALLS_MAX; i++)
		ret[i] = verdict(ENOSYS);
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		char *copy = strdup(seccomp_groups[i].calls), *save = NULL;

		if (!copy)
			die("out of memory");
		for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
			int nr = number(t, s);

			if (nr >= CALLS_MAX)
				die("%s has number %d", s, nr);
			if (nr >= 0)
				ret[nr] = verdict(seccomp_groups[i].err);
		}
		free(copy);
	}
}

struct border {
	uint32_t from, verdict;
};

static void tree(struct program *p, const struct border *b, size_t n)
{
	struct program left = {.n = 0};

	if (n == 1) {
		ret(p, b->verdict);
		return;
	}
	tree(&left, b, n / 2);
	jump(p, BPF_JGE, b[n / 2].from, left.n, 0);
	append(p, &left);
	tree(p, b + n / 2, n - n / 2);
}

static void calls(struct program *p, const uint32_t verdict_of[CALLS_MAX])
{
	struct border b[CALLS_MAX + 1] = {{0}};
	size_t n = 0;

	for (uint32_t i = 0; i < CALLS_MAX; i++) {
		if (n == 0 || b[n - 1].verdict != verdict_of[i])
			b[n++] = (struct border){i, verdict_of[i]};
	}
	if (b[n - 1].verdict != verdict(ENOSYS))
		die("the last number has a verdict");
	tree(p, b, n);
}

/* --- rules about arguments --- */

static void load_arg(struct program *p, unsigned i)
{
	/* Both architectures are little-endian: the low half is the first one. */
	load(p, offsetof(struct seccomp_data, args[i]));
}

static void only(struct program *p, const struct seccomp_only *o)
{
	load_arg(p, o->arg);
	for (unsigned i = 0; i < o->n; i++)
		jump(p, BPF_JEQ, o->values[i], o->n - i, 0);
	ret(p, verdict(o->err));
}

static size_t cond_length(const struct seccomp_cond *c)
{
	return c->op == SECCOMP_ANY ? 0 : c->op == SECCOMP_MASKED && c->mask != ~0u ? 3 : 2;
}

/* @left: the instructions of this rule behind this condition, to be left out when it fails. */
static void cond(struct program *p, const struct seccomp_cond *c, unsigned arg, size_t left)
{
	if (c->op == SECCOMP_ANY)
		return;
	load_arg(p, arg);
	if (c->op == SECCOMP_MASKED && c->mask != ~0u)
		add(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
	if (c->op == SECCOMP_BITS)
		jump(p, BPF_JSET, c->mask, 0, left);
	else if (c->op == SECCOMP_NOT)
		jump(p, BPF_JEQ, c->value, left, 0);
	else
		jump(p, BPF_JEQ, c->value, 0, left);
}

static void use(struct program *p, const struct seccomp_use *u)
{
	size_t left = 1;

	for (unsigned i = 0; i < COUNT(u->arg); i++)
		left += cond_length(&u->arg[i]);
	for (unsigned i = 0; i < COUNT(u->arg); i++) {
		left -= cond_length(&u->arg[i]);
		cond(p, &u->arg[i], i, left);
	}
	ret(p, verdict(u->err));
}

/* All rules about @call; what passes them is allowed. */
static void rules_of(struct program *p, const struct target *t, const char *call,
		     const uint32_t verdict_of[CALLS_MAX])
{
	struct program body = {.n = 0};
	int nr = number(t, call);

	if (nr < 0 || verdict_of[nr] != SECCOMP_RET_ALLOW)
		die("%s has rules about arguments and is not allowed", call);
	for (size_t i = 0; i < COUNT(seccomp_uses); i++) {
		if (strcmp(seccomp_uses[i].call, call) == 0)
			use(&body, &seccomp_uses[i]);
	}
	for (size_t i = 0; i < COUNT(seccomp_only); i++) {
		if (strcmp(seccomp_only[i].call, call) == 0)
			only(&body, &seccomp_only[i]);
	}
	ret(&body, SECCOMP_RET_ALLOW);
	jump(p, BPF_JEQ, (uint32_t)nr, 0, body.n);
	append(p, &body);
}

static void arguments(struct program *p, const struct target *t,
		      const uint32_t verdict_of[CALLS_MAX])
{
	const char *done[COUNT(seccomp_uses) + COUNT(seccomp_only)];
	size_t n = 0;

	for (size_t i = 0; i < COUNT(done); i++) {
		const char *call = i < COUNT(seccomp_uses)
					   ? seccomp_uses[i].call
					   : seccomp_only[i - COUNT(seccomp_uses)].call;
		bool again = false;

		for (size_t j = 0; j < n; j++)
			again = again || strcmp(done[j], call) == 0;
		if (again)
			continue;
		done[n++] = call;
		rules_of(p, t, call, verdict_of);
	}
}

static void filter(struct program *p, const struct target *t)
{
	uint32_t verdict_of[CALLS_MAX];

	verdicts(t, verdict_of);
	load(p, offsetof(struct seccomp_data, arch));
	jump(p, BPF_JEQ, t->audit, 1, 0);
	ret(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
	if (t->token == SCMP_ARCH_X86_64) {
		/* -1 has the bit, too, and is what a tracer makes of a call to be left out. */
		jump(p, BPF_JGE, X32_BIT, 0, 2);
		jump(p, BPF_JEQ, ~0u, 1, 0);
		ret(p, SECCOMP_RET_KILL_PROCESS);
	}
	arguments(p, t, verdict_of);
	/* The accumulator holds the number still: only a call with rules loads something else,
	 * and it ends there. */
	calls(p, verdict_of);
}

/* --- output --- */

static void header(FILE *f)
{
	struct program *p = calloc(1, sizeof(*p));

	if (!p)
		die("out of memory");
	fputs("/* Made by tools/gen-seccomp from src/agent/seccomp_rules.h. */\n"
	      "#include <linux/filter.h>\n",
	      f);
	for (size_t i = 0; i < COUNT(targets); i++) {
		p->n = 0;
		filter(p, &targets[i]);
		fprintf(f, "\n#if defined(__%s__) || defined(SECCOMP_FILTERS)\n", targets[i].name);
		fprintf(f, "static const struct sock_filter seccomp_filter_%s[%zu] = {\n",
			targets[i].name, p->n);
		for (size_t j = 0; j < p->n; j++)
			fprintf(f, "\t{0x%02x, %u, %u, 0x%08x},\n", p->in[j].code, p->in[j].jt,
				p->in[j].jf, p->in[j].k);
		fprintf(f,
			"};\n#endif\n#ifdef __%s__\n#define seccomp_filter "
			"seccomp_filter_%s\n#endif\n",
			targets[i].name, targets[i].name);
	}
	free(p);
}

static const char *error_name(int err)
{
	switch (err) {
	case 0:
		return "allowed";
	case EPERM:
		return "`EPERM`";
	case ENOSYS:
		return "`ENOSYS`";
	case EAFNOSUPPORT:
		return "`EAFNOSUPPORT`";
	case EPROTONOSUPPORT:
		return "`EPROTONOSUPPORT`";
	default:
		die("an error without a name: %d", err);
	}
}

static void doc_groups(FILE *f, bool allowed)
{
	for (size_t i = 0; i < COUNT(seccomp_groups); i++) {
		const struct seccomp_group *g = &seccomp_groups[i];

		if (allowed != (g->err == 0))
			continue;
		if (allowed)
			fprintf(f, "| %s | %s | `%s` |\n", g->name, g->reason, g->calls);
		else
			fprintf(f, "| %s | %s | %s | `%s` |\n", g->name, error_name(g->err),
				g->reason, g->calls);
	}
}

static void doc(FILE *f)
{
	fputs("# The system call filter\n\n"
	      "<!-- Made by tools/gen-seccomp from src/agent/seccomp_rules.h. Do not edit. -->\n\n"
	      "Every program in a sandbox with `isolation=bwrap` runs under this filter: the "
	      "workers, the\n"
	      "commands of `berth exec`, installs, and all that they start. It is loaded last "
	      "before the\n"
	      "program, cannot be taken off, and is not on the sandbox's init. What it is for:\n"
	      "[security.md](security.md).\n\n"
	      "- A call that stands in no group is newer than this table (Linux " SECCOMP_LINUX
	      "): it gets `ENOSYS`, as\n"
	      "  from an older kernel, for which programs have a second way.\n"
	      "- Calls of another architecture (on x86-64 those of i386 and x32 programs) end the "
	      "process with\n"
	      "  `SIGSYS`.\n"
	      "- A call that is allowed is still judged by the kernel: by uid, capabilities "
	      "(none),\n"
	      "  namespaces, limits.\n\n"
	      "## Denied\n\n| group | gets | because | calls |\n| --- | --- | --- | --- |\n",
	      f);
	doc_groups(f, false);
	fputs("\n## Allowed with some arguments only\n\n"
	      "The kernel reads 32 bits of each of these arguments, and so does the filter.\n\n"
	      "| call | rule | else |\n| --- | --- | --- |\n",
	      f);
	for (size_t i = 0; i < COUNT(seccomp_only); i++)
		fprintf(f, "| `%s` | only %s | %s |\n", seccomp_only[i].call, seccomp_only[i].what,
			error_name(seccomp_only[i].err));
	for (size_t i = 0; i < COUNT(seccomp_uses); i++)
		fprintf(f, "| `%s` | not %s | %s |\n", seccomp_uses[i].call, seccomp_uses[i].what,
			error_name(seccomp_uses[i].err));
	fputs("\n## Allowed\n\n| group | what | calls |\n| --- | --- | --- |\n", f);
	doc_groups(f, true);
}

int main(int argc, char **argv)
{
	FILE *f;

	if (argc != 3 || (strcmp(argv[1], "--header") != 0 && strcmp(argv[1], "--doc") != 0)) {
		fputs("usage: gen-seccomp --header|--doc FILE\n", stderr);
		return 2;
	}
	f = fopen(argv[2], "w");
	if (!f)
		die("%s: %m", argv[2]);
	(strcmp(argv[1], "--doc") == 0 ? doc : header)(f);
	if (fclose(f) != 0)
		die("%s: %m", argv[2]);
	return 0;
}
