/* SPDX-License-Identifier: MIT */
/*
 * proto.h: the numbers of the agent protocol. The text is docs/protocol/agent.md; a number here
 * never changes its meaning. Pure declarations: no I/O, no libc beyond the integer types.
 */
#ifndef WIRE_PROTO_H
#define WIRE_PROTO_H

#include <stdint.h>

#define WIRE_PROTO_VERSION 1
#define WIRE_FRAME_HEADER  8u
#define WIRE_DATA_MAX      (1u << 20) /* payload of DATA and DATA2 */
#define WIRE_CONTROL_MAX \
	(8u << 20) /* payload of everything else: argv + env of a kernel at its largest */

/* Frame types. Below 0x20: parts of an exchange; from 0x20: requests. */
enum wire_type {
	WIRE_HELLO = 0x01,
	WIRE_OK = 0x02,
	WIRE_ERROR = 0x03,
	WIRE_DATA = 0x04,
	WIRE_DATA2 = 0x05,
	WIRE_END = 0x06,
	WIRE_EVENT = 0x07,

	WIRE_LAUNCH = 0x20,
	WIRE_STATUS = 0x21,
	WIRE_LIST = 0x22,
	WIRE_READ = 0x23,
	WIRE_WATCH = 0x24,
	WIRE_CANCEL = 0x25,
	WIRE_SIGNAL = 0x26,
	WIRE_STDIN = 0x27,
	WIRE_STDIN_CLOSE = 0x28,
	WIRE_RESIZE = 0x29,
	WIRE_EXEC = 0x2a,
	WIRE_PUT = 0x2b,
	WIRE_GET = 0x2c,
	WIRE_STAT = 0x2d,
	WIRE_LS = 0x2e,
	WIRE_MKDIR = 0x2f,
	WIRE_SYMLINK = 0x30,
	WIRE_REMOVE = 0x31,
	WIRE_CONNECT = 0x32,
	WIRE_HAVE = 0x33,
	WIRE_UNPACK = 0x34,
	WIRE_INSTALL = 0x35,
	WIRE_PRUNE = 0x36,
	WIRE_FORGET = 0x37,
	WIRE_INFO = 0x38,
	WIRE_STOP = 0x39,
	WIRE_PUBLISH = 0x3a, /* a listening socket comes with it */
};

/* Error codes on the wire: the negated BERTH_E_* of include/berth/error.h (asserted in core). */
enum wire_err {
	WIRE_E_INVALID = 1,
	WIRE_E_AUTH,
	WIRE_E_PERM,
	WIRE_E_NOT_FOUND,
	WIRE_E_METHOD,
	WIRE_E_CONFLICT,
	WIRE_E_PRECONDITION,
	WIRE_E_TOO_LARGE,
	WIRE_E_RATE_LIMITED,
	WIRE_E_INTERNAL,
	WIRE_E_UNSUPPORTED,
	WIRE_E_UNAVAILABLE,
	WIRE_E_NOMEM,
	WIRE_E_IO,
	WIRE_E_PROTOCOL,
	WIRE_E_TIMEOUT,
};

/* Field keys outside specs and journal entries (those: spec.h, journal.h). */
enum wire_key {
	WK_PROTO = 1,
	WK_AGENT = 2,       /* content hash of the agent, hex */
	WK_INCARNATION = 3, /* 16 bytes, new with every init */
	WK_MACHINE = 4,     /* uname -m */
	WK_BOOT = 5,        /* boot id, 16 bytes */

	WK_CODE = 10,
	WK_MESSAGE = 11,
	WK_STAGE = 12,
	WK_ERRNO = 13,
	WK_NEED = 14, /* "tree" | "layer" | "input" */
	WK_TAIL = 15, /* last output of a failed install */

	WK_ID = 20,
	WK_KIND = 21,
	WK_SPEC = 22,  /* nested spec fields */
	WK_LIVE = 23,  /* the first 512 bytes of the journal */
	WK_ENTRY = 24, /* u32 type LE, payload; repeated */
	WK_HELD = 25,
	WK_SAMEBOOT = 26,
	WK_EXISTED = 27,
	WK_WANT_ENV = 28,
	WK_SAMEINC = 29, /* the record's incarnation is that of the running init */

	WK_STREAM = 30,
	WK_OFFSET = 31,
	WK_MAX = 32,
	WK_NEXT = 33,
	WK_TOTAL = 34,
	WK_EOF = 35,
	WK_TRUNCATED = 36,
	WK_INTERRUPTED = 37,
	WK_GAP_FROM = 38,
	WK_GAP_TO = 39,

	WK_KNOWN_OUT = 40,
	WK_KNOWN_ERR = 41,
	WK_KNOWN_STATE = 42,
	WK_TERMINAL_ONLY = 43,
	WK_WAIT_MS = 44,
	WK_GRACE_MS = 45,
	WK_SIGNO = 46,
	WK_COLS = 47,
	WK_ROWS = 48,

	WK_ARG = 50,
	WK_ENV = 51, /* "K=V" */
	WK_WORKDIR = 52,
	WK_TIMEOUT_MS = 53,
	WK_STDIN = 54,
	WK_STATE = 55,
	WK_EXIT_CODE = 56,
	WK_TIMED_OUT = 57,
	WK_USER_MS = 58,
	WK_SYSTEM_MS = 59,
	WK_MAX_RSS = 60,

	WK_PATH = 70,
	WK_BASE_ID = 71,
	WK_MODE = 72,
	WK_MTIME_NS = 73,
	WK_SIZE = 74,
	WK_XXH128 = 75, /* 16 bytes, canonical (big endian) as XXH128_canonicalFromHash */
	WK_TYPE = 76,   /* 'f' 'd' 'l' or '?' as integer */
	WK_TARGET = 77,
	WK_NAME = 78,
	WK_FOLLOW = 79,
	WK_PARENTS = 80,
	WK_RECURSIVE = 81,
	WK_PORT = 82,
	WK_HOST = 83,

	WK_TREE = 90,  /* 64 hex digits */
	WK_LAYER = 91, /* 64 hex digits */
	WK_RUNTIME = 92,
	WK_LIBC = 93,
	WK_OVERLAY = 94,
	WK_HAVE = 95,
	WK_MANIFEST_LEN = 96,
	WK_MISSING = 97,
	WK_COMMAND = 98,

	WK_OLDER_MS = 100,
	WK_COUNT = 101,
	WK_TREES = 102,
	WK_LAYERS = 103,
	WK_BYTES = 104,
	WK_PID = 105,
	WK_STARTED_MS = 106,
	WK_RUNNING = 107,
	WK_CONTAINMENT = 108,
	WK_CAUSE = 109,
	WK_STABLE = 110, /* views have one stable path: 0 or 1 */
	WK_IDLE_MS = 111,
	WK_EXPIRES_MS = 112, /* wall clock */
	WK_INITGONE = 113,   /* nobody holds init.lock: never in an init's own answer */
};

enum wire_kind { WIRE_KIND_EXECUTION = 1, WIRE_KIND_SESSION = 2 };
enum wire_stream { WIRE_STDOUT = 1, WIRE_STDERR = 2 };

/* The states of CLI.md, as numbers on the wire and in the journal. The last two are never
 * written. */
enum wire_state {
	WIRE_S_NONE = 0,
	WIRE_S_STARTING = 1,
	WIRE_S_RUNNING = 2,
	WIRE_S_EXITED = 3,
	WIRE_S_CANCELLED = 4,
	WIRE_S_TIMED_OUT = 5,
	WIRE_S_RESOURCE_EXHAUSTED = 6,
	WIRE_S_FAILED = 7,
	WIRE_S_PROVIDER_UNAVAILABLE = 8,
	WIRE_S_UNKNOWN = 9,
};

static inline int wire_state_is_terminal(int s)
{
	return s >= WIRE_S_EXITED && s <= WIRE_S_FAILED;
}

#endif
