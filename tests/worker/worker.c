/* SPDX-License-Identifier: MIT */
/*
 * worker.c: what the tests run in sandboxes. One static binary, so that a sandbox needs no shell.
 *
 * Its arguments are a little program: operations, run one after the other.
 *
 *	worker block TERM ready await TERM out bye exit 3
 *	worker spawn setsid { ignore TERM up pause } ready pause
 *
 * Invariants. It never waits for time unless told to (`sleep`): it is steered by signals and bytes.
 * It tells readiness by one byte 'R' on stdout. `spawn` returns when the child has said `up` or has
 * ended, so what comes after knows that the child stands. Every process has the whole command line,
 * so a test finds all of them by a `mark` among the arguments.
 *
 * Exit codes of its own: 98 a bad program or a failed operation (text on stderr), 97 the reader of
 * its output is gone. Its operations are in ops_io.c, ops_proc.c and ops_file.c.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker.h"

int up_fd = -1;

void die(const char *fmt, ...)
{
	char buf[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, sizeof(buf) - 1, fmt, args);
	va_end(args);
	if (n > (int)sizeof(buf) - 2)
		n = (int)sizeof(buf) - 2;
	buf[n++] = '\n';
	(void)!write(2, buf, (size_t)n);
	_exit(98);
}

void put(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			_exit(97);
		p += r;
		n -= (size_t)r;
	}
}

void puts_fd(int fd, const char *fmt, ...)
{
	char buf[1024];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	put(fd, buf, n < (int)sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
}

void put_value(int fd, const void *buf, size_t n)
{
	uint8_t head[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};

	put(fd, head, sizeof(head));
	put(fd, buf, n);
}

char *word(struct prog *p)
{
	if (p->pos >= p->end)
		die("worker: the program ends in the middle of an operation");
	return p->argv[p->pos++];
}

long long number(struct prog *p)
{
	const char *w = word(p);
	char *end;
	long long v = strtoll(w, &end, 10);

	if (!*w || *end)
		die("worker: \"%s\" is no number", w);
	return v;
}

static const struct {
	const char *name;
	int signo;
} signals[] = {
	{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},
	{"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
	{"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"CHLD", SIGCHLD},
	{"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"TSTP", SIGTSTP}, {"WINCH", SIGWINCH},
	{"XFSZ", SIGXFSZ}, {"XCPU", SIGXCPU},
};

int signal_word(struct prog *p)
{
	const char *w = word(p);

	if (strncmp(w, "SIG", 3) == 0)
		w += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (strcmp(signals[i].name, w) == 0)
			return signals[i].signo;
	}
	p->pos--;
	return (int)number(p);
}

const char *signal_text(int signo)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (signals[i].signo == signo)
			return signals[i].name;
	}
	return "another";
}

int fd_word(struct prog *p)
{
	const char *w = word(p);

	if (strcmp(w, "out") == 0)
		return 1;
	if (strcmp(w, "err") == 0)
		return 2;
	p->pos--;
	return (int)number(p);
}

const char *path_word(struct prog *p)
{
	static char bufs[4][4200];
	static unsigned turn;
	const char *w = word(p), *home = getenv("HOME");
	char *buf = bufs[turn++ % 4];

	if (w[0] != '~' || w[1] != '/')
		return w;
	if (!home)
		die("worker: HOME is not set");
	snprintf(buf, sizeof(bufs[0]), "%s%s", home, w + 1);
	return buf;
}

struct prog block(struct prog *p)
{
	struct prog b = {.argv = p->argv};
	int depth = 1;

	if (strcmp(word(p), "{") != 0)
		die("worker: a block must begin with {");
	b.pos = p->pos;
	while (depth > 0) {
		const char *w = word(p);

		depth += strcmp(w, "{") == 0;
		depth -= strcmp(w, "}") == 0;
	}
	b.end = p->pos - 1;
	return b;
}

static const struct op *find(const char *name)
{
	static const struct op *const tables[] = {ops_io, ops_proc, ops_file};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		for (const struct op *o = tables[i]; o->name; o++) {
			if (strcmp(o->name, name) == 0)
				return o;
		}
	}
	return NULL;
}

void run(struct prog p)
{
	while (p.pos < p.end) {
		const char *name = word(&p);
		const struct op *o = find(name);

		if (!o)
			die("worker: no operation \"%s\"", name);
		o->fn(&p);
	}
}

int main(int argc, char **argv)
{
	struct prog p = {.argv = argv, .pos = 1, .end = argc};

	run(p);
	return 0;
}
