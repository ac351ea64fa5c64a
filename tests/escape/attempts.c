/* SPDX-License-Identifier: MIT */
/*
 * attempts.c: the hostile worker. A static program that is deployed into a sandbox and tries to get
 * out of it, one row of rows.h per call:
 *
 *	attempts [mark TEXT] try NAME [key=value]…
 *	attempts --list | --markdown
 *
 * It prints a line per thing that got through and, last, "held N", "ESCAPED N" or "nothing tried".
 * What it is told about the outside (key=value) is where to look, never the secret that it looks
 * for. helpers.c has other things that a hostile worker does, for the driver's own tests.
 *
 * It holds itself to what cannot hurt the host even where nothing is in the way: the suite runs
 * some of it without the wall.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "helpers.h"

struct row {
	const char *name;
	unsigned flags;
	const char *what, *why, *expected;
	void (*fn)(void);
};

#define X(name, flags, what, why, expected) {#name, flags, what, why, expected, attempt_##name},
static const struct row inside[] = {ROWS_INSIDE(X)};
#undef X
#define X(name, flags, what, why, expected) {#name, flags, what, why, expected, NULL},
static const struct row outside[] = {ROWS_OUTSIDE(X)};
#undef X

static char **args;
static unsigned tries, out;

const char *arg(const char *key)
{
	size_t n = strlen(key);

	for (char **a = args; a && *a; a++) {
		if (strncmp(*a, key, n) == 0 && (*a)[n] == '=')
			return *a + n + 1;
	}
	return "";
}

bool arg_is(const char *key, const char *value)
{
	return strcmp(arg(key), value) == 0;
}

const char *needle(void)
{
	static char buf[96];

	snprintf(buf, sizeof(buf), "bait-%s-secret", arg("nonce"));
	return buf;
}

void tried(void)
{
	tries++;
}

static void say(const char *word, const char *fmt, va_list list)
{
	char buf[600];

	vsnprintf(buf, sizeof(buf), fmt, list);
	dprintf(1, "%s: %s\n", word, buf);
}

void got_out(const char *fmt, ...)
{
	va_list list;

	out++;
	if (out > 20)
		return;
	va_start(list, fmt);
	say("got through", fmt, list);
	va_end(list);
}

void note(const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	say("note", fmt, list);
	va_end(list);
}

void broken(const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	say("broken", fmt, list);
	va_end(list);
	_exit(BROKEN);
}

void refused(const char *what, long r, int also)
{
	int e = errno;

	tried();
	if (r >= 0)
		got_out("%s succeeded: %ld", what, r);
	else if (e != EPERM && e != EACCES && e != ENOSYS && e != also)
		got_out("%s passed the check of rights: %s", what, strerror(e));
}

static void unopened(const char *path, int flags, const char *how)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	tried();
	if (fd < 0)
		return;
	close(fd);
	got_out("%s was opened for %s", path, how);
}

void unreadable(const char *path)
{
	unopened(path, O_RDONLY, "reading");
}

void unwritable(const char *path)
{
	unopened(path, O_WRONLY, "writing");
}

void unlistable(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	tried();
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && n++ < 3)
			got_out("%s has %s", path, e->d_name);
	}
	if (d)
		closedir(d);
}

ssize_t slurp(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t r = 0;
	size_t n = 0;

	if (fd < 0)
		return -1;
	while (n < cap - 1 && (r = read(fd, buf + n, cap - 1 - n)) > 0)
		n += (size_t)r;
	close(fd);
	buf[n] = '\0';
	return r < 0 && n == 0 ? -1 : (ssize_t)n;
}

bool has_bytes(const char *buf, size_t n, const char *text)
{
	return memmem(buf, n, text, strlen(text)) != NULL;
}

bool own_process(pid_t pid)
{
	char path[64], buf[512], *p;
	int ppid = 0;

	for (int depth = 0; depth < 5 && pid > 1; depth++, pid = ppid) {
		if (pid == getpid())
			return true;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		if (slurp(path, buf, sizeof(buf)) <= 0 || !(p = strrchr(buf, ')')) ||
		    sscanf(p + 1, " %*c %d", &ppid) != 1)
			return false;
	}
	return false;
}

void each_process(void (*fn)(pid_t pid))
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && !own_process(pid))
			fn(pid);
	}
	if (d)
		closedir(d);
}

int in_fork(int (*fn)(void *), void *fn_arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		broken("fork: %s", strerror(errno));
	if (pid == 0) {
		alarm(10);
		_exit(fn(fn_arg));
	}
	waitpid(pid, &status, 0);
	return status;
}

static int try_one(const char *name)
{
	for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
		if (strcmp(inside[i].name, name) != 0)
			continue;
		alarm(25);
		inside[i].fn();
		if (out)
			dprintf(1, "ESCAPED %u of %u\n", out, tries);
		else if (!tries)
			dprintf(1, "nothing tried\n");
		else
			dprintf(1, "held %u\n", tries);
		return out ? ESCAPED : tries ? HELD : NOTHING_TRIED;
	}
	broken("no attempt %s", name);
}

static void list_rows(const struct row *rows, size_t n, const char *where)
{
	for (size_t i = 0; i < n; i++)
		printf("%s %s %s%s\n", where, rows[i].name, rows[i].flags & TEETH ? "teeth," : "",
		       rows[i].flags & NO_NET ? "nonet," : "");
}

static void markdown(const char *title, const struct row *rows, size_t n)
{
	printf("\n## %s\n\n| attempt | tries to … | it must fail because | what happens |\n"
	       "| --- | --- | --- | --- |\n",
	       title);
	for (size_t i = 0; i < n; i++) {
		const char *why = rows[i].why;

		/* "the same" is for those who read the list from above; a table is read anywhere. */
		for (size_t j = i; strcmp(why, "the same") == 0 && j > 0; j--)
			why = rows[j - 1].why;
		printf("| `%s`%s | %s | %s | %s |\n", rows[i].name,
		       rows[i].flags & TEETH ? " ●" : "", rows[i].what, why, rows[i].expected);
	}
}

#define N(a)                                (sizeof(a) / sizeof(*(a)))
#define X(name, flags, what, why, expected) {#name, flags, what, why, expected, NULL},
static void markdown_all(void)
{
	static const struct row look[] = {ROWS_LOOK(X)}, mount[] = {ROWS_MOUNT(X)},
				kernel[] = {ROWS_KERNEL(X)}, privilege[] = {ROWS_PRIVILEGE(X)},
				signals[] = {ROWS_SIGNAL(X)}, net[] = {ROWS_NET(X)},
				process[] = {ROWS_PROCESS(X)}, files[] = {ROWS_FILES(X)},
				limits[] = {ROWS_LIMITS(X)};

	markdown("Looking around", look, N(look));
	markdown("Mounts, roots and namespaces", mount, N(mount));
	markdown("The kernel", kernel, N(kernel));
	markdown("Rights", privilege, N(privilege));
	markdown("Signals and terminals", signals, N(signals));
	markdown("The network", net, N(net));
	markdown("Output, processes and fds, seen from outside", process, N(process));
	markdown("Files that berth itself carries", files, N(files));
	markdown("Using up", limits, N(limits));
	printf("\n%zu attempts.\n", N(inside) + N(outside));
}
#undef X

int main(int argc, char **argv)
{
	int i = 1;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		list_rows(inside, N(inside), "inside");
		list_rows(outside, N(outside), "outside");
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--markdown") == 0) {
		markdown_all();
		return 0;
	}
	if (i + 1 < argc && strcmp(argv[i], "mark") == 0)
		i += 2;
	if (i + 1 < argc && strcmp(argv[i], "try") == 0) {
		args = argv + i + 2;
		return try_one(argv[i + 1]);
	}
	args = argv + i;
	return help_by(argc - i, argv + i);
}
