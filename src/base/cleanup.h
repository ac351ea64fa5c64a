/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_CLEANUP_H
#define BERTH_BASE_CLEANUP_H
/*
 * Ownership by scope. Declare what a function owns first, with its empty value:
 *
 *	auto_free char *name = NULL;
 *	auto_close int fd = -1;
 *	auto(strbuf) struct strbuf buf = STRBUF_INIT(MAX);
 *
 * and hand it over in the last lines:
 *
 *	*ret_name = TAKE_PTR(name);
 *	*ret_fd = TAKE_FD(fd);
 *
 * Every path out of the scope frees what was not handed over. errno survives the clean-up.
 */
#include <errno.h>
#include <stdio.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

/* Frees the malloc'ed pointer when the scope ends. */
#define auto_free __attribute__((cleanup(cleanup_free_)))
/* Closes the fd (none: -1; 0 is a valid fd) when the scope ends. */
#define auto_close __attribute__((cleanup(cleanup_close_)))
/* Closes the DIR * / FILE * when the scope ends; NULL is fine. */
#define auto_closedir __attribute__((cleanup(cleanup_closedir_)))
#define auto_fclose   __attribute__((cleanup(cleanup_fclose_)))

/* Runs the clean-up that BERTH_DEFINE_AUTO made for @name when the scope ends. */
#define auto(name) __attribute__((cleanup(cleanup_##name##_)))

/*
 * BERTH_DEFINE_AUTO(strbuf, struct strbuf, strbuf_done) makes auto(strbuf): @fn is called with the
 * variable's address. BERTH_DEFINE_AUTO_PTR(spec, struct spec *, spec_free) is for variables that
 * are pointers: @fn is called with the pointer, unless it is NULL.
 */
#define BERTH_DEFINE_AUTO(name, type, fn)             \
	static inline void cleanup_##name##_(type *p) \
	{                                             \
		int saved_errno_ = errno;             \
		fn(p);                                \
		errno = saved_errno_;                 \
	}                                             \
	struct cleanup_eats_semicolon_
#define BERTH_DEFINE_AUTO_PTR(name, type, fn)         \
	static inline void cleanup_##name##_(type *p) \
	{                                             \
		int saved_errno_ = errno;             \
		if (*p)                               \
			fn(*p);                       \
		errno = saved_errno_;                 \
	}                                             \
	struct cleanup_eats_semicolon_

/* The pointer, leaving NULL behind: ownership moves to whoever takes the value. */
#define TAKE_PTR(p)                          \
	__extension__({                      \
		__typeof__(p) take_p_ = (p); \
		(p) = NULL;                  \
		take_p_;                     \
	})
/* The fd, leaving -1 behind. */
#define TAKE_FD(fd)                  \
	__extension__({              \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})

static inline void cleanup_free_(void *p)
{
	int saved_errno = errno;

	free(*(void **)p);
	errno = saved_errno;
}

static inline void cleanup_close_(const int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved_errno;
}

BERTH_DEFINE_AUTO_PTR(closedir, DIR *, closedir);
BERTH_DEFINE_AUTO_PTR(fclose, FILE *, fclose);

#endif
