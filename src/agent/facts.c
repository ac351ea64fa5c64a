/* SPDX-License-Identifier: MIT */
/*
 * facts.c: what init finds out about itself and its sandbox before its first fork.
 *
 * Invariant: nothing of it changes afterwards, so every child has it by fork. No libc function that
 * would load or ask something is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define XXH_VECTOR 0 /* XXH_SCALAR */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/init.h"
#include "agent/walls.h"

extern char **environ;

static void find_boot_id(void)
{
	char text[64];
	unsigned n = 0;

	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 0)
		return;
	for (const char *p = text; *p && n < 32; p++) {
		int d = *p >= '0' && *p <= '9'   ? *p - '0'
			: *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
						 : -1;

		if (d < 0)
			continue;
		agent.boot[n / 2] = (uint8_t)(agent.boot[n / 2] << 4 | d);
		n++;
	}
}

int agent_find_hash(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	XXH128_canonical_t c;
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return -1;
	XXH128_canonicalFromHash(&c, XXH3_128bits(p, (size_t)st.st_size));
	munmap(p, (size_t)st.st_size);
	hex(agent.hash, c.digest, sizeof(c.digest));
	return 0;
}

static const char *env_get(const char *name)
{
	size_t n = strlen(name);

	for (char **e = environ; *e; e++) {
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=' && (*e)[n + 1])
			return *e + n + 1;
	}
	return NULL;
}

/* The passwd entry of this uid: name and home, from the file itself (no libc that would load
 * what it likes). */
static void find_passwd(char *name, size_t name_cap, char *home, size_t home_cap)
{
	static char text[65536];
	ssize_t n = read_file_at(AT_FDCWD, "/etc/passwd", text, sizeof(text));

	for (char *line = text, *end; n > 0 && line && *line; line = end ? end + 1 : NULL) {
		char *field[7] = {line};
		int i;

		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		for (i = 1; i < 7 && (field[i] = strchr(field[i - 1], ':')); i++)
			*field[i]++ = '\0';
		if (i < 7 || strtoul(field[2], NULL, 10) != geteuid())
			continue;
		fmt(name, name_cap, "%s", field[0]);
		fmt(home, home_cap, "%s", field[5]);
		break;
	}
	madvise((void *)(((uintptr_t)text + 4095) & ~(uintptr_t)4095), sizeof(text) - 4096,
		MADV_DONTNEED);
}

static void find_home(void)
{
	static char name[64], home[AGENT_PATH_MAX];
	const char *h = env_get("HOME"), *u = env_get("USER");
	char *slash;

	if (!h || !u)
		find_passwd(name, sizeof(name), home, sizeof(home));
	if (h)
		fmt(home, sizeof(home), "%s", h);
	if (home[0] != '/') {
		fmt(home, sizeof(home), "%s", agent.dir);
		slash = strrchr(home, '/');
		slash[slash == home] = '\0';
	}
	agent.home = home;
	agent.user = u ? u : name;
	agent.homefd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int facts_find(struct agent_fail *f)
{
	static struct utsname u;

	agent.is_pid1 = getpid() == 1;
	agent.root = geteuid() == 0;
	agent.in_userns = wall_in_userns();
	agent.environ = environ;
	agent.init_pid = getpid();
	agent.started_ms = wall_ms();
	if (uname(&u) == 0)
		fmt(agent.machine, sizeof(agent.machine), "%s", u.machine);
	find_boot_id();
	find_home();
	agent.shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (agent.shared == MAP_FAILED || agent_find_hash() < 0)
		return fail(f, WIRE_E_UNAVAILABLE, "init", errno, "cannot start: %m");
	return 0;
}
