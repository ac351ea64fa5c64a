/* SPDX-License-Identifier: MIT */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_KEYS_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_KEYS_H
/*
 * The keys of a local sandbox's spec. One table says everything about them: what they are called,
 * which isolation has them, what they mean when they are left out, how their values are read and
 * what help tells. Values are kept in a canonical form, so two that mean the same are the same text:
 * that is what the record holds and what a later spec is compared with.
 */
#include <stdint.h>

#include <berth/provider.h>

#include "base/attr.h"

#define IN_BWRAP 1u
#define IN_NONE  2u

/*
 * X(id, key, isolations that have it, default of isolation=bwrap, canonical form, what is wanted,
 * help)
 */
#define LOCAL_KEYS(X)                                                                           \
	X(ISOLATION, "isolation", IN_BWRAP | IN_NONE, "bwrap", canon_isolation,                 \
	  "known are bwrap, none",                                                              \
	  "bwrap (default): namespaces, own host uids, a read-only system; none: everything "   \
	  "runs as you")                                                                        \
	X(NET, "net", IN_BWRAP, "egress", canon_net, "known are none, egress, public, host",    \
	  "none: loopback only; egress (default): out, not to this host; public: no private "   \
	  "addresses either; host: this machine's network")                                     \
	X(UIDS, "uids", IN_BWRAP, "range", canon_uids, "known are range, single",               \
	  "range (default): host uids of its own; single: yours, for ordinary users without "   \
	  "subordinate ids")                                                                    \
	X(PORTS, "ports", IN_BWRAP | IN_NONE, NULL, canon_ports,                                \
	  "wanted: PORT or HOSTPORT:PORT, commas between several",                              \
	  "[HOSTPORT:]PORT,…: published on 127.0.0.1, on a free port or HOSTPORT")              \
	X(MEMORY, "memory", IN_BWRAP, NULL, canon_size, "wanted: a size such as 512M",          \
	  "limit of memory of everything in it")                                                \
	X(PIDS, "pids", IN_BWRAP, NULL, canon_count, "wanted: a number of processes",           \
	  "limit of processes and threads")                                                     \
	X(CPUS, "cpus", IN_BWRAP, NULL, canon_cpus, "wanted: a number such as 2 or 0.5",        \
	  "limit of processor time: 1 is one processor")                                        \
	X(DISK, "disk", IN_BWRAP, NULL, canon_size, "wanted: a size such as 10G",               \
	  "limit of its files: needs root and a state folder with project quotas")              \
	X(ROOTFS, "rootfs", IN_BWRAP, NULL, canon_path, "wanted: an absolute path",             \
	  "DIR: the tree of a system instead of this host's, never written to")                 \
	X(RO, "ro", IN_BWRAP, NULL, canon_paths, "wanted: absolute paths, commas between them", \
	  "PATH,…: of this host, visible at the same place, read-only")                         \
	X(RW, "rw", IN_BWRAP, NULL, canon_paths, "wanted: absolute paths, commas between them", \
	  "PATH,…: of this host, visible at the same place, writable")                          \
	X(IDLE, "idle", IN_BWRAP | IN_NONE, NULL, canon_duration,                               \
	  "wanted: a duration such as 30m", "it stops after so long without work")              \
	X(EXPIRES, "expires", IN_BWRAP | IN_NONE, NULL, canon_duration,                         \
	  "wanted: a duration such as 2h", "it is destroyed so long after its creation")        \
	X(DIR, "dir", IN_NONE, NULL, canon_dir, "wanted: a directory",                          \
	  "where berth lives in it (default: berth in its home); isolation=none only")

enum local_key {
#define LOCAL_KEY_ENUM_(id, ...) KEY_##id,
	LOCAL_KEYS(LOCAL_KEY_ENUM_)
#undef LOCAL_KEY_ENUM_
		KEY_COUNT,
};

/* Values by key, canonical; NULL: not given. */
struct local_keys {
	char *value[KEY_COUNT];
};

/* For the table of the provider; ends with a NULL key. */
extern const struct berth_provider_key local_provider_keys[];

/*
 * Reads one value. 0 also for a key that is none of ours. BERTH_E_INVALID names key and value.
 */
int local_keys_take(struct local_keys *k, const char *key, const char *value,
		    struct berth_error *err) attr_warn_unused;
void local_keys_done(struct local_keys *k);

/* The key of this name; KEY_COUNT: none. */
enum local_key local_key_find(const char *key) attr_pure;
const char *local_key_name(enum local_key key) attr_const;
/* What is meant: the value, else the default of an isolation=bwrap sandbox; NULL: none. */
const char *local_key_value(const struct local_keys *k, enum local_key key) attr_pure;

/* May these keys stand together? BERTH_E_INVALID names the one that isolation=none or bwrap has
 * not. Without an isolation= in them: as @isolation says. */
int local_keys_fit(const struct local_keys *k, const char *isolation,
		   struct berth_error *err) attr_warn_unused;
/* Is what is wanted what there is? BERTH_E_CONFLICT names the key that differs; a key that is not
 * given never does. */
int local_keys_compare(const struct local_keys *want, const struct local_keys *have,
		       const char *sandbox, struct berth_error *err) attr_warn_unused;
/* The files and directories that a new sandbox is given must be there. */
int local_keys_exist(const struct local_keys *k, struct berth_error *err) attr_warn_unused;

/* Numbers of canonical values: bytes, processes, thousandths of a processor, milliseconds; 0: not
 * given. */
int64_t local_key_number(const struct local_keys *k, enum local_key key) attr_pure;

/* Walks "a,b,c": copies the next part into buf (cap bytes; the values are checked to fit) and moves
 * *at on; false at the end. */
bool local_key_part(const char **at, char *buf, size_t cap);

#define LOCAL_PORTS_MAX 64
struct local_port_want {
	unsigned host, port; /* host 0: a free one */
};
/* The ports= of a sandbox; at most LOCAL_PORTS_MAX. */
size_t local_keys_ports(const struct local_keys *k, struct local_port_want *ret);

#endif
