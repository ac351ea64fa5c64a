/* SPDX-License-Identifier: MIT */
/*
 * Removing a tree that may be hostile: any depth, any modes, changing while it is removed.
 *
 * Invariants: every step is one name below an open directory, never followed as a link; at most
 * LEVELS directories are open. What lies deeper is renamed up into the top directory and removed
 * from there in a later pass, so neither the stack nor the descriptors grow with the depth, and no
 * ".." is ever trusted.
 */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/random.h"

#define LEVELS 32

struct level {
	DIR *dir;
	char name[256]; /* in the level above */
	bool removed;   /* something, since the last rewind */
};

struct removal {
	struct level levels[LEVELS];
	int depth; /* open levels */
	int parent;
	bool moved; /* something up to the top in this pass */
	int error;  /* the first -errno */
};

static void note(struct removal *rm, int error)
{
	if (rm->error == 0 && error != -ENOENT)
		rm->error = error;
}

static int level_fd(const struct removal *rm, int level)
{
	return level < 0 ? rm->parent : dirfd(rm->levels[level].dir);
}

/* Opens a directory for reading, giving ourselves the permission bits that it lacks. */
static int open_dir(int at, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(at, name, flags);
	struct stat st;

	if (fd < 0 && errno == EACCES) {
		auto_close int path_fd =
			openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		char proc[40];

		/* By the descriptor: a name could have become a link meanwhile. */
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
		if (path_fd < 0 || chmod(proc, 0700) < 0)
			return -EACCES;
		fd = openat(at, name, flags);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)!fchmod(fd, st.st_mode | 0700);
	return fd;
}

static void push(struct removal *rm, const char *name)
{
	int fd = open_dir(level_fd(rm, rm->depth - 1), name);
	struct level *l = &rm->levels[rm->depth];

	if (fd < 0) {
		note(rm, fd);
		return;
	}
	l->dir = fdopendir(fd);
	if (!l->dir) {
		note(rm, -errno);
		close(fd);
		return;
	}
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->removed = false;
	rm->depth++;
}

/* Too deep: into the top directory, under a name that is free. */
static void move_up(struct removal *rm, const char *name)
{
	char to[32] = ".rm-";

	random_name(to + 4, 20);
	if (renameat(level_fd(rm, rm->depth - 1), name, level_fd(rm, 0), to) < 0) {
		note(rm, -errno);
		return;
	}
	rm->moved = true;
	rm->levels[rm->depth - 1].removed = true;
}

static void remove_entry(struct removal *rm, const struct dirent *entry)
{
	struct level *l = &rm->levels[rm->depth - 1];
	bool dir = entry->d_type == DT_DIR;

	if (!dir && unlinkat(dirfd(l->dir), entry->d_name, 0) == 0) {
		l->removed = true;
		return;
	}
	if (!dir && errno != EISDIR) {
		note(rm, -errno);
		return;
	}
	if (unlinkat(dirfd(l->dir), entry->d_name, AT_REMOVEDIR) == 0)
		l->removed = true; /* an empty one needs no look inside */
	else if (rm->depth < LEVELS)
		push(rm, entry->d_name);
	else
		move_up(rm, entry->d_name);
}

/* All entries were seen: removes the directory itself, or looks again. */
static void finish_level(struct removal *rm)
{
	struct level *l = &rm->levels[rm->depth - 1];
	bool top = rm->depth == 1;

	if (unlinkat(level_fd(rm, rm->depth - 2), l->name, AT_REMOVEDIR) < 0) {
		bool again = l->removed || (top && rm->moved);

		/* Not every file system shows all entries of a directory that shrinks meanwhile. */
		if ((errno == ENOTEMPTY || errno == EEXIST) && again) {
			l->removed = false;
			if (top)
				rm->moved = false;
			rewinddir(l->dir);
			return;
		}
		note(rm, -errno);
	} else if (!top) {
		rm->levels[rm->depth - 2].removed = true;
	}
	closedir(l->dir);
	rm->depth--;
}

int remove_tree(int dirfd, const char *name)
{
	struct removal rm;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	rm.depth = 0;
	rm.parent = dirfd;
	rm.moved = false;
	rm.error = 0;
	if (strlen(name) >= sizeof(rm.levels[0].name))
		return -ENAMETOOLONG;
	push(&rm, name);
	while (rm.depth > 0) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(rm.levels[rm.depth - 1].dir);
		if (!entry) {
			if (errno)
				note(&rm, -errno);
			finish_level(&rm);
		} else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			remove_entry(&rm, entry);
		}
	}
	return rm.error;
}
