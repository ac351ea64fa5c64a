/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_ARTIFACT_H
#define BERTH_CORE_ARTIFACT_H
/*
 * An artifact: a local directory as a sorted list of entries, its manifest (wire/manifest.h) and
 * its identity, the tree hash.
 *
 * Files, directories and symbolic links, with every name that Linux allows; another type is an
 * error that names it. Of a file's mode only the owner's x bit is kept; setuid, setgid and sticky
 * bits are dropped. Links are carried as they are and never followed. What `.berthignore`
 * (core/ignore.h) says is left out.
 */
#include "base/cleanup.h"
#include "core/hashcache.h"

struct artifact_entry {
	const char *path;   /* relative, NUL-terminated; owned by the artifact */
	const char *target; /* links, else NULL */
	size_t path_len, target_len;
	char type; /* 'f' 'd' 'l', as in the manifest */
	bool executable;
	bool settled; /* files: the hash may be remembered */
	int64_t mtime_ns;
	struct file_key key; /* files: when it was hashed */
	uint8_t sha256[SHA256_LEN];
};

struct artifact {
	char *dir; /* as given, for messages */
	int dirfd;
	struct artifact_entry *entries; /* sorted by path bytes */
	size_t n, cap;
	size_t n_files;
	uint64_t bytes;    /* of all files */
	uint8_t *manifest; /* wire/manifest.h */
	size_t manifest_len;
	char tree[SHA256_HEX + 1];
	bool has_package_json;         /* at the root */
	bool modules_left_out;         /* a top-level node_modules was there and is not in it */
	size_t n_read;                 /* files that had to be read: the cache did not know them */
	struct artifact_chunk *chunks; /* memory of the paths */
};

/* What becomes of a top-level node_modules. */
enum artifact_modules {
	ARTIFACT_MODULES_KEEP,
	ARTIFACT_MODULES_LEAVE, /* an install will make it */
	ARTIFACT_MODULES_AUTO,  /* left out when there is a package.json at the root */
};

struct artifact_options {
	enum artifact_modules modules;
	const char *state_dir; /* where hashes are remembered; NULL: nowhere */
	unsigned threads;      /* that hash; 0: chosen by the amount (1 or 2) */
	/* Called now and then, by the calling thread, with bytes hashed and to hash. May be NULL.
	 */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

/*
 * Reads the directory. A file that changes while it is read is read once more; then it is
 * BERTH_E_CONFLICT. A directory that is none, a file of another type, a path that is too long or
 * too deep: BERTH_E_INVALID. *ret is owned by caller, free with artifact_free().
 */
int artifact_load(const char *dir, const struct artifact_options *o, struct artifact **ret,
		  struct berth_error *err) attr_warn_unused;
void artifact_free(struct artifact *a);
BERTH_DEFINE_AUTO_PTR(artifact, struct artifact *, artifact_free);

/* The entry with this path, or NULL. */
const struct artifact_entry *artifact_find(const struct artifact *a, const char *path);
/*
 * Does a relative path stay in the artifact when its links are followed? What is not in the artifact
 * (an install may make it) is taken as an ordinary name.
 */
bool artifact_holds_path(const struct artifact *a, const char *rel);

/*
 * Opens a file of the artifact for sending: never through a link, and only when it is still the one
 * that was hashed. The fd; -ESTALE when it has changed or is gone; another -errno.
 */
int artifact_open_file(const struct artifact *a, const struct artifact_entry *e) attr_warn_unused;
/* Is the open file still what was hashed (to be asked after reading it)? */
bool artifact_file_unchanged(int fd, const struct artifact_entry *e);

#endif
