/* SPDX-License-Identifier: MIT */
/*
 * ops_io.c: the test worker's operations on its streams, arguments, environment and descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pattern.h"
#include "worker.h"

#define CHUNK 65536

static uint8_t chunk[CHUNK];

extern char **environ;

static void op_out(struct prog *p)
{
	const char *s = word(p);

	put(1, s, strlen(s));
}

static void op_err(struct prog *p)
{
	const char *s = word(p);

	put(2, s, strlen(s));
}

static void op_ready(struct prog *p)
{
	(void)p;
	put(1, "R", 1);
}

/* rand FD SEED N */
static void op_rand(struct prog *p)
{
	int fd = fd_word(p);
	uint64_t seed = (uint64_t)number(p), n = (uint64_t)number(p);

	for (uint64_t at = 0; at < n;) {
		size_t k = n - at < CHUNK ? (size_t)(n - at) : CHUNK;

		pattern_fill(seed, at, chunk, k);
		put(fd, chunk, k);
		at += k;
	}
}

/* bytes256 FD: every value once, in order, no newline at the end. */
static void op_bytes256(struct prog *p)
{
	int fd = fd_word(p);

	for (unsigned i = 0; i < 256; i++)
		chunk[i] = (uint8_t)i;
	put(fd, chunk, 256);
}

/* fill FD BYTE N: one "line" of any length. */
static void op_fill(struct prog *p)
{
	int fd = fd_word(p);
	int byte = (int)number(p);
	long long n = number(p);

	memset(chunk, byte, CHUNK);
	for (; n > 0; n -= CHUNK)
		put(fd, chunk, n < CHUNK ? (size_t)n : CHUNK);
}

/* alt N: numbered lines, in turn on stdout and stderr. */
static void op_alt(struct prog *p)
{
	long long n = number(p);

	for (long long i = 0; i < n; i++) {
		puts_fd(1, "o%08lld\n", i);
		puts_fd(2, "e%08lld\n", i);
	}
}

/* chatter FD: writes for ever. */
static void op_chatter(struct prog *p)
{
	int fd = fd_word(p);

	memset(chunk, 'c', CHUNK);
	for (;;)
		put(fd, chunk, CHUNK);
}

/* reopen TEXT: what `echo TEXT > /dev/stderr` does, O_TRUNC included. */
static void op_reopen(struct prog *p)
{
	const char *s = word(p);
	int fd = open("/dev/stderr", O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0)
		die("worker: /dev/stderr: %s", strerror(errno));
	put(fd, s, strlen(s));
	close(fd);
}

static ssize_t get(void)
{
	ssize_t r;

	do
		r = read(0, chunk, CHUNK);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		die("worker: stdin: %s", strerror(errno));
	return r;
}

static void op_cat(struct prog *p)
{
	ssize_t r;

	(void)p;
	while ((r = get()) > 0)
		put(1, chunk, (size_t)r);
}

/* upper: stdin in capitals, as it comes; shows that something was read piece by piece. */
static void op_upper(struct prog *p)
{
	ssize_t r;

	(void)p;
	while ((r = get()) > 0) {
		for (ssize_t i = 0; i < r; i++) {
			if (chunk[i] >= 'a' && chunk[i] <= 'z')
				chunk[i] = (uint8_t)(chunk[i] - 32);
		}
		put(1, chunk, (size_t)r);
	}
}

/* take N: reads exactly N bytes of stdin (fewer at EOF) and writes them. */
static void op_take(struct prog *p)
{
	long long n = number(p);

	while (n > 0) {
		ssize_t r = read(0, chunk, n < CHUNK ? (size_t)n : CHUNK);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return;
		put(1, chunk, (size_t)r);
		n -= r;
	}
}

/* hashin: length and FNV-1a of stdin. */
static void op_hashin(struct prog *p)
{
	uint64_t h = 0xcbf29ce484222325u, n = 0;
	ssize_t r;

	(void)p;
	while ((r = get()) > 0) {
		for (ssize_t i = 0; i < r; i++)
			h = (h ^ chunk[i]) * 0x100000001b3u;
		n += (uint64_t)r;
	}
	puts_fd(1, "%llu %016llx\n", (unsigned long long)n, (unsigned long long)h);
}

static void op_closein(struct prog *p)
{
	(void)p;
	close(0);
}

/* nullio: gives up the streams, as a well-behaved daemon does. */
static void op_nullio(struct prog *p)
{
	int fd = open("/dev/null", O_RDWR);

	(void)p;
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

static void op_env(struct prog *p)
{
	(void)p;
	for (char **e = environ; *e; e++)
		put_value(1, *e, strlen(*e));
}

/* getenv NAME: the value, or "(unset)". */
static void op_getenv(struct prog *p)
{
	const char *v = getenv(word(p));

	put(1, v ? v : "(unset)", v ? strlen(v) : 7);
}

/* args …: every argument that follows, and argv[0] before them. */
static void op_args(struct prog *p)
{
	put_value(1, p->argv[0], strlen(p->argv[0]));
	while (p->pos < p->end) {
		const char *w = word(p);

		put_value(1, w, strlen(w));
	}
}

static void op_cwd(struct prog *p)
{
	char buf[4200];

	(void)p;
	if (!getcwd(buf, sizeof(buf)))
		die("worker: getcwd: %s", strerror(errno));
	put_value(1, buf, strlen(buf));
}

static void op_tty(struct prog *p)
{
	struct winsize w = {0};

	(void)p;
	ioctl(0, TIOCGWINSZ, &w);
	puts_fd(1, "tty %d%d%d %ux%u\n", isatty(0), isatty(1), isatty(2), w.ws_col, w.ws_row);
}

/* fds: number and target of every open descriptor but the one that lists them. */
static void op_fds(struct prog *p)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	(void)p;
	if (!d)
		die("worker: /proc/self/fd: %s", strerror(errno));
	while ((e = readdir(d))) {
		char target[512];
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		if (n < 0 || atoi(e->d_name) == dirfd(d))
			continue;
		target[n] = '\0';
		puts_fd(1, "%s %s\n", e->d_name, target);
	}
	closedir(d);
}

/* stdin-type: "null", "pipe", "file", "tty" or "other". */
static void op_intype(struct prog *p)
{
	struct stat st, null;
	const char *t = "other";

	(void)p;
	if (fstat(0, &st) < 0)
		t = "closed";
	else if (S_ISFIFO(st.st_mode))
		t = "pipe";
	else if (S_ISREG(st.st_mode))
		t = "file";
	else if (stat("/dev/null", &null) == 0 && S_ISCHR(st.st_mode) && null.st_rdev == st.st_rdev)
		t = "null";
	else if (isatty(0))
		t = "tty";
	puts_fd(1, "%s\n", t);
}

const struct op ops_io[] = {
	{"out", op_out},
	{"err", op_err},
	{"ready", op_ready},
	{"rand", op_rand},
	{"bytes256", op_bytes256},
	{"fill", op_fill},
	{"alt", op_alt},
	{"chatter", op_chatter},
	{"reopen", op_reopen},
	{"cat", op_cat},
	{"upper", op_upper},
	{"take", op_take},
	{"hashin", op_hashin},
	{"closein", op_closein},
	{"nullio", op_nullio},
	{"env", op_env},
	{"getenv", op_getenv},
	{"args", op_args},
	{"cwd", op_cwd},
	{"tty", op_tty},
	{"fds", op_fds},
	{"intype", op_intype},
	{NULL, NULL},
};
