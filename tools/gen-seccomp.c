/* SPDX-License-Identifier: MIT */
/*
 * gen-seccomp: src/agent/seccomp_rules.h as BPF in a C header, and as a page.
 *
 *	gen-seccomp --header FILE    both architectures' filters
 *	gen-seccomp --doc FILE       docs/seccomp.md
 *
 * Runs while berth is built, and links libseccomp, which the agent then does without. A filter is
 * put together from four pieces, each of which returns its verdict or goes on to the next one:
 *
 *	uses    combinations of arguments that are denied; by libseccomp, default "go on"
 *	only    arguments of which a few values are allowed. libseccomp cannot say "none of these"
 *	        of one argument, so this piece is written here
 *	newer   calls that this libseccomp does not know by name
 *	calls   every other call, a binary tree by libseccomp; default ENOSYS
 *
 * A foreign architecture (on x86-64 also i386 and x32 calls) kills the process: no program gets
 * there by accident, and a call number means something else there.
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
#define PROGRAM_MAX 4096 /* BPF_MAXINSNS: the kernel takes no longer one */

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

static void jump_equal(struct program *p, uint32_t value, size_t yes, size_t no)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (uint8_t)yes,
					    (uint8_t)no));
}

static uint32_t verdict(int err)
{
	return err ? SECCOMP_RET_ERRNO | (uint32_t)err : SECCOMP_RET_ALLOW;
}

static void ret(struct program *p, int err)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict(err)));
}

/*
 * The number of a call on @t: -1 when @t has none. In @ret_new whether libseccomp does not know it.
 */
static int number(const struct target *t, const char *call, bool *ret_new)
{
	int nr = seccomp_syscall_resolve_name_arch(t->token, call);

	*ret_new = false;
	if (nr >= 0)
		return nr;
	for (size_t i = 0; i < COUNT(seccomp_numbers); i++) {
		const struct seccomp_number *s = &seccomp_numbers[i];

		if (strcmp(s->call, call) != 0)
			continue;
		*ret_new = true;
		return *s->arch && strcmp(s->arch, t->name) != 0 ? -1 : s->number;
	}
	if (nr == __NR_SCMP_ERROR)
		die("no such system call: %s", call);
	return -1;
}

/* One that must be there, and known to libseccomp. */
static int known(const struct target *t, const char *call)
{
	bool new;
	int nr = number(t, call, &new);

	if (nr < 0 || new)
		die("%s: a rule about arguments for a call that is not there", call);
	return nr;
}

/* Calls @f with each name of @g. */
static void each_call(const struct seccomp_group *g, void (*f)(void *, const char *, int),
		      void *arg)
{
	char *copy = strdup(g->calls), *save = NULL;

	if (!copy)
		die("out of memory");
	for (char *s = strtok_r(copy, " ", &save); s; s = strtok_r(NULL, " ", &save))
		f(arg, s, g->err);
	free(copy);
}

/* --- the pieces --- */

static void only_piece(struct program *p, const struct target *t)
{
	for (size_t i = 0; i < COUNT(seccomp_only); i++) {
		const struct seccomp_only *o = &seccomp_only[i];
		size_t body = 1 + o->n + 1;

		load(p, offsetof(struct seccomp_data, arch));
		jump_equal(p, t->audit, 0, body + 2);
		load(p, offsetof(struct seccomp_data, nr));
		jump_equal(p, (uint32_t)known(t, o->call), 0, body);
		/* Both architectures are little-endian: the low half is the first one. */
		load(p, offsetof(struct seccomp_data, args[o->arg]));
		for (unsigned v = 0; v < o->n; v++)
			jump_equal(p, o->values[v], o->n - v, 0);
		ret(p, o->err);
	}
}

struct newer {
	struct program *p;
	const struct target *t;
};

static void newer_call(void *arg, const char *call, int err)
{
	struct newer *n = arg;
	bool new;
	int nr = number(n->t, call, &new);

	if (nr < 0 || !new || err == ENOSYS)
		return;
	jump_equal(n->p, (uint32_t)nr, 0, 1);
	ret(n->p, err);
}

static void newer_piece(struct program *p, const struct target *t)
{
	struct program *body = calloc(1, sizeof(*body));
	struct newer n = {body, t};

	if (!body)
		die("out of memory");
	for (size_t i = 0; i < COUNT(seccomp_groups); i++)
		each_call(&seccomp_groups[i], newer_call, &n);
	load(p, offsetof(struct seccomp_data, arch));
	if (body->n + 1 > 255)
		die("too many newer calls for one jump");
	jump_equal(p, t->audit, 0, body->n + 1);
	load(p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < body->n; i++)
		add(p, body->in[i]);
	free(body);
}

static void check(int r, const char *what)
{
	if (r < 0)
		die("libseccomp: %s: %s", what, strerror(-r));
}

static scmp_filter_ctx context(const struct target *t, uint32_t action)
{
	scmp_filter_ctx ctx = seccomp_init(action);

	if (!ctx)
		die("libseccomp: no context");
	if (t->token != seccomp_arch_native()) {
		check(seccomp_arch_add(ctx, t->token), t->name);
		check(seccomp_arch_remove(ctx, seccomp_arch_native()), t->name);
	}
	check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
	return ctx;
}

static void export(scmp_filter_ctx ctx, struct program *ret_p)
{
	FILE *f = tmpfile();

	if (!f)
		die("no temporary file");
	check(seccomp_export_bpf(ctx, fileno(f)), "export");
	rewind(f);
	ret_p->n = fread(ret_p->in, sizeof(ret_p->in[0]), PROGRAM_MAX, f);
	if (ret_p->n == 0 || ret_p->n == PROGRAM_MAX)
		die("libseccomp: a filter of %zu instructions", ret_p->n);
	fclose(f);
	seccomp_release(ctx);
}

/* Appends @more; with @go_on, where it would allow, what follows decides. */
static void append(struct program *p, const struct program *more, bool go_on)
{
	for (size_t i = 0; i < more->n; i++) {
		struct sock_filter in = more->in[i];

		if (go_on && in.code == (BPF_RET | BPF_K) && in.k == SECCOMP_RET_ALLOW)
			in = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA,
							  (uint32_t)(more->n - i - 1));
		add(p, in);
	}
}

/* libseccomp takes the native number whatever the architecture. */
static int native(const char *call)
{
	int nr = seccomp_syscall_resolve_name(call);

	if (nr == __NR_SCMP_ERROR)
		die("no such system call: %s", call);
	return nr;
}

static void use_rule(scmp_filter_ctx ctx, const struct seccomp_use *u, uint32_t bit)
{
	struct scmp_arg_cmp cmp[COUNT(u->arg)];
	unsigned n = 0;

	for (unsigned i = 0; i < COUNT(u->arg); i++) {
		const struct seccomp_cond *c = &u->arg[i];

		if (c->op == SECCOMP_MASKED)
			cmp[n++] = SCMP_CMP64(i, SCMP_CMP_MASKED_EQ, c->mask, c->value);
		else if (c->op == SECCOMP_NOT)
			cmp[n++] = SCMP_CMP64(i, SCMP_CMP_NE, c->value);
		else if (c->op == SECCOMP_BITS)
			cmp[n++] = SCMP_CMP64(i, SCMP_CMP_MASKED_EQ, bit, bit);
	}
	check(seccomp_rule_add_exact_array(ctx, SCMP_ACT_ERRNO((uint32_t)u->err), native(u->call),
					   n, cmp),
	      u->what);
}

static void uses_piece(struct program *p, const struct target *t)
{
	scmp_filter_ctx ctx = context(t, SCMP_ACT_ALLOW);
	struct program *piece = calloc(1, sizeof(*piece));

	if (!piece)
		die("out of memory");
	for (size_t i = 0; i < COUNT(seccomp_uses); i++) {
		const struct seccomp_use *u = &seccomp_uses[i];
		uint32_t bits = 0;

		known(t, u->call);
		for (unsigned a = 0; a < COUNT(u->arg); a++)
			bits |= u->arg[a].op == SECCOMP_BITS ? u->arg[a].mask : 0;
		if (!bits)
			use_rule(ctx, u, 0);
		for (unsigned b = 0; b < 32; b++) {
			if (bits & 1u << b)
				use_rule(ctx, u, 1u << b);
		}
	}
	export(ctx, piece);
	append(p, piece, true);
	free(piece);
}

struct calls {
	scmp_filter_ctx ctx;
	const struct target *t;
};

static void call_rule(void *arg, const char *call, int err)
{
	struct calls *c = arg;
	bool new;
	int nr = number(c->t, call, &new);

	if (nr < 0 || new || err == ENOSYS) /* the default */
		return;
	check(seccomp_rule_add_exact(c->ctx, err ? SCMP_ACT_ERRNO((uint32_t)err) : SCMP_ACT_ALLOW,
				     native(call), 0),
	      call);
}

static void calls_piece(struct program *p, const struct target *t)
{
	struct program *piece = calloc(1, sizeof(*piece));
	struct calls c = {context(t, SCMP_ACT_ERRNO(ENOSYS)), t};

	if (!piece)
		die("out of memory");
	/* A binary tree: the kernel walks the filter for each of the calls when it is loaded. */
	check(seccomp_attr_set(c.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
	for (size_t i = 0; i < COUNT(seccomp_groups); i++)
		each_call(&seccomp_groups[i], call_rule, &c);
	export(c.ctx, piece);
	append(p, piece, false);
	free(piece);
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
		uses_piece(p, &targets[i]);
		only_piece(p, &targets[i]);
		newer_piece(p, &targets[i]);
		calls_piece(p, &targets[i]);
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
