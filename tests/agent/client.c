/* SPDX-License-Identifier: MIT */
/*
 * client.c: see client.h. Keeps no state but in its structs; every wait has a deadline.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DEADLINE_MS 60000

int64_t client_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool client_until(bool (*fn)(void *arg), void *arg)
{
	int64_t end = client_now_ms() + 10000;

	while (!fn(arg)) {
		if (client_now_ms() > end)
			return false;
		poll(NULL, 0, 2);
	}
	return true;
}

void client_xxh128(const void *p, size_t n, uint8_t ret[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
	memcpy(ret, c.digest, 16);
}

/* ---- an agent ---- */

const char *agent_binary(void)
{
	static char path[512];
	const char *p = getenv("BERTH_AGENT"), *root = getenv("BERTH_BUILD_ROOT");

	if (p && *p)
		return p;
	snprintf(path, sizeof(path), "%s/berth-agent", root ? root : "build");
	return path;
}

static void exec_init(const struct agent_proc *a, const char *const *options, int ready)
{
	const char *argv[16] = {agent_binary(), "init", "--ready"};
	char number[12];
	size_t n = 4;

	snprintf(number, sizeof(number), "%d", ready);
	argv[3] = number;
	for (; options && *options && n < 14; options++)
		argv[n++] = *options;
	argv[n] = a->dir;
	setenv("HOME", a->home, 1);
	if (a->uid && (setgid(a->uid) < 0 || setuid(a->uid) < 0))
		_exit(126);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	fprintf(stderr, "# cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* What init says first: 'r' of ready, 'h' of held, …; 0 when it says nothing. */
static char first_word(struct agent_proc *a, const char *const *options)
{
	int fds[2];
	struct pollfd p;
	char byte;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	a->pid = fork();
	if (a->pid == 0) {
		fcntl(fds[1], F_SETFD, 0);
		exec_init(a, options, fds[1]);
	}
	close(fds[1]);
	p = (struct pollfd){fds[0], POLLIN, 0};
	if (a->pid < 0 || poll(&p, 1, 10000) <= 0 || read(fds[0], &byte, 1) != 1)
		byte = 0;
	close(fds[0]);
	return byte;
}

int agent_restart(struct agent_proc *a, const char *const *options)
{
	int64_t end = client_now_ms() + 10000;
	char word;

	/* A child of a killed init may hold the lock for a moment longer than init itself. */
	while ((word = first_word(a, options)) == 'h' && client_now_ms() < end)
		agent_kill(a);
	if (word == 'r')
		return 0;
	fprintf(stderr, "# init did not become ready\n");
	agent_kill(a);
	return -1;
}

int agent_start(struct agent_proc *a, const char *name, const char *const *options)
{
	char cwd[128];

	if (!getcwd(cwd, sizeof(cwd)))
		return -1;
	snprintf(a->home, sizeof(a->home), "%s/%s", cwd, name);
	snprintf(a->dir, sizeof(a->dir), "%.240s/berth", a->home);
	a->pid = -1;
	if ((mkdir(a->home, 0755) < 0 && errno != EEXIST) ||
	    (mkdir(a->dir, 0700) < 0 && errno != EEXIST)) {
		fprintf(stderr, "# cannot make %s: %s\n", a->dir, strerror(errno));
		return -1;
	}
	if (a->uid && (chown(a->home, a->uid, a->uid) < 0 || chown(a->dir, a->uid, a->uid) < 0 ||
		       chmod(".", 0755) < 0))
		return -1;
	return agent_restart(a, options);
}

void agent_kill(struct agent_proc *a)
{
	if (a->pid > 0) {
		kill(a->pid, SIGKILL);
		waitpid(a->pid, NULL, 0);
	}
	a->pid = -1;
}

void agent_stop(struct agent_proc *a)
{
	struct client c;
	struct pollfd p = {-1, POLLIN, 0};

	if (a->pid <= 0)
		return;
	if (client_open(&c, a->dir) == 0) {
		wire_w_str(client_begin(&c, WIRE_STOP), WK_CAUSE, "stopped");
		client_end(&c);
		client_call(&c, 0, NULL, NULL);
		client_close(&c);
	}
	p.fd = (int)syscall(SYS_pidfd_open, a->pid, 0u);
	if (p.fd < 0 || poll(&p, 1, 10000) <= 0)
		fprintf(stderr, "# init did not end after STOP\n");
	close(p.fd);
	agent_kill(a);
}

/* ---- a stream ---- */

static void *grow(void *p, size_t *cap, size_t need)
{
	size_t n = *cap ? *cap : 65536;

	while (n < need)
		n *= 2;
	if (n == *cap)
		return p;
	*cap = n;
	p = realloc(p, n);
	if (!p)
		abort();
	return p;
}

static int deadline(int fd, short events)
{
	struct pollfd p = {fd, events, 0};
	int r = poll(&p, 1, DEADLINE_MS);

	if (r == 0)
		fprintf(stderr, "# the agent did not answer in time\n");
	return r > 0 ? 0 : -1;
}

int client_open_fd(struct client *c, int fd)
{
	const uint8_t *p;
	uint8_t type = 0;
	size_t n;

	*c = (struct client){.fd = fd};
	signal(SIGPIPE, SIG_IGN);
	wire_w_int(client_begin(c, WIRE_HELLO), WK_PROTO, WIRE_PROTO_VERSION);
	client_end(c);
	if (client_send(c) == 0 && client_recv(c, &type, &p, &n) == 1 && type == WIRE_HELLO)
		return 0;
	fprintf(stderr, "# no HELLO (frame %u)\n", type);
	client_close(c);
	return -1;
}

int client_open(struct client *c, const char *dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
	    s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*c = (struct client){.fd = -1};
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/init.sock", d);
	if (connect(s, (struct sockaddr *)&a, sizeof(a)) < 0) {
		fprintf(stderr, "# cannot connect to %s: %s\n", dir, strerror(errno));
		close(s);
		close(d);
		return -1;
	}
	close(d);
	return client_open_fd(c, s);
}

void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->out);
	free(c->in);
	free(c->data);
	free(c->data2);
	*c = (struct client){.fd = -1};
}

static void room(struct client *c, size_t n)
{
	c->out = grow(c->out, &c->out_cap, c->w.len + n);
	c->w.p = c->out;
	c->w.cap = c->out_cap;
}

struct wire_w *client_begin(struct client *c, uint8_t type)
{
	room(c, 9u << 20);
	c->frame_at = wire_w_frame_begin(&c->w, type);
	return &c->w;
}

void client_end(struct client *c)
{
	wire_w_frame_end(&c->w, c->frame_at);
}

void client_data(struct client *c, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n) {
		size_t k = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;

		room(c, k + 64);
		c->frame_at = wire_w_frame_begin(&c->w, WIRE_DATA);
		wire_w_raw(&c->w, b, k);
		wire_w_frame_end(&c->w, c->frame_at);
		b += k;
		n -= k;
	}
}

void client_data_end(struct client *c, const void *hashed, size_t n, enum client_hash how)
{
	uint8_t h[16];

	client_xxh128(hashed, n, h);
	if (how == CLIENT_WRONG)
		h[7] ^= 1;
	room(c, 128);
	c->frame_at = wire_w_frame_begin(&c->w, WIRE_END);
	if (how != CLIENT_NONE)
		wire_w_bytes(&c->w, WK_XXH128, h, sizeof(h));
	wire_w_frame_end(&c->w, c->frame_at);
}

const uint8_t *client_built(struct client *c, size_t *n)
{
	*n = c->w.len;
	return c->out;
}

void client_reset(struct client *c)
{
	c->w.len = 0;
}

int client_send(struct client *c)
{
	size_t at = 0, n = c->w.len;

	c->w.len = 0;
	while (at < n) {
		ssize_t r;

		if (deadline(c->fd, POLLOUT) < 0)
			return -1;
		r = write(c->fd, c->out + at, n - at);
		if (r < 0 && errno != EINTR)
			return -1;
		at += r > 0 ? (size_t)r : 0;
	}
	return 0;
}

static int read_exact(struct client *c, uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t r;

		if (deadline(c->fd, POLLIN) < 0)
			return -1;
		r = read(c->fd, p + at, n - at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r == 0 && at == 0 ? 0 : -1;
		at += (size_t)r;
	}
	return 1;
}

int client_recv(struct client *c, uint8_t *type, const uint8_t **p, size_t *n)
{
	uint8_t head[WIRE_FRAME_HEADER];
	uint32_t len;
	int r = read_exact(c, head, sizeof(head));

	if (r <= 0)
		return r;
	if (wire_frame_header(head, type, &len) < 0) {
		fprintf(stderr, "# a frame with a bad header\n");
		return -1;
	}
	c->in = grow(c->in, &c->in_cap, (size_t)len + 1);
	if (len && read_exact(c, c->in, len) != 1)
		return -1;
	*p = c->in;
	*n = len;
	if (*type != WIRE_DATA && *type != WIRE_DATA2 && !wire_fields_valid(*p, *n)) {
		fprintf(stderr, "# a frame of type %u with bad fields\n", *type);
		return -1;
	}
	return 1;
}

static void collect(uint8_t **to, size_t *len, size_t *cap, const uint8_t *p, size_t n)
{
	*to = grow(*to, cap, *len + n + 1);
	memcpy(*to + *len, p, n);
	*len += n;
	(*to)[*len] = '\0';
}

int client_call(struct client *c, uint8_t stop_at,
		void (*event)(void *arg, const uint8_t *p, size_t n), void *arg)
{
	const uint8_t *p;
	uint8_t type;
	size_t n;

	c->final = 0;
	c->data_len = c->data2_len = c->events = 0;
	c->n = 0;
	/* An agent that has refused something answers before it has read all: the answer is still
	 * there to be read. */
	client_send(c);
	while (client_recv(c, &type, &p, &n) == 1) {
		if (type == WIRE_EVENT)
			c->events++;
		if (type == WIRE_OK || type == WIRE_ERROR || (stop_at && type == stop_at)) {
			c->final = type;
			c->p = p;
			c->n = n;
			break;
		}
		if (type == WIRE_EVENT && event)
			event(arg, p, n);
		else if (type == WIRE_DATA)
			collect(&c->data, &c->data_len, &c->data_cap, p, n);
		else if (type == WIRE_DATA2)
			collect(&c->data2, &c->data2_len, &c->data2_cap, p, n);
	}
	return c->final;
}

int64_t client_int(const struct client *c, uint16_t key, int64_t dflt)
{
	return wire_find_int(c->p, c->n, key, dflt);
}

const char *client_str(const struct client *c, uint16_t key)
{
	static char buf[4][8192];
	static int turn;
	struct wire_slice v;
	char *s = buf[turn++ % 4];

	s[0] = '\0';
	if (wire_find(c->p, c->n, key, &v) && v.n < sizeof(buf[0])) {
		memcpy(s, v.p, v.n);
		s[v.n] = '\0';
	}
	return s;
}

int client_code(const struct client *c)
{
	if (c->final == WIRE_OK)
		return 0;
	return c->final == WIRE_ERROR ? (int)client_int(c, WK_CODE, -2) : -1;
}
