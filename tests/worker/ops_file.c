/* SPDX-License-Identifier: MIT */
/*
 * ops_file.c: the test worker's operations on files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker.h"

static void put_file(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	if (fd < 0)
		die("worker: %s: %s", path, strerror(errno));
	put(fd, text, strlen(text));
	close(fd);
}

/* append PATH TEXT, by one write. */
static void op_append(struct prog *p)
{
	const char *path = path_word(p);

	put_file(path, O_APPEND, word(p));
}

static void op_write(struct prog *p)
{
	const char *path = path_word(p);

	put_file(path, O_TRUNC, word(p));
}

/* poke PATH TEXT: over the first bytes, in place, as a database does. */
static void op_poke(struct prog *p)
{
	const char *path = path_word(p);

	put_file(path, 0, word(p));
}

static void op_read(struct prog *p)
{
	const char *path = path_word(p);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[65536];
	ssize_t r;

	if (fd < 0)
		die("worker: %s: %s", path, strerror(errno));
	while ((r = read(fd, buf, sizeof(buf))) > 0)
		put(1, buf, (size_t)r);
	close(fd);
}

static void op_unlink(struct prog *p)
{
	const char *path = path_word(p);

	if (unlink(path) < 0)
		die("worker: %s: %s", path, strerror(errno));
}

static void op_mkdir(struct prog *p)
{
	const char *path = path_word(p);

	if (mkdir(path, 0755) < 0)
		die("worker: %s: %s", path, strerror(errno));
}

static void op_chmod(struct prog *p)
{
	const char *path = path_word(p);
	mode_t mode = (mode_t)strtoul(word(p), NULL, 8);

	if (chmod(path, mode) < 0)
		die("worker: %s: %s", path, strerror(errno));
}

/* stat PATH: type, mode, size and mtime, or the reason why not. */
static void op_stat(struct prog *p)
{
	const char *path = path_word(p);
	struct stat st;

	if (lstat(path, &st) < 0) {
		puts_fd(1, "%s\n", strerror(errno));
		return;
	}
	puts_fd(1, "%c %04o %lld %lld\n",
		S_ISREG(st.st_mode)   ? 'f'
		: S_ISDIR(st.st_mode) ? 'd'
		: S_ISLNK(st.st_mode) ? 'l'
				      : '?',
		st.st_mode & 07777, S_ISREG(st.st_mode) ? (long long)st.st_size : 0,
		(long long)st.st_mtime);
}

static void op_readlink(struct prog *p)
{
	const char *path = path_word(p);
	char buf[4200];
	ssize_t n = readlink(path, buf, sizeof(buf));

	if (n < 0)
		die("worker: %s: %s", path, strerror(errno));
	put_value(1, buf, (size_t)n);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* ls PATH: the names, sorted, as values. */
static void op_ls(struct prog *p)
{
	const char *path = path_word(p);
	struct dirent **list;
	int n = scandir(path, &list, NULL, by_bytes);

	if (n < 0)
		die("worker: %s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
			put_value(1, list[i]->d_name, strlen(list[i]->d_name));
	}
}

/* tree PATH: one line "type mode size path" per entry, depth first, sorted. Links tell their
 * target. */
static void tree(const char *path)
{
	struct dirent **list;
	int n = scandir(path, &list, NULL, by_bytes);

	for (int i = 0; i < n; i++) {
		char sub[4200], target[4200] = "";
		struct stat st;

		if (strcmp(list[i]->d_name, ".") == 0 || strcmp(list[i]->d_name, "..") == 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, list[i]->d_name);
		if (lstat(sub, &st) < 0)
			die("worker: %s: %s", sub, strerror(errno));
		if (S_ISLNK(st.st_mode)) {
			ssize_t k = readlink(sub, target, sizeof(target) - 1);

			target[k > 0 ? k : 0] = '\0';
		}
		puts_fd(1, "%c%s %lld %s%s%s\n",
			S_ISDIR(st.st_mode)   ? 'd'
			: S_ISLNK(st.st_mode) ? 'l'
					      : 'f',
			S_ISREG(st.st_mode) && st.st_mode & 0100 ? "x" : "-",
			S_ISREG(st.st_mode) ? (long long)st.st_size : 0, sub, *target ? " -> " : "",
			target);
		if (S_ISDIR(st.st_mode))
			tree(sub);
	}
}

static void op_tree(struct prog *p)
{
	tree(path_word(p));
}

static long count(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	long n = 0;

	while (d && (e = readdir(d))) {
		char sub[4200];

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		n += 1 + (e->d_type == DT_DIR ? count(sub) : 0);
	}
	if (d)
		closedir(d);
	return n;
}

/* count PATH: how many entries there are below it. */
static void op_count(struct prog *p)
{
	puts_fd(1, "%ld\n", count(path_word(p)));
}

/* bigfile PATH N: says what the kernel said when not all of it could be written. */
static void op_bigfile(struct prog *p)
{
	const char *path = path_word(p);
	long long n = number(p);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	static char buf[65536];

	if (fd < 0)
		die("worker: %s: %s", path, strerror(errno));
	for (; n > 0; n -= (long long)sizeof(buf)) {
		if (write(fd, buf, n < (long long)sizeof(buf) ? (size_t)n : sizeof(buf)) < 0) {
			puts_fd(1, "write %s\n", strerror(errno));
			break;
		}
	}
	close(fd);
}

const struct op ops_file[] = {
	{"append", op_append},     {"write", op_write}, {"poke", op_poke},   {"read", op_read},
	{"unlink", op_unlink},     {"mkdir", op_mkdir}, {"chmod", op_chmod}, {"stat", op_stat},
	{"readlink", op_readlink}, {"ls", op_ls},       {"tree", op_tree},   {"count", op_count},
	{"bigfile", op_bigfile},   {NULL, NULL},
};
