/* SPDX-License-Identifier: MIT */
/*
 * agent.h: what every file of berth-agent knows: the facts of this sandbox, a connection, the
 * verbs.
 *
 * Rules of the house here: no malloc, ever (static memory, the stack, or agent_map()); no
 * stdio; cwd of init, of every
 * connection child and of every supervisor is DIR (agent.dirfd is the same directory), so
 * "x/ID" and "tmp/…" are relative
 * names; every fd is CLOEXEC; SIGPIPE and SIGXFSZ are ignored. A connection child serves one
 * stream, one request at a time,
 * in a process of its own: a handler may block, and what it leaks is gone when the stream ends
 * (but a stream may carry
 * thousands of requests: close what you open).
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "wire/frame.h"
#include "wire/spec.h"

#define AGENT_MESSAGE_MAX 500u
#define AGENT_PATH_MAX    4352u

/* Levels of ending a tree, best first. */
enum agent_level { LEVEL_PIDNS = 1, LEVEL_CGROUP = 2, LEVEL_SUBREAPER = 3 };

/* Hierarchies of control groups: four of v1, and v2. */
enum agent_group { GROUP_MEMORY, GROUP_PIDS, GROUP_CPU, GROUP_CPUACCT, GROUP_V2, AGENT_GROUPS };

#define AGENT_PORTS 64 /* published at once */

/* One page shared by init and all its children. */
struct agent_shared {
	/* 1: STOP has begun, 2: clock.c is making sure that it may; not 0: a LAUNCH that sees it
	 * after its rename gives up */
	atomic_int stopping;
	atomic_int execs; /* commands that EXEC runs now */
	/* 0 not tried yet, 1 can be made, 2 with a user namespace, -1 cannot (tree.c) */
	atomic_int pidns;
	/* Walls: the keeper of the guests' PID namespace (its pid as init sees it; 0: none yet) and
	 * whether it is ready; connections through published ports. */
	atomic_int guests, guests_ready, forwards;
	atomic_llong worked; /* now_ms() when there was work last: clock.c */
	/* Published ports (0: a free place), and how many connections the forwarding child has that
	 * took its sockets from this place on: ports.c. */
	atomic_ushort ports[AGENT_PORTS];
	atomic_int port_conns[AGENT_PORTS];
};

/* The facts, set once by init before the first fork and never changed afterwards. */
struct agent {
	int dirfd;       /* DIR, O_RDONLY|O_DIRECTORY */
	int homefd;      /* home, the same; -1 when it cannot be opened */
	const char *dir; /* DIR, absolute */
	/* home of the sandbox, absolute: $HOME, else the passwd entry, else the parent
	 * of DIR */
	const char *home;
	const char *user; /* $USER, else the passwd name, else "" */
	uint8_t incarnation[16];
	uint8_t boot[16];
	char hash[33]; /* XXH3-128 of this binary, hex */
	char machine[65];
	bool is_pid1;   /* init is PID 1: what lives here cannot outlive it */
	bool root;      /* effective uid 0 */
	int level;      /* best level that may be tried (--level) */
	char **environ; /* init's own at its start */
	pid_t init_pid;
	int64_t started_ms; /* wall clock */
	int initfd;       /* SEQPACKET to init (see init.c): keep this pipe drained, end yourself */
	bool walled;      /* an isolated sandbox: see walls.h */
	bool in_userns;   /* not the machine's first user namespace: overlays want userxattr */
	uid_t worker_uid; /* of what we start for others, and of its files; walled only */
	gid_t worker_gid;
	const char *app; /* where views are mounted, absolute: DIR/app, or /app with walls */
	/* Records: 0600 and 0700, or with --shared 0660 and 0770, where an ACL of DIR lets the
	 * caller read them, whose uid nobody here has. */
	mode_t file_mode, dir_mode;
	/* Directories of control groups that were handed in (--group), -1: none. cgroup.c. */
	int group_fds[AGENT_GROUPS];
	bool groups_given;
	struct agent_shared *shared;
};
extern struct agent agent;

/* ---- failures ---- */

/* Why something could not be done, ready for ERROR or for a `failed` record. No environment
 * values, no input. */
struct agent_fail {
	int code;          /* enum wire_err */
	int err;           /* errno, or 0 */
	const char *stage; /* static: "view" "workdir" "exec" …; NULL: none */
	char message[AGENT_MESSAGE_MAX + 1];
};
/* Fills *f and returns -1. The format knows %s %d %u %ld %lu %lld %llu %zu %x %c %% and %m
 * (text of err); the message is one
 * line, cut at 500 bytes. f may be NULL. */
int fail(struct agent_fail *f, int code, const char *stage, int err, const char *fmt, ...);
/* snprintf of the same formats; returns the length that was stored (cut at cap - 1, always
 * NUL-terminated). */
size_t fmt(char *buf, size_t cap, const char *f, ...);
/* strerror, short and static. */
const char *err_text(int err);

/* ---- memory ---- */

/* Anonymous memory, zeroed; NULL on ENOMEM. */
void *agent_map(size_t n);
void agent_unmap(void *p, size_t n);
/* A buffer that grows by mremap up to its maximum. */
struct buf {
	uint8_t *p;
	size_t cap;
};
bool buf_need(struct buf *b, size_t n); /* false on ENOMEM; contents are kept */
void buf_trim(struct buf *b,
	      size_t keep); /* gives pages above keep back to the kernel (MADV_DONTNEED) */
void buf_done(struct buf *b);
/* A bump allocator over one mapping. */
struct arena {
	uint8_t *p;
	size_t cap, len;
};
bool arena_init(struct arena *a, size_t cap);
void *arena_take(struct arena *a, size_t n);               /* aligned to 16; NULL when full */
char *arena_str(struct arena *a, const void *p, size_t n); /* copy with NUL */
void arena_done(struct arena *a);

/* ---- a connection ---- */

struct conn {
	int fd;     /* stream socket, blocking */
	int passed; /* an fd that came with the bytes (conn_take_fd), or -1 */
	struct buf in, out;
	struct wire_w w;         /* the frame being written */
	size_t in_start, in_end; /* bytes read ahead */
	bool replied;            /* the final OK or ERROR of this request has been sent */
	bool broken;             /* the stream is of no use any more */
};

/* Receives the next frame. 1: *type and the payload, valid until the next conn_recv on c; 0:
 * the peer closed between frames;
 * -1: broken (cut off, malformed, I/O error); c->broken is set. */
int conn_recv(struct conn *c, uint8_t *type, const uint8_t **p, size_t *n);
/* Same, for the bytes that belong to a request: DATA… END. 1: DATA payload; 2: END, payload in
 * *p; 0/-1 as above (a close inside a
 * request is -1). Any other frame type is a protocol error. */
int conn_recv_data(struct conn *c, const uint8_t **p, size_t *n);
/* Reads and drops DATA… END, so that an early ERROR leaves the stream in step. 0, or -1 when
 * broken. */
int conn_skip_data(struct conn *c);

/* Starts a frame; add fields with wire_w_*; conn_end sends it. Room for 64 KiB;
 * conn_begin_sized for more. One at a time. */
struct wire_w *conn_begin(struct conn *c, uint8_t type);
struct wire_w *conn_begin_sized(struct conn *c, uint8_t type, size_t room);
int conn_end(struct conn *c); /* 0, or -1 when the stream is broken (the handler then returns -1) */
/* A ready frame. */
int conn_send(struct conn *c, uint8_t type, const void *p, size_t n);
/* Any number of bytes as DATA/DATA2 frames of at most 1 MiB. */
int conn_data(struct conn *c, uint8_t type, const void *p, size_t n);
/* The same from a file by sendfile, from off, exactly n bytes (a file that got shorter
 * meanwhile ends the stream: -1). */
int conn_data_file(struct conn *c, uint8_t type, int fd, uint64_t off, uint64_t n);
/* Final answers. All return 0, or -1 when the stream is broken, so that `return conn_ok(c);`
 * ends a handler. */
int conn_ok(struct conn *c);
int conn_error(struct conn *c, int code, const char *stage, int err, const char *f, ...);
int conn_fail(struct conn *c, const struct agent_fail *f);
/* True when the peer has closed or shut down its sending side (asked without waiting). */
bool conn_gone(struct conn *c);
/* Gives memory back after a big request. Called by the loop between requests. */
void conn_trim(struct conn *c);

/* ---- verbs ---- */

/* Handles one request: p, n are its payload, valid until the next conn_recv on c (copy what
 * must live longer). Sends exactly one
 * final OK or ERROR. Returns 0 to go on with the stream, -1 to close it. */
typedef int verb_fn(struct conn *c, const uint8_t *p, size_t n);

/* Executions and guests: launch.c record.c attach.c control.c exec.c info.c ports.c */
verb_fn verb_launch, verb_status, verb_list, verb_read, verb_watch, verb_cancel, verb_signal,
	verb_stdin, verb_stdin_close, verb_resize, verb_exec, verb_info, verb_publish, verb_stop;
/* Files and the store: files.c relay.c store.c unpack.c install.c prune.c */
verb_fn verb_put, verb_get, verb_stat, verb_ls, verb_mkdir, verb_symlink, verb_remove, verb_connect,
	verb_have, verb_unpack, verb_install, verb_prune, verb_forget;

/* Commands of the binary: argv[0] is the command word. They return the exit status. */
int init_main(int argc, char **argv);    /* init [options] DIR (options.c) */
int connect_main(int argc, char **argv); /* connect [--start] DIR (relay.c) */
int stage_main(int argc, char **argv);   /* stage [options] (stage.c) */
int erase_main(int argc, char **argv);   /* erase [options] NAME (stage_erase.c) */
int call_main(int argc, char **argv);    /* call [--start] [--text] DIR [BASE64…] (relay.c) */

/*
 * Starts an init for dir in a process of its own session when none holds the lock, and waits
 * until it listens: for
 * relay.c's --start. 0: one runs (ours or another's); -1 and *f otherwise. Detached: closes no
 * fd of the caller.
 */
int init_start(const char *dir, struct agent_fail *f);

/* ---- helpers ---- */

int write_all(int fd, const void *p, size_t n); /* 0 or -1, errno; EINTR is handled */
ssize_t read_full(int fd, void *p, size_t n);   /* bytes read (short only at EOF), or -1 */
int write_file_at(int dirfd, const char *name, const void *p,
		  size_t n); /* overwrite an existing (cgroup, proc) file */
/* Reads a small file; NUL-terminated; -1 on error or when it does not fit. */
ssize_t read_file_at(int dirfd, const char *name, char *buf, size_t cap);
int64_t now_ms(void);  /* CLOCK_BOOTTIME: deadlines */
int64_t wall_ms(void); /* CLOCK_REALTIME: to show */
void random_bytes(void *p, size_t n);
void random_name(char out[33]);               /* 32 hex digits and NUL: names under tmp/ */
void hex(char *out, const void *p, size_t n); /* 2n digits and NUL */
/* Copies a field into a C string; false when it has a NUL inside or is too long for cap. */
bool slice_str(struct wire_slice s, char *buf, size_t cap);
bool slice_eq(struct wire_slice s, const char *text);
/* "x" or "s" by KIND of a payload. */
const char *kind_dir(int64_t kind);
/* Opens x/ID or s/ID (O_RDONLY|O_DIRECTORY|O_NOFOLLOW); -1 and errno (EINVAL: no valid id). */
int record_open(int64_t kind, struct wire_slice id);
/* Who holds the journal's lock? 1 held, 0 free, -1 error (errno; ENOENT: no journal). jfd may
 * be any fd on the journal. */
int record_held(int jfd);

/* The environment of what runs here: PATH HOME USER TMPDIR LANG, the sandbox's own, then the
 * fields of key `key` in p, n
 * ("K=V", later wins); NULL-terminated, in the arena. tmpdir NULL: "/tmp". NULL: ENOMEM. */
char **env_make(struct arena *a, const void *p, size_t n, uint16_t key);
/* argv from the repeated fields of key `key`, NULL-terminated, in the arena, with one spare
 * slot before argv[0] (spawn.h wants it; an
 * argv made by hand for tree_run needs one too). NULL: ENOMEM. */
char **argv_make(struct arena *a, const void *p, size_t n, uint16_t key);

#endif
