/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_ATTR_H
#define BERTH_BASE_ATTR_H
/*
 * Compiler attributes and the few macros that every file may use. The only header of base/ that
 * the static agent may include: it declares no function and needs no library.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @fmt and @args count from 1; args is 0 for functions that take a va_list. */
#define attr_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#define attr_nonnull(...)      __attribute__((nonnull(__VA_ARGS__)))
#define attr_warn_unused       __attribute__((warn_unused_result))
#define attr_unused            __attribute__((unused))
#define attr_noreturn          __attribute__((noreturn))
#define attr_pure              __attribute__((pure))
#define attr_const             __attribute__((const))
#define attr_cold              __attribute__((cold))
#define attr_packed            __attribute__((packed))
#define attr_malloc            __attribute__((malloc))
#define attr_fallthrough       __attribute__((fallthrough))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Elements of an array; a pointer is a compile error. */
#define ARRAY_LEN(a)                                                                           \
	(sizeof(a) / sizeof((a)[0]) +                                                          \
	 0 * sizeof(struct {                                                                   \
		 int not_a_pointer : 1 -                                                       \
			 2 * __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])); \
	 }))

/* Smaller and larger of two; each argument is evaluated once and both must have one type. */
#define MIN_OF(a, b)                               \
	__extension__({                            \
		__typeof__(a) min_a_ = (a);        \
		__typeof__(b) min_b_ = (b);        \
		(void)(&min_a_ == &min_b_);        \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})
#define MAX_OF(a, b)                               \
	__extension__({                            \
		__typeof__(a) max_a_ = (a);        \
		__typeof__(b) max_b_ = (b);        \
		(void)(&max_a_ == &max_b_);        \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})

/* true when the sum or product does not fit into *ret_out (which then holds the wrapped value). */
#define ADD_OVERFLOWS(a, b, ret_out) __builtin_add_overflow((a), (b), (ret_out))
#define MUL_OVERFLOWS(a, b, ret_out) __builtin_mul_overflow((a), (b), (ret_out))

/* The struct that holds @member at @ptr. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Restart a system call that a signal interrupted. Evaluates to its result; errno is kept. */
#define RETRY_EINTR(expr)                                 \
	__extension__({                                   \
		__typeof__(expr) retry_r_;                \
		do                                        \
			retry_r_ = (expr);                \
		while (retry_r_ == -1 && errno == EINTR); \
		retry_r_;                                 \
	})

#endif
