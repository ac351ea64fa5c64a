/* SPDX-License-Identifier: MIT */
/*
 * The other roads to the agent: `connect`, `call` with bytes and with text, and the verb CONNECT.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tree.h"

static struct agent_proc proc;
static struct client c;

static void begin(void)
{
	proc = (struct agent_proc){0};
	ASSERT_EQ(agent_start(&proc, "home", NULL), 0);
	ASSERT_EQ(client_open(&c, proc.dir), 0);
}

static void end(void)
{
	client_close(&c);
	agent_stop(&proc);
}

/* ---- commands ---- */

/* Starts the agent with these arguments and fds 0, 1, 2. */
static pid_t command(const char *const *args, int in, int out, int err)
{
	const char *argv[16] = {agent_binary()};
	pid_t pid;

	for (int i = 0; i < 14 && args[i]; i++)
		argv[i + 1] = args[i];
	pid = fork();
	if (pid == 0) {
		dup2(in, 0);
		dup2(out, 1);
		dup2(err, 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

/* Waits for it with a deadline: the exit status, 1000 + signal, or -1 when it had to be killed. */
static int ended(pid_t pid)
{
	struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0u), POLLIN, 0};
	int status, r = poll(&p, 1, 15000);

	close(p.fd);
	if (r <= 0)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return r <= 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Runs it with these bytes on stdin (then EOF); its output is in out (static, *n bytes), stderr in
 * err. */
static uint8_t out[1 << 20];
static size_t out_n;
static char err[4096];

static int run(const char *const *args, const void *input, size_t n)
{
	FILE *in_file = tmpfile(), *out_file = tmpfile(), *err_file = tmpfile();
	int status;

	if (!in_file || !out_file || !err_file || (n && fwrite(input, 1, n, in_file) != n))
		return -2;
	rewind(in_file);
	status = ended(command(args, fileno(in_file), fileno(out_file), fileno(err_file)));
	rewind(out_file);
	out_n = fread(out, 1, sizeof(out) - 1, out_file);
	out[out_n] = '\0';
	rewind(err_file);
	err[fread(err, 1, sizeof(err) - 1, err_file)] = '\0';
	fclose(in_file);
	fclose(out_file);
	fclose(err_file);
	return status;
}

/* Types of the frames in out, as letters: H hello, O ok, E error, D data, V event; '!' when they
 * are no frames. */
static const char *shape(void)
{
	static char s[64];
	size_t at = 0, k = 0;
	uint32_t n;
	uint8_t type;

	while (at < out_n && k < sizeof(s) - 2) {
		if (out_n - at < WIRE_FRAME_HEADER || wire_frame_header(out + at, &type, &n) < 0 ||
		    out_n - at - WIRE_FRAME_HEADER < n) {
			s[k++] = '!';
			break;
		}
		s[k++] = type == WIRE_HELLO   ? 'H'
			 : type == WIRE_OK    ? 'O'
			 : type == WIRE_ERROR ? 'E'
			 : type == WIRE_DATA  ? 'D'
			 : type == WIRE_EVENT ? 'V'
					      : '?';
		at += WIRE_FRAME_HEADER + n;
	}
	s[k] = '\0';
	return s;
}

static const uint8_t *built(size_t *n)
{
	const uint8_t *p = client_built(&c, n);

	c.w.len = 0;
	return p;
}

static void build_hello(void)
{
	wire_w_int(client_begin(&c, WIRE_HELLO), WK_PROTO, 1);
	client_end(&c);
}

static void build_put(const char *path, const void *p, size_t n)
{
	wire_w_str(client_begin(&c, WIRE_PUT), WK_PATH, path);
	client_end(&c);
	client_data(&c, p, n);
	client_data_end(&c, p, n, CLIENT_RIGHT);
}

/* ---- connect ---- */

/* A client whose stream is a `connect` command. */
static pid_t open_connect(struct client *d, bool start, const char *dir)
{
	const char *args[] = {"connect", start ? "--start" : dir, start ? dir : NULL, NULL};
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = command(args, pair[1], pair[1], 2);
	close(pair[1]);
	return client_open_fd(d, pair[0]) < 0 ? -1 : pid;
}

TEST_TIMEOUT(connect_carries_everything, 60)
{
	size_t n = 20u << 20;
	uint8_t *big = calloc(1, n);
	struct client d;
	struct tree t = {0};
	pid_t pid;

	begin();
	ASSERT_NOT_NULL(big);
	for (size_t i = 0; i < n; i += 512)
		memcpy(big + i, &i, sizeof(i));
	pid = open_connect(&d, false, proc.dir);
	ASSERT_GT(pid, 0);
	tree_file(&t, "big", big, n, false);
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &d, CLIENT_RIGHT), 0);
	ASSERT_EQ(file_put(&d, NULL, "big", big, n, 0644), 0);
	ASSERT_EQ(file_get(&d, NULL, "big"), 0);
	ASSERT_MEMEQ(d.data, d.data_len, big, n);
	client_close(&d);
	ASSERT_GE(ended(pid), 0);
	free(big);
	end();
}

TEST(connect_over_pipes)
{
	const char *args[] = {"connect", NULL, NULL};
	int to[2], from[2];
	ssize_t k;
	size_t n;
	pid_t pid;

	begin();
	args[1] = proc.dir;
	ASSERT_OK(pipe2(to, O_CLOEXEC));
	ASSERT_OK(pipe2(from, O_CLOEXEC));
	pid = command(args, to[0], from[1], 2);
	close(to[0]);
	close(from[1]);
	build_hello();
	build_put("f", "hello", 5);
	const uint8_t *p = built(&n);

	ASSERT_EQ(write(to[1], p, n), (ssize_t)n);
	/* The caller has said all: what it asked for is done, and answered, before the end. */
	close(to[1]);
	for (out_n = 0; (k = read(from[0], out + out_n, sizeof(out) - out_n)) > 0;)
		out_n += (size_t)k;
	ASSERT_STREQ(shape(), "HO");
	ASSERT_EQ(ended(pid), 0);
	ASSERT_EQ(file_get(&c, NULL, "f"), 0);
	end();
}

TEST(connect_without_an_init)
{
	const char *args[] = {"connect", "nowhere", NULL};

	ASSERT_EQ(run(args, "", 0), 1);
	ASSERT_CONTAINS(err, "no init runs in nowhere");
	ASSERT_EQ(run((const char *[]){"connect", NULL}, "", 0), 2);
	ASSERT_EQ(run((const char *[]){"connect", "--bad", "x", NULL}, "", 0), 2);
}

TEST_TIMEOUT(connect_starts_one_init_for_all, 60)
{
	char dir[300], cwd[200];
	struct client d[5];
	uint8_t incarnation[5][16];
	pid_t pid[5];

	ASSERT_NOT_NULL(getcwd(cwd, sizeof(cwd)));
	snprintf(dir, sizeof(dir), "%s/new", cwd);
	setenv("HOME", cwd, 1);
	for (int i = 0; i < 5; i++) {
		const char *args[] = {"connect", "--start", dir, NULL};
		int pair[2];

		ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		pid[i] = command(args, pair[1], pair[1], 2);
		close(pair[1]);
		d[i].fd = pair[0];
	}
	for (int i = 0; i < 5; i++) {
		struct wire_slice v;

		ASSERT_EQ(client_open_fd(&d[i], d[i].fd), 0);
		client_begin(&d[i], WIRE_INFO);
		client_end(&d[i]);
		ASSERT_EQ(client_call(&d[i], 0, NULL, NULL), WIRE_OK);
		ASSERT(wire_find(d[i].p, d[i].n, WK_INCARNATION, &v) && v.n == 16);
		memcpy(incarnation[i], v.p, 16);
		ASSERT_MEMEQ(incarnation[i], 16, incarnation[0], 16);
	}
	wire_w_str(client_begin(&d[0], WIRE_STOP), WK_CAUSE, "stopped");
	client_end(&d[0]);
	ASSERT_EQ(client_call(&d[0], 0, NULL, NULL), WIRE_OK);
	for (int i = 0; i < 5; i++) {
		client_close(&d[i]);
		ASSERT_GE(ended(pid[i]), 0);
	}
}

/* ---- call ---- */

TEST(call_with_bytes)
{
	const char *args[] = {"call", NULL, NULL};
	const uint8_t *p;
	size_t n;

	begin();
	args[1] = proc.dir;
	build_hello();
	build_put("f", "x\0y", 3);
	p = built(&n);
	ASSERT_EQ(run(args, p, n), 0);
	ASSERT_STREQ(shape(), "HO");
	/* HELLO may be left out. */
	wire_w_str(client_begin(&c, WIRE_GET), WK_PATH, "f");
	client_end(&c);
	p = built(&n);
	ASSERT_EQ(run(args, p, n), 0);
	ASSERT_STREQ(shape(), "HDO");
	wire_w_str(client_begin(&c, WIRE_GET), WK_PATH, "nope");
	client_end(&c);
	p = built(&n);
	ASSERT_EQ(run(args, p, n), 0);
	ASSERT_STREQ(shape(), "HE");
	end();
}

static char *base64(const uint8_t *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *s = malloc(n * 2 + 8);
	size_t k = 0;

	for (size_t i = 0; s && i < n; i += 3) {
		unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);

		s[k++] = digits[v >> 18];
		s[k++] = digits[v >> 12 & 63];
		s[k++] = i + 1 < n ? digits[v >> 6 & 63] : '=';
		s[k++] = i + 2 < n ? digits[v & 63] : '=';
	}
	s[k] = '\0';
	return s;
}

/* out, which is one line of base64, back to bytes. False when it is anything else. */
static bool unbase64(void)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t k = 0;
	unsigned acc = 0, bits = 0;

	if (out_n < 1 || out[out_n - 1] != '\n')
		return false;
	for (size_t i = 0; i + 1 < out_n; i++) {
		const char *d = out[i] ? strchr(digits, out[i]) : NULL;

		if (out[i] == '=')
			continue;
		if (!d)
			return false;
		acc = acc << 6 | (unsigned)(d - digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[k++] = (uint8_t)(acc >> bits);
		}
	}
	out_n = k;
	return true;
}

TEST(call_with_text)
{
	const char *args[8] = {"call", "--text", NULL};
	char *text, piece[3][200];
	uint8_t bytes[300];
	size_t n, third;
	const uint8_t *p;

	begin();
	args[2] = proc.dir;
	for (int i = 0; i < 300; i++)
		bytes[i] = (uint8_t)i;
	build_hello();
	build_put("bin", bytes, 300);
	p = built(&n);
	text = base64(p, n);
	third = strlen(text) / 3;
	/* Joined, wherever they were cut. */
	ASSERT_LT(third + 3, sizeof(piece[0]) * 2);
	args[3] = text;
	ASSERT_EQ(run(args, "", 0), 0);
	ASSERT(unbase64());
	ASSERT_STREQ(shape(), "HO");
	for (size_t len = 1; len <= 5; len++) {
		wire_w_str(client_begin(&c, WIRE_GET), WK_PATH, "bin");
		wire_w_int(&c.w, WK_MAX, (int64_t)len);
		client_end(&c);
		p = built(&n);
		free(text);
		text = base64(p, n);
		snprintf(piece[0], sizeof(piece[0]), "%.*s", 5, text);
		snprintf(piece[1], sizeof(piece[1]), "%.*s", 1, text + 5);
		snprintf(piece[2], sizeof(piece[2]), "%s", text + 6);
		for (int i = 0; i < 3; i++)
			args[3 + i] = piece[i];
		ASSERT_EQ(run(args, "", 0), 0);
		ASSERT(unbase64());
		ASSERT_STREQ(shape(), "HDO");
	}
	args[3] = "no base64!";
	args[4] = NULL;
	ASSERT_EQ(run(args, "", 0), 2);
	free(text);
	end();
}

TEST(call_that_wants_more_than_it_is_given)
{
	const char *args[] = {"call", NULL, NULL};
	struct tree t = {0};
	const uint8_t *p;
	size_t n;

	begin();
	args[1] = proc.dir;
	tree_text(&t, "f", "contents");
	tree_finish(&t);
	build_hello();
	tree_request(&t, &c);
	p = built(&n);
	/* UNPACK on this road is asked twice: what is missing is told although the contents are not
	 * there yet. */
	ASSERT_EQ(run(args, p, n), 1);
	ASSERT_STREQ(shape(), "HV");
	build_hello();
	tree_request(&t, &c);
	tree_contents(&t, &c, (const uint8_t *)"\1", 1, CLIENT_RIGHT);
	p = built(&n);
	ASSERT_EQ(run(args, p, n), 0);
	ASSERT_STREQ(shape(), "HVO");
	/* Cut off anywhere: it ends, and nothing is done. */
	build_hello();
	build_put("never", "12345", 5);
	p = built(&n);
	for (size_t cut = 0; cut < n; cut += 7) {
		ASSERT_EQ(run(args, p, cut), 1);
		ASSERT_LACKS(shape(), "O");
	}
	ASSERT_EQ(file_get(&c, NULL, "never"), WIRE_E_NOT_FOUND);
	end();
}

static bool started(void *arg)
{
	(void)arg;
	return access("home/started", F_OK) == 0;
}

TEST(call_that_is_killed_ends_its_request)
{
	const char *args[] = {"call", NULL, NULL};
	struct tree t = {0};
	struct wire_w *w;
	FILE *in = tmpfile();
	const uint8_t *p;
	size_t n;
	pid_t pid;

	begin();
	args[1] = proc.dir;
	tree_text(&t, "f", "contents");
	tree_finish(&t);
	ASSERT_EQ(tree_unpack(&t, &c, CLIENT_RIGHT), 0);
	w = client_begin(&c, WIRE_INSTALL);
	wire_w_str(w, WK_TREE, t.hex);
	wire_w_str(w, WK_LAYER, t.hex);
	wire_w_str(w, WK_COMMAND, "echo >$HOME/started; sleep 974321");
	client_end(&c);
	p = built(&n);
	ASSERT_EQ(fwrite(p, 1, n, in), n);
	rewind(in);
	pid = command(args, fileno(in), open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
	ASSERT(client_until(started, NULL));
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(ended(pid), 1000 + SIGKILL);
	/* The stream has closed with it, and so has the install ended: the next one gets the lock.
	 */
	w = client_begin(&c, WIRE_INSTALL);
	wire_w_str(w, WK_TREE, t.hex);
	wire_w_str(w, WK_LAYER, t.hex);
	wire_w_str(w, WK_COMMAND, "true");
	wire_w_int(w, WK_TIMEOUT_MS, 10000);
	client_end(&c);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_OK);
	end();
}

/* ---- CONNECT ---- */

/* A server on a port of its own: for each connection, reads to the end, then writes back what came,
 * then closes. */
static int serve(int *ret_port, int family)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = family == AF_INET ? sizeof(a4) : sizeof(a6);
	struct sockaddr *a = family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;

	if (s < 0 || bind(s, a, len) < 0 || listen(s, 8) < 0 || getsockname(s, a, &len) < 0)
		return -1;
	*ret_port = ntohs(family == AF_INET ? a4.sin_port : a6.sin6_port);
	if (fork() == 0) {
		static uint8_t all[64 << 20];

		for (;;) {
			int k = accept(s, NULL, NULL);
			size_t n = 0;
			ssize_t r;

			while ((r = read(k, all + n, sizeof(all) - n)) > 0)
				n += (size_t)r;
			for (size_t at = 0; at < n; at += (size_t)r) {
				r = write(k, all + at, n - at);
				if (r < 0)
					break;
			}
			close(k);
		}
	}
	return s;
}

static int request_connect(struct client *d, int port, const char *host)
{
	struct wire_w *w = client_begin(d, WIRE_CONNECT);

	wire_w_int(w, WK_PORT, port);
	wire_w_str(w, WK_HOST, host);
	client_end(d);
	return 0;
}

TEST_TIMEOUT(connect_to_a_port, 60)
{
	size_t n = 20u << 20, got = 0;
	uint8_t *big = malloc(n), *back = malloc(n + 6);
	int port, s = serve(&port, AF_INET);
	struct client d;
	ssize_t r;

	begin();
	ASSERT_GE(s, 0);
	ASSERT(big && back);
	for (size_t i = 0; i < n; i++)
		big[i] = (uint8_t)(i * 7 + i / 251);
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	request_connect(&d, port, NULL);
	/* Bytes that follow the request at once belong to the connection. */
	wire_w_raw(&d.w, "early", 5);
	ASSERT_EQ(client_call(&d, 0, NULL, NULL), WIRE_OK);
	for (size_t at = 0; at < n; at += (size_t)r) {
		r = write(d.fd, big + at, n - at);
		ASSERT_GT(r, 0);
	}
	/* Half-closing travels, and the other direction stays open until it ends. */
	ASSERT_OK(shutdown(d.fd, SHUT_WR));
	while (got <= n + 5 && (r = read(d.fd, back + got, n + 6 - got)) > 0)
		got += (size_t)r;
	ASSERT_EQ(got, n + 5);
	ASSERT_MEMEQ(back, 5, "early", 5);
	ASSERT_EQ(memcmp(back + 5, big, n), 0);
	client_close(&d);
	free(big);
	free(back);
	end();
}

/* Connection children of init. */
static int children(void)
{
	char path[64];
	int n = 0, pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)proc.pid, (int)proc.pid);
	f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

static bool only_ours_is_left(void *arg)
{
	(void)arg;
	return children() == 1;
}

TEST(connect_ends_with_its_caller)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), k;
	socklen_t len = sizeof(a);
	struct client d;
	char byte;

	begin();
	ASSERT_OK(bind(s, (struct sockaddr *)&a, len));
	ASSERT_OK(listen(s, 1));
	ASSERT_OK(getsockname(s, (struct sockaddr *)&a, &len));
	ASSERT_EQ(client_open(&d, proc.dir), 0);
	request_connect(&d, ntohs(a.sin_port), NULL);
	ASSERT_EQ(client_call(&d, 0, NULL, NULL), WIRE_OK);
	k = accept(s, NULL, NULL);
	ASSERT_OK(k);
	ASSERT_EQ(children(), 2);
	/* The server keeps its end open. */
	client_close(&d);
	ASSERT_EQ(read(k, &byte, 1), 0);
	ASSERT(client_until(only_ours_is_left, NULL));
	end();
}

TEST(connect_refusals)
{
	int port, s = serve(&port, AF_INET6);

	begin();
	if (s >= 0) {
		struct client d;
		char buf[8] = "";

		ASSERT_EQ(client_open(&d, proc.dir), 0);
		request_connect(&d, port, "::1");
		wire_w_raw(&d.w, "six", 3);
		ASSERT_EQ(client_call(&d, 0, NULL, NULL), WIRE_OK);
		ASSERT_OK(shutdown(d.fd, SHUT_WR));
		ASSERT_EQ(read(d.fd, buf, sizeof(buf)), 3);
		ASSERT_STREQ(buf, "six");
		client_close(&d);
	}
	/* A port that nobody listens on. */
	s = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);

	ASSERT_OK(bind(s, (struct sockaddr *)&a, len));
	ASSERT_OK(getsockname(s, (struct sockaddr *)&a, &len));
	request_connect(&c, ntohs(a.sin_port), NULL);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	ASSERT_EQ(client_code(&c), WIRE_E_UNAVAILABLE);
	ASSERT_CONTAINS(client_str(&c, WK_MESSAGE), "refused");
	/* It was an answer like any other: the next request is answered. */
	request_connect(&c, 0, NULL);
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	request_connect(&c, 80, "no.such.name");
	ASSERT_EQ(client_call(&c, 0, NULL, NULL), WIRE_ERROR);
	ASSERT_EQ(client_code(&c), WIRE_E_INVALID);
	end();
}

TEST_MAIN()
