/* SPDX-License-Identifier: MIT */
/*
 * Published ports: sockets that listen on this machine's loopback and are served from inside.
 *
 * They are opened here and handed in, so the sandbox needs no network for them. The file `ports`
 * says where each was published last: a port that may be anywhere gets the same number again, so
 * URLs stay true over a restart where they can.
 */
#include "providers/local/local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/time.h"
#include "core/road.h"

#define ANSWER_MS 10000

void local_ports_done(struct local_ports *p)
{
	for (size_t i = 0; i < p->n; i++)
		fd_close(&p->p[i].fd);
	p->n = 0;
}

/* ── what is written down ───────────────────────────────────────────────────────────────── */

int local_ports_read(const struct local *l, struct local_ports *ret, struct berth_error *err)
{
	auto_free char *path = local_path(l, "ports"), *text = NULL;
	char *line, *save = NULL;
	int rc;

	if (!path)
		return berth_fail_nomem(err);
	rc = read_file(AT_FDCWD, path, SMALL_FILE_MAX, &text, NULL, err);
	if (rc < 0 && rc != BERTH_E_NOT_FOUND)
		return rc;
	ret->n = 0;
	for (line = text ? strtok_r(text, "\n", &save) : NULL; line && ret->n < LOCAL_PORTS_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		struct local_port *p = &ret->p[ret->n];

		p->fd = -1;
		if (sscanf(line, "%u 127.0.0.1:%u", &p->port, &p->host) == 2)
			ret->n++;
	}
	return 0;
}

static int write_down(const struct local *l, const struct local_ports *p, struct berth_error *err)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(SMALL_FILE_MAX);
	auto_free char *path = local_path(l, "ports");

	for (size_t i = 0; i < p->n; i++)
		strbuf_addf(&b, "%u 127.0.0.1:%u\n", p->p[i].port, p->p[i].host);
	if (!path || strbuf_error(&b) < 0)
		return berth_fail_nomem(err);
	return write_file_atomic(AT_FDCWD, path, b.data, b.len, 0600, 0, err);
}

static struct local_port *find(struct local_ports *p, unsigned port)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->p[i].port == port)
			return &p->p[i];
	}
	return NULL;
}

/* ── listening ──────────────────────────────────────────────────────────────────────────── */

/* host 0: a free one. The fd or -errno; *host is the number that it has. */
static int listen_at(unsigned *host)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)*host),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(sin);
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	fd = fd >= 0 ? fd_move_above_2(fd) : -errno;
	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sin, &n) < 0)
		return -errno;
	*host = ntohs(sin.sin_port);
	return TAKE_FD(fd);
}

/* With this machine's network a port is where it is already. */
static bool is_there(const struct local *l, const struct local_port_want *want)
{
	return (!want->host || want->host == want->port) &&
	       strcmp(local_key_value(&l->record.keys, KEY_NET), "host") == 0;
}

/* One port: where it is wanted; else where it was; else anywhere. */
static int open_port(const struct local_port_want *want, unsigned before, struct local_port *ret,
		     struct berth_error *err)
{
	struct local_port p = {.port = want->port, .host = want->host ? want->host : before};

	p.fd = listen_at(&p.host);
	if (p.fd < 0 && !want->host && before) {
		p.host = 0;
		p.fd = listen_at(&p.host);
	}
	if (p.fd == -EADDRINUSE)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "ports=%u:%u: port %u of this machine is in use", want->host,
				  want->port, want->host);
	if (p.fd < 0)
		return berth_fail_errno(err, BERTH_E_UNAVAILABLE, -p.fd,
					"port %u cannot be published at 127.0.0.1:%u", want->port,
					p.host);
	*ret = p;
	return 0;
}

int local_ports_listen(const struct local *l, struct local_ports *ret, struct berth_error *err)
{
	struct local_port_want want[LOCAL_PORTS_MAX];
	size_t n = local_keys_ports(&l->record.keys, want);
	auto(local_ports) struct local_ports p = LOCAL_PORTS_INIT, before = LOCAL_PORTS_INIT;
	int rc = n ? local_ports_read(l, &before, err) : 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct local_port *b = find(&before, want[i].port);

		if (is_there(l, &want[i])) {
			p.p[p.n++] = (struct local_port){want[i].port, want[i].port, -1};
			continue;
		}
		rc = open_port(&want[i], b ? b->host : 0, &p.p[p.n], err);
		p.n += rc == 0;
	}
	if (rc == 0)
		rc = write_down(l, &p, err);
	if (rc < 0)
		return rc;
	*ret = p;
	p.n = 0;
	return 0;
}

void local_ports_describe(const struct local *l, char *buf, size_t cap)
{
	struct local_ports p = LOCAL_PORTS_INIT;
	size_t n = 0;

	buf[0] = '\0';
	if (local_ports_read(l, &p, NULL) < 0)
		return;
	for (size_t i = 0; i < p.n && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "%s%u=http://127.0.0.1:%u", n ? " " : "",
				      p.p[i].port, p.p[i].host);
}

/* ── publishing to one that runs ────────────────────────────────────────────────────────── */

static int publish(const struct local *l, const struct local_port *p, struct berth_error *err)
{
	uint8_t buf[32];
	struct wire_w w;
	struct berth_stream stream;
	auto(road) struct road *r = NULL;
	int rc, fd = local_connect(l->inner, "init.sock");

	if (fd < 0)
		return berth_fail_errno(err, BERTH_E_UNAVAILABLE, -fd, "the init of the sandbox %s",
					l->full);
	stream = (struct berth_stream){.rfd = fd, .wfd = fd, .pidfd = -1};
	wire_w_init(&w, buf, sizeof(buf));
	wire_w_int(&w, WK_PORT, p->port);
	rc = road_over(&stream, &r, err);
	if (rc == 0)
		rc = road_hello(r, deadline_from_ms(ANSWER_MS), err);
	if (rc == 0)
		rc = road_request(r, WIRE_PUBLISH, &w, err);
	if (rc == 0)
		rc = road_pass_fd(r, p->fd, err);
	return rc < 0 ? rc : road_final(r, deadline_from_ms(ANSWER_MS), NULL, err);
}

/* With the lock: publishes it unless somebody just has. */
static int publish_new(struct local *l, unsigned port, unsigned *ret_host, struct berth_error *err)
{
	auto(local_ports) struct local_ports all = LOCAL_PORTS_INIT;
	auto_close int fd = -1;
	struct local_port p = {.port = port, .fd = -1};
	int rc = local_ports_read(l, &all, err);
	const struct local_port *there = rc == 0 ? find(&all, port) : NULL;

	if (there) {
		*ret_host = there->host;
		return 0;
	}
	if (rc == 0 && all.n == LOCAL_PORTS_MAX)
		rc = berth_fail(err, BERTH_E_TOO_LARGE, "%d ports are published already",
				LOCAL_PORTS_MAX);
	if (rc == 0)
		rc = open_port(&(struct local_port_want){0, port}, 0, &p, err);
	if (rc < 0)
		return rc;
	fd = p.fd;
	rc = publish(l, &p, err);
	if (rc < 0)
		return rc;
	p.fd = -1;
	all.p[all.n++] = p;
	*ret_host = p.host;
	return write_down(l, &all, err);
}

static int published(struct local *l, unsigned port, unsigned *ret_host, struct berth_error *err)
{
	auto(local_ports) struct local_ports all = LOCAL_PORTS_INIT;
	auto_close int lock = -1;
	const struct local_port *p;
	int rc = local_usable(l, err);

	if (rc == 0 && !local_init_alive(l->inner))
		rc = berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s does not run", l->full);
	if (rc == 0)
		rc = local_ports_read(l, &all, err);
	if (rc < 0)
		return rc;
	p = find(&all, port);
	if (p) {
		*ret_host = p->host;
		return 0;
	}
	*ret_host = port;
	if (is_there(l, &(struct local_port_want){0, port}))
		return 0;
	rc = local_lock(l, false, &lock, err);
	if (rc == 0)
		rc = local_usable(l, err);
	return rc < 0 ? rc : publish_new(l, port, ret_host, err);
}

int local_port_url(void *handle, unsigned port, char *url, size_t cap, struct berth_error *err)
{
	struct local *l = handle;
	unsigned host = port;
	int rc = 0;

	if (port < 1 || port > 65535)
		return berth_fail(err, BERTH_E_INVALID, "%u is no port", port);
	rc = local_load(l, err);
	if (rc == 0 && local_walled(l))
		rc = published(l, port, &host, err);
	if (rc < 0)
		return rc;
	if (snprintf(url, cap, "http://127.0.0.1:%u", host) >= (int)cap)
		return berth_fail(err, BERTH_E_TOO_LARGE, "the URL does not fit");
	return 0;
}
