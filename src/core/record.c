/* SPDX-License-Identifier: MIT */
/*
 * Records read directly from a berth directory on this machine.
 *
 * The order is what makes it true: the lock is asked first, then the journal is read. Who held the
 * lock may have written its end since, then we see the end; who had let go of it had written all it
 * would ever write. The lock is only asked about (F_OFD_GETLK), never taken.
 */
#include "core/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/alloc.h"
#include "base/hex.h"
#include "base/io.h"
#include "core/provider.h"

/* A journal is SPEC and a few small entries. */
#define JOURNAL_MAX (JOURNAL_FIRST + (2u << 20) + 2u * JOURNAL_ENTRY_MAX)

void record_done(struct record *r)
{
	fd_close(&r->dirfd);
	fd_close(&r->jfd);
	for (size_t i = 0; i < ARRAY_LEN(r->out_fd); i++) {
		fd_close(&r->out_fd[i]);
		fd_close(&r->tail_fd[i]);
	}
	free(r->bytes);
	*r = (struct record)RECORD_INIT;
}

/* The machine's boot id as 16 bytes; zeros when it cannot be read, which no record has. */
static void boot_bytes(uint8_t ret[16])
{
	char text[64] = "", digits[33];
	size_t n = 0;
	auto_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	memset(ret, 0, 16);
	if (fd < 0 || read_full(fd, text, sizeof(text) - 1) < 36)
		return;
	for (const char *p = text; *p && n < 32; p++) {
		if (*p != '-' && *p != '\n')
			digits[n++] = *p;
	}
	if (n != 32 || hex_decode(digits, ret, 16) < 0)
		memset(ret, 0, 16);
}

/* Only a record whose lock is free and that has no end needs to know about the machine. */
static void find_facts(struct berth_sandbox *s, struct record *r)
{
	uint8_t boot[16], incarnation[16];
	auto_close int fd = -1, lock = -1;

	if (r->facts.held || r->j.terminal.p)
		return;
	boot_bytes(boot);
	r->facts.same_boot = memcmp(boot, r->j.boot, 16) == 0;
	r->facts.init_is_life = s && s->init_is_life;
	r->facts.same_incarnation = true;
	if (!r->facts.init_is_life)
		return;
	fd = openat(s->dir_fd, "incarnation", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	r->facts.same_incarnation = fd >= 0 && read_full(fd, incarnation, 16) == 16 &&
				    memcmp(incarnation, r->j.incarnation, 16) == 0;
	lock = openat(s->dir_fd, "init.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	r->facts.init_gone = lock >= 0 && fd_lock_test(lock) == 0;
}

static int grow(struct record *r, size_t need, struct berth_error *err)
{
	uint8_t *p;

	if (need <= r->cap)
		return 0;
	p = mem_realloc(r->bytes, need);
	if (!p)
		return berth_fail_nomem(err);
	r->bytes = p;
	r->cap = need;
	return 0;
}

/* Head and what follows SPEC; the first time everything. */
static int read_journal(struct record *r, struct berth_error *err)
{
	ssize_t head, rest;
	struct stat st;
	int rc;

	if (fstat(r->jfd, &st) < 0)
		return berth_fail_errno(err, 0, errno, "journal");
	if (st.st_size < JOURNAL_FIRST || (uint64_t)st.st_size > JOURNAL_MAX)
		return berth_fail(err, BERTH_E_IO, "a record is damaged: journal of %lld bytes",
				  (long long)st.st_size);
	rc = grow(r, (size_t)st.st_size, err);
	if (rc < 0)
		return rc;
	head = r->changing ? pread_full(r->jfd, r->bytes, JOURNAL_FIRST, 0) : JOURNAL_FIRST;
	rest = pread_full(r->jfd, r->bytes + r->changing, (size_t)st.st_size - r->changing,
			  (off_t)r->changing);
	if (head < JOURNAL_FIRST || rest < 0)
		return berth_fail_errno(err, 0, rest < 0 ? (int)-rest : EIO, "journal");
	r->n = r->changing + (size_t)rest;
	if (journal_parse(r->bytes, r->n, &r->j) < 0)
		return berth_fail(err, BERTH_E_IO, "a record is damaged: its journal has no head");
	if (r->j.spec.p) /* payload begins 8 bytes into its entry */
		r->changing =
			(size_t)(r->j.spec.p - r->bytes) - 8 + journal_entry_size(r->j.spec.n);
	return 0;
}

int record_refresh(struct berth_sandbox *s, struct record *r, struct berth_error *err)
{
	int held = fd_lock_test(r->jfd);
	int rc;

	if (held < 0)
		return berth_fail_errno(err, 0, -held, "asking for the lock of a record");
	r->facts.held = held > 0;
	rc = read_journal(r, err);
	if (rc < 0)
		return rc;
	find_facts(s, r);
	record_status(&r->j, &r->facts, &r->st);
	return 0;
}

static const char *kind_word(int kind)
{
	return kind == WIRE_KIND_SESSION ? "session" : "execution";
}

int record_open(struct berth_sandbox *s, int berth_fd, const char *id, int kind, struct record *ret,
		struct berth_error *err)
{
	auto(record) struct record r = RECORD_INIT;
	char path[BERTH_ID_MAX + 8];
	int rc;

	if (snprintf(path, sizeof(path), "%c/%s", kind == WIRE_KIND_SESSION ? 's' : 'x', id) >=
	    (int)sizeof(path))
		return berth_fail(err, BERTH_E_INVALID, "the id is too long");
	r.dirfd = openat(berth_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r.dirfd >= 0)
		r.jfd = openat(r.dirfd, "journal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r.jfd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return berth_fail(err, BERTH_E_NOT_FOUND, "no %s \"%s\" in %s", kind_word(kind), id,
				  s ? s->full : "the sandbox");
	if (r.jfd < 0)
		return berth_fail_errno(err, errno == EACCES ? BERTH_E_PERM : 0, errno,
					"the record of \"%s\"", id);
	rc = record_refresh(s, &r, err);
	if (rc < 0)
		return rc;
	*ret = r;
	r = (struct record)RECORD_INIT;
	/* Slices point into the same memory; nothing to mend. */
	return 0;
}
