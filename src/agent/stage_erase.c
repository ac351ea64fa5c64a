/* SPDX-License-Identifier: MIT */
/*
 * stage_erase.c: `berth-agent erase`: removes the folder of an isolated sandbox.
 *
 * Its files belong to the sandbox's ids, which an ordinary user has rights over in a user namespace
 * only: there it is done, with the same maps as when the sandbox was made. The sandbox has ended:
 * the library sees to that; only what a killed stage may have left is ended here.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/afs.h"
#include "agent/spawn.h"
#include "agent/stage.h"

#define RACES_MAX 10000

static int end_left(const char *name)
{
	char path[AGENT_PATH_MAX];
	struct stat st;
	int fd;

	if (!join3(path, sizeof(path), name, "/staging", ""))
		return stage_no(NULL, ENAMETOOLONG, "%s: %m", name);
	if (lstat(path, &st) < 0)
		return 0;
	fd = left_lock(AT_FDCWD, path);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* The erase of a caller that was killed may still be at it: what went under our hands is gone. */
static int remove_all(const char *name)
{
	struct stat st;

	for (int i = 0; i < RACES_MAX; i++) {
		if (remove_tree_at(AT_FDCWD, name, NULL) == 0)
			return 0;
		if (errno != ENOENT)
			return -1;
		if (lstat(name, &st) < 0)
			return errno == ENOENT ? 0 : -1;
	}
	errno = EBUSY;
	return -1;
}

static int erase(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[argc - 1] : "";
	struct stage_ids ids = {0};

	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return stage_no(NULL, 0, "needs the name of a folder in the working directory");
	if (stage_options_parse(argc - 1, argv, &stage.o) < 0 || stage_check_caller(false) < 0 ||
	    end_left(name) < 0)
		return -1;
	if (!stage.root && !stage.o.single) {
		if (ids_begin(&ids) < 0 || ids_outer(&ids, false) < 0)
			return -1;
		ids_end(&ids);
	}
	if (remove_all(name) < 0)
		return stage_no(NULL, errno, "cannot remove %s: %m", name);
	return 0;
}

int erase_main(int argc, char **argv)
{
	signals_default();
	return erase(argc, argv) < 0 ? stage_say("erase") : 0;
}
