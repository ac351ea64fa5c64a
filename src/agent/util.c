/* SPDX-License-Identifier: MIT */
/*
 * util.c: memory without malloc, text without stdio, whole reads and writes, clocks, names,
 * environments.
 *
 * Invariants: nothing here keeps state; every failure is a return value. It does not log and it
 * does not exit.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/conn.h"

/* ---- text ---- */

struct text {
	char *p;
	size_t cap, len;
};

static void text_add(struct text *t, const char *s, size_t n)
{
	size_t room = t->cap - t->len;

	if (n > room)
		n = room;
	memcpy(t->p + t->len, s, n);
	t->len += n;
}

static void text_number(struct text *t, unsigned long long v, unsigned base, bool minus)
{
	char digits[24];
	size_t i = sizeof(digits);

	do {
		digits[--i] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	if (minus)
		digits[--i] = '-';
	text_add(t, digits + i, sizeof(digits) - i);
}

static const char *text_string(struct text *t, const char *f, va_list *args)
{
	int n = 0;
	const char *s;

	if (f[0] == '.' && f[1] == '*') {
		n = va_arg(*args, int);
		s = va_arg(*args, const char *);
		text_add(t, s, n > 0 ? (size_t)n : 0);
		return f + 2;
	}
	s = va_arg(*args, const char *);
	text_add(t, s ? s : "", s ? strlen(s) : 0);
	return f;
}

static unsigned long long text_integer(int longs, bool is_signed, bool *ret_minus, va_list *args)
{
	long long v;

	if (!is_signed)
		return longs == 0   ? va_arg(*args, unsigned)
		       : longs == 1 ? va_arg(*args, unsigned long)
				    : va_arg(*args, unsigned long long);
	v = longs == 0   ? va_arg(*args, int)
	    : longs == 1 ? va_arg(*args, long)
			 : va_arg(*args, long long);
	*ret_minus = v < 0;
	return v < 0 ? 0ULL - (unsigned long long)v : (unsigned long long)v;
}

static size_t vfmt(char *buf, size_t cap, int err, const char *f, va_list *args)
{
	struct text t = {buf, cap - 1, 0};

	for (; *f; f++) {
		int longs = 0;
		bool minus = false;
		unsigned long long v;

		if (*f != '%') {
			text_add(&t, f, 1);
			continue;
		}
		f++;
		for (; *f == 'l' || *f == 'z'; f++)
			longs++;
		switch (*f) {
		case '.':
		case 's':
			f = text_string(&t, f, args);
			break;
		case 'd':
		case 'u':
		case 'x':
			v = text_integer(longs, *f == 'd', &minus, args);
			text_number(&t, v, *f == 'x' ? 16 : 10, minus);
			break;
		case 'c': {
			char c = (char)va_arg(*args, int);

			text_add(&t, &c, 1);
			break;
		}
		case 'm':
			text_add(&t, err_text(err), strlen(err_text(err)));
			break;
		default:
			text_add(&t, "%", 1);
		}
	}
	buf[t.len] = '\0';
	return t.len;
}

size_t fmt(char *buf, size_t cap, const char *f, ...)
{
	va_list args;
	size_t n;

	va_start(args, f);
	n = vfmt(buf, cap, errno, f, &args);
	va_end(args);
	return n;
}

/* A message is one line, whatever names are in it. */
static void one_line(char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	}
}

int fail_va(struct agent_fail *f, const char *text, va_list *args)
{
	vfmt(f->message, sizeof(f->message), f->err, text, args);
	one_line(f->message);
	return -1;
}

int fail(struct agent_fail *f, int code, const char *stage, int err, const char *text, ...)
{
	va_list args;

	if (!f)
		return -1;
	f->code = code;
	f->err = err;
	f->stage = stage;
	va_start(args, text);
	fail_va(f, text, &args);
	va_end(args);
	return -1;
}

const char *err_text(int err)
{
	return strerror(err);
}

void hex(char *out, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = "0123456789abcdef"[b[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[b[i] & 15];
	}
	out[2 * n] = '\0';
}

/* ---- memory ---- */

static size_t pages(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

void *agent_map(size_t n)
{
	void *p = mmap(NULL, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void agent_unmap(void *p, size_t n)
{
	if (p)
		munmap(p, pages(n));
}

bool buf_need(struct buf *b, size_t n)
{
	void *p;

	if (n <= b->cap)
		return true;
	n = pages(n);
	p = b->p ? mremap(b->p, b->cap, n, MREMAP_MAYMOVE) : agent_map(n);
	if (!p || p == MAP_FAILED)
		return false;
	b->p = p;
	b->cap = n;
	return true;
}

void buf_trim(struct buf *b, size_t keep)
{
	keep = pages(keep);
	if (b->cap > keep)
		madvise(b->p + keep, b->cap - keep, MADV_DONTNEED);
}

void buf_done(struct buf *b)
{
	agent_unmap(b->p, b->cap);
	b->p = NULL;
	b->cap = 0;
}

bool arena_init(struct arena *a, size_t cap)
{
	a->p = agent_map(cap);
	a->cap = a->p ? pages(cap) : 0;
	a->len = 0;
	return a->p != NULL;
}

void *arena_take(struct arena *a, size_t n)
{
	size_t at = (a->len + 15) & ~(size_t)15;

	if (n > a->cap || at > a->cap - n)
		return NULL;
	a->len = at + n;
	return a->p + at;
}

char *arena_str(struct arena *a, const void *p, size_t n)
{
	char *s;

	/* No alignment: strings make up most of an environment. */
	if (n >= a->cap - a->len)
		return NULL;
	s = (char *)a->p + a->len;
	memcpy(s, p, n);
	s[n] = '\0';
	a->len += n + 1;
	return s;
}

void arena_done(struct arena *a)
{
	agent_unmap(a->p, a->cap);
	*a = (struct arena){0};
}

/* ---- files ---- */

int write_all(int fd, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n) {
		ssize_t r = write(fd, b, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		b += r;
		n -= (size_t)r;
	}
	return 0;
}

ssize_t read_full(int fd, void *p, size_t n)
{
	uint8_t *b = p;
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, b + got, n - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int write_file_at(int dirfd, const char *name, const void *p, size_t n)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC), r, err;

	if (fd < 0)
		return -1;
	r = write_all(fd, p, n);
	err = errno;
	close(fd);
	errno = err;
	return r;
}

ssize_t read_file_at(int dirfd, const char *name, char *buf, size_t cap)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC), err;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read_full(fd, buf, cap);
	err = errno;
	close(fd);
	if (n >= 0 && (size_t)n == cap) {
		err = EFBIG;
		n = -1;
	}
	if (n >= 0)
		buf[n] = '\0';
	errno = err;
	return n;
}

/* ---- clocks and names ---- */

static int64_t clock_ms(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t now_ms(void)
{
	return clock_ms(CLOCK_BOOTTIME);
}

int64_t wall_ms(void)
{
	return clock_ms(CLOCK_REALTIME);
}

void random_bytes(void *p, size_t n)
{
	uint8_t *b = p;

	while (n) {
		ssize_t r = getrandom(b, n, 0);

		if (r < 0)
			continue; /* only EINTR can happen to a request without flags */
		b += r;
		n -= (size_t)r;
	}
}

void random_name(char out[33])
{
	uint8_t b[16];

	random_bytes(b, sizeof(b));
	hex(out, b, sizeof(b));
}

bool slice_str(struct wire_slice s, char *buf, size_t cap)
{
	if (s.n >= cap || !wire_slice_is_text(s))
		return false;
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	return true;
}

bool slice_eq(struct wire_slice s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* ---- argv and environment ---- */

static size_t count_fields(const void *p, size_t n, uint16_t key)
{
	struct wire_slice v;
	struct wire_r r;
	size_t count = 0;
	uint16_t k;

	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v))
		count += k == key;
	return count;
}

char **argv_make(struct arena *a, const void *p, size_t n, uint16_t key)
{
	size_t count = count_fields(p, n, key), i = 0;
	char **argv = arena_take(a, (count + 2) * sizeof(*argv));
	struct wire_slice v;
	struct wire_r r;
	uint16_t k;

	if (!argv)
		return NULL;
	argv++; /* the spare slot that spawn() wants */
	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v)) {
		if (k != key)
			continue;
		argv[i] = arena_str(a, v.p, v.n);
		if (!argv[i++])
			return NULL;
	}
	argv[i] = NULL;
	return argv;
}

/* Variables by name: open addressing, so that thousands of them stay linear. */
struct env {
	struct arena *a;
	char **v;
	uint32_t *slots;
	size_t n, mask;
};

static bool env_put(struct env *e, const char *kv, size_t len)
{
	const char *eq = memchr(kv, '=', len);
	size_t name = eq ? (size_t)(eq - kv) : 0, at;
	uint32_t h = 2166136261u;
	char *s;

	if (!name)
		return true; /* not a variable: execve would carry it, nobody could read it */
	for (size_t i = 0; i < name; i++)
		h = (h ^ (uint8_t)kv[i]) * 16777619u;
	for (at = h & e->mask; e->slots[at]; at = (at + 1) & e->mask) {
		if (strncmp(e->v[e->slots[at] - 1], kv, name + 1) == 0)
			break;
	}
	s = arena_str(e->a, kv, len);
	if (!s)
		return false;
	if (!e->slots[at])
		e->slots[at] = (uint32_t)++e->n;
	e->v[e->slots[at] - 1] = s;
	return true;
}

static bool env_base(struct env *e)
{
	char line[AGENT_PATH_MAX + 16];
	const char *path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	bool ok = env_put(e, path, strlen(path));

	ok = ok && env_put(e, line, fmt(line, sizeof(line), "HOME=%s", agent.home));
	ok = ok && env_put(e, line, fmt(line, sizeof(line), "USER=%s", agent.user));
	ok = ok && env_put(e, "TMPDIR=/tmp", 11) && env_put(e, "LANG=C.UTF-8", 12);
	for (char **p = agent.environ; ok && p && *p; p++)
		ok = env_put(e, *p, strlen(*p));
	return ok;
}

char **env_make(struct arena *a, const void *p, size_t n, uint16_t key)
{
	struct env e = {.a = a};
	size_t max = 8 + count_fields(p, n, key), slots = 16;
	struct wire_slice v;
	struct wire_r r;
	uint16_t k;

	for (char **q = agent.environ; q && *q; q++)
		max++;
	while (slots < 2 * max)
		slots *= 2;
	e.v = arena_take(a, (max + 1) * sizeof(*e.v));
	e.slots = arena_take(a, slots * sizeof(*e.slots));
	e.mask = slots - 1;
	if (!e.v || !e.slots || !env_base(&e))
		return NULL;
	wire_r_init(&r, p, n);
	while (wire_r_next(&r, &k, &v)) {
		if (k == key && !env_put(&e, (const char *)v.p, v.n))
			return NULL;
	}
	e.v[e.n] = NULL;
	return e.v;
}
