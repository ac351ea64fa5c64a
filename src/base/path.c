/* SPDX-License-Identifier: MIT */
/*
 * Paths: lexical helpers, and opening that cannot leave a directory. Removing trees is in
 * remove_tree.c. Nothing here changes the working directory or the umask.
 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"

char *path_join(const char *a, const char *b)
{
	size_t n = strlen(a);

	if (b[0] == '/' || n == 0)
		return mem_strdup(b);
	if (b[0] == '\0')
		return mem_strdup(a);
	return mem_printf("%s%s%s", a, a[n - 1] == '/' ? "" : "/", b);
}

const char *path_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The next component of *p (which moves behind it); its length, 0 at the end. */
static size_t next_component(const char **p, const char **ret_start)
{
	const char *s = *p + strspn(*p, "/");
	size_t n = strcspn(s, "/");

	*ret_start = s;
	*p = s + n;
	return n;
}

static bool is_dot(const char *s, size_t n)
{
	return n == 1 && s[0] == '.';
}

static bool is_dotdot(const char *s, size_t n)
{
	return n == 2 && s[0] == '.' && s[1] == '.';
}

bool path_stays_inside(const char *rel)
{
	const char *p = rel, *s;
	long depth = 0;
	size_t n;

	if (rel[0] == '\0' || rel[0] == '/')
		return false;
	while ((n = next_component(&p, &s))) {
		if (is_dotdot(s, n)) {
			if (--depth < 0)
				return false;
		} else if (!is_dot(s, n)) {
			depth++;
		}
	}
	return true;
}

/* Removes the last component of out[0..len) that is a name; false when there is none to remove. */
static bool drop_last(const char *out, size_t *len, size_t root)
{
	size_t cut = *len;

	while (cut > root && out[cut - 1] != '/')
		cut--;
	if (cut == *len || is_dotdot(out + cut, *len - cut))
		return false;
	*len = cut > root ? cut - 1 : root;
	return true;
}

char *path_normalize(const char *path)
{
	size_t root = path[0] == '/' ? 1 : 0, len = root, n;
	char *out = mem_alloc(strlen(path) + 2);
	const char *p = path, *s;

	if (!out)
		return NULL;
	out[0] = '/';
	while ((n = next_component(&p, &s))) {
		if (is_dot(s, n))
			continue;
		if (is_dotdot(s, n) && (drop_last(out, &len, root) || root))
			continue;
		if (len > root)
			out[len++] = '/';
		memcpy(out + len, s, n);
		len += n;
	}
	if (len == 0)
		out[len++] = '.';
	out[len] = '\0';
	return out;
}

/* One step of the walk: opens the directory @s[0..n) below *dir and replaces *dir by it. */
static int step_into(int *dir, const char *s, size_t n)
{
	char name[256];
	int fd;

	if (n >= sizeof(name))
		return -ENAMETOOLONG;
	memcpy(name, s, n);
	name[n] = '\0';
	fd = openat(*dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR) {
		/* A link and a file both say ENOTDIR here; callers want to know which. */
		struct stat st;

		if (fstatat(*dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
			return -ELOOP;
		return -ENOTDIR;
	}
	if (fd < 0)
		return -errno;
	fd_close(dir);
	*dir = fd;
	return 0;
}

int open_beneath_walk(int dirfd, const char *rel, int flags, mode_t mode)
{
	auto_free char *norm = NULL;
	auto_close int dir = -1;
	const char *p, *s;
	size_t n;
	int fd;

	if (rel[0] == '\0')
		return -ENOENT;
	if (!path_stays_inside(rel))
		return -EXDEV;
	norm = path_normalize(rel);
	if (!norm)
		return -ENOMEM;
	dir = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	p = norm;
	while ((n = next_component(&p, &s)) && *p) {
		int r = step_into(&dir, s, n);

		if (r < 0)
			return r;
	}
	fd = RETRY_EINTR(openat(dir, s, flags | O_NOFOLLOW | O_CLOEXEC, mode));
	return fd < 0 ? -errno : fd;
}

static int beneath(int dirfd, const char *rel, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};

	/* EAGAIN: something was renamed while "..", was resolved. It passes, or is an attack. */
	for (int i = 0; i < 100; i++) {
		long fd = syscall(SYS_openat2, dirfd, rel, &how, sizeof(how));

		if (fd >= 0)
			return (int)fd;
		if (errno == ENOSYS || errno == EPERM)
			return open_beneath_walk(dirfd, rel, flags, mode);
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int open_beneath(int dirfd, const char *rel, int flags, mode_t mode)
{
	return beneath(dirfd, rel, flags, mode, 0);
}

int open_beneath_nolinks(int dirfd, const char *rel, int flags, mode_t mode)
{
	return beneath(dirfd, rel, flags, mode, RESOLVE_NO_SYMLINKS);
}

/* Makes one directory; one that is there already (or a link to one) is fine. */
static int mkdir_one(int dirfd, const char *path, mode_t mode)
{
	struct stat st;

	if (mkdirat(dirfd, path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (fstatat(dirfd, path, &st, 0) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int mkdir_p(int dirfd, const char *path, mode_t mode)
{
	auto_free char *copy = NULL;
	int r = mkdir_one(dirfd, path, mode);
	char *p;

	if (r != -ENOENT || path[0] == '\0')
		return r;
	copy = mem_strdup(path);
	if (!copy)
		return -ENOMEM;
	p = copy + strspn(copy, "/");
	for (;;) {
		p += strcspn(p, "/");
		if (*p == '\0' || p[strspn(p, "/")] == '\0')
			return mkdir_one(dirfd, path, mode);
		*p = '\0';
		/* "a/../b": the ".." is the kernel's to resolve, after "a" has been made. */
		r = mkdir_one(dirfd, copy, mode);
		if (r < 0)
			return r;
		*p = '/';
		p += strspn(p, "/");
	}
}
