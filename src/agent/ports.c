/* SPDX-License-Identifier: MIT */
/*
 * ports.c: which ports are published, and who serves them.
 *
 * A listening socket keeps the network namespace that it was made in: made outside, it listens
 * outside. init holds them all and watches those that nobody serves. At the first connection it
 * forks a child that takes over all of these (forward.c), and when that one has ended, whatever the
 * cause, init watches them again. Invariants: a place in the table, agent.shared->ports[i], is only
 * written by init; a socket is watched by init exactly when no forwarding child has it.
 *
 * Nothing here reads a byte of a connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/init.h"
#include "agent/options.h"
#include "agent/ports.h"
#include "agent/spawn.h"
#include "agent/walls.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

#define ANSWER_MS 10000

_Static_assert(PORTS_MAX <= AGENT_PORTS, "what can be handed in can be published");

/* What init writes into the pipe of a PUBLISH. */
enum answer { ANSWER_OK = 'o', ANSWER_TAKEN = 't', ANSWER_FULL = 'f', ANSWER_FAILED = 'x' };

static struct {
	int fd;
	pid_t server; /* 0: init watches it */
} table[AGENT_PORTS];

/* ---- what can be published ---- */

static bool is_loopback(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;

	if (a->ss_family == AF_INET)
		return ntohl(in4->sin_addr.s_addr) >> 24 == 127;
	if (a->ss_family != AF_INET6)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
}

static int option(int fd, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &n) < 0 ? -1 : v;
}

const char *port_socket_wrong(int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof(a);

	if (fd < 0 || option(fd, SO_TYPE) < 0)
		return "not a socket";
	if (option(fd, SO_TYPE) != SOCK_STREAM || option(fd, SO_PROTOCOL) != IPPROTO_TCP)
		return "not a TCP socket";
	if (option(fd, SO_ACCEPTCONN) != 1)
		return "not a listening socket";
	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 || !is_loopback(&a))
		return "not bound to a loopback address";
	return NULL;
}

/* Is this socket itself what a forwarding child would connect to? Only where outside and inside are
 * one network; a kernel that cannot tell has no say. */
static bool leads_to_itself(int fd, int port)
{
	int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t ours = 0, its = 0;
	socklen_t n = sizeof(ours), m = sizeof(its);
	struct sockaddr_in a = {0};
	socklen_t k = sizeof(a);
	bool same;

	/* The port stands at the same place in both families. */
	same = probe >= 0 && getsockopt(probe, SOL_SOCKET, SO_NETNS_COOKIE, &ours, &n) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &its, &m) == 0 && ours == its &&
	       getsockname(fd, (struct sockaddr *)&a, &k) == 0 && ntohs(a.sin_port) == port;
	if (probe >= 0)
		close(probe);
	return same;
}

/* ---- in init ---- */

static int add(int port, int fd)
{
	int at = -1;

	for (int i = AGENT_PORTS - 1; i >= 0; i--) {
		int v = atomic_load(&agent.shared->ports[i]);

		if (v == port)
			return ANSWER_TAKEN;
		if (!v)
			at = i;
	}
	if (at < 0)
		return ANSWER_FULL;
	/* A connection that is gone again before it is accepted must not hold its server up. */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || init_watch(fd, INIT_PORT, (unsigned)at) < 0)
		return ANSWER_FAILED;
	table[at].fd = fd;
	table[at].server = 0;
	atomic_store(&agent.shared->ports[at], (unsigned short)port);
	return ANSWER_OK;
}

int ports_start(const struct init_options *o, struct agent_fail *f)
{
	for (size_t i = 0; i < o->n_ports; i++) {
		if (leads_to_itself(o->ports[i].fd, o->ports[i].port))
			return fail(f, WIRE_E_INVALID, "options", 0,
				    "--port %d: its socket is that port itself", o->ports[i].port);
		int r = add(o->ports[i].port, o->ports[i].fd);

		if (r == ANSWER_TAKEN)
			return fail(f, WIRE_E_INVALID, "options", 0, "--port %d: given twice",
				    o->ports[i].port);
		if (r != ANSWER_OK)
			return fail(f, WIRE_E_UNAVAILABLE, "options", errno, "--port %d: %m",
				    o->ports[i].port);
	}
	return 0;
}

void ports_publish(int port, int fd, int reply)
{
	char r = ANSWER_FAILED;

	if (port > 0 && !port_socket_wrong(fd))
		r = (char)add(port, fd);
	if (r != ANSWER_OK)
		close(fd);
	(void)!write(reply, &r, 1); /* an empty pipe takes it */
	close(reply);
}

static void serve(const struct forward_port *p, size_t n, unsigned place) attr_noreturn;
static void serve(const struct forward_port *p, size_t n, unsigned place)
{
	int keep[AGENT_PORTS];

	for (size_t i = 0; i < n; i++)
		keep[i] = p[i].fd;
	fds_keep(keep, n);
	signals_agent();
	if (chdir("/") < 0 || wall_drop() < 0)
		_exit(1);
	/* A change of ids resets both. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "berth-ports");
	forward_main(p, n, &agent.shared->port_conns[place]);
}

void ports_event(unsigned index)
{
	struct forward_port p[AGENT_PORTS];
	unsigned from = AGENT_PORTS;
	size_t n = 0;
	pid_t pid;
	int fd;

	if (index >= AGENT_PORTS || table[index].server)
		return;
	for (unsigned i = 0; i < AGENT_PORTS; i++) {
		int port = atomic_load(&agent.shared->ports[i]);

		if (!port || table[i].server)
			continue;
		p[n++] = (struct forward_port){table[i].fd, port};
		from = from == AGENT_PORTS ? i : from;
	}
	pid = fork();
	if (pid == 0)
		serve(p, n, from);
	if (pid < 0) {
		/* Nobody to serve it: it is closed, as one would be that nobody listens for. */
		fd = accept4(table[index].fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		return;
	}
	for (unsigned i = 0; i < AGENT_PORTS; i++) {
		if (!atomic_load(&agent.shared->ports[i]) || table[i].server)
			continue;
		table[i].server = pid;
		init_unwatch(table[i].fd);
	}
}

void ports_saw(pid_t pid)
{
	for (unsigned i = 0; i < AGENT_PORTS; i++) {
		if (!atomic_load(&agent.shared->ports[i]) || table[i].server != pid)
			continue;
		table[i].server = 0;
		init_watch(table[i].fd, INIT_PORT, i);
		/* What a killed one had open is closed, and it did not count that. */
		atomic_fetch_sub(&agent.shared->forwards,
				 atomic_exchange(&agent.shared->port_conns[i], 0));
	}
}

/* ---- in a connection child ---- */

void ports_info(struct wire_w *w)
{
	for (unsigned i = 0; i < AGENT_PORTS; i++) {
		int port = atomic_load(&agent.shared->ports[i]);

		if (port)
			wire_w_int(w, WK_PORT, port);
	}
}

/* Hands the socket to init. enum answer. */
static char publish(int port, int fd)
{
	struct init_message m = {.kind = INIT_MSG_PORT, .port = (uint16_t)port};
	struct pollfd p = {.events = POLLIN};
	char r = ANSWER_FAILED;
	int pipefd[2];

	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return r;
	p.fd = pipefd[0];
	if (init_send(&m, (int[]){fd, pipefd[1]}, 2) == 0) {
		close(pipefd[1]);
		pipefd[1] = -1;
		if (poll(&p, 1, ANSWER_MS) > 0 && read(pipefd[0], &r, 1) != 1)
			r = ANSWER_FAILED;
	}
	close(pipefd[0]);
	if (pipefd[1] >= 0)
		close(pipefd[1]);
	return r;
}

int verb_publish(struct conn *c, const uint8_t *p, size_t n)
{
	int64_t port = wire_find_int(p, n, WK_PORT, 0);
	int fd = conn_take_fd(c);
	const char *why = fd < 0 ? "no socket came with it" : port_socket_wrong(fd);
	char r = ANSWER_FAILED;

	if (!why && leads_to_itself(fd, (int)port))
		why = "that port itself";
	if (port < 1 || port > 65535)
		why = "no valid port";
	if (!why)
		r = publish((int)port, fd);
	if (fd >= 0)
		close(fd);
	if (why)
		return conn_error(c, WIRE_E_INVALID, NULL, 0,
				  fd < 0 || port < 1 || port > 65535
					  ? "PUBLISH: %s"
					  : "PUBLISH: what came with it is %s",
				  why);
	if (r == ANSWER_OK)
		return conn_ok(c);
	if (r == ANSWER_TAKEN)
		return conn_error(c, WIRE_E_CONFLICT, NULL, 0, "port %d is published already",
				  (int)port);
	return conn_error(c, WIRE_E_UNAVAILABLE, NULL, 0, "PUBLISH: %s",
			  r == ANSWER_FULL ? "too many ports are published"
					   : "init cannot take the socket");
}
