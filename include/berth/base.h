/* SPDX-License-Identifier: MIT */
#ifndef BERTH_BASE_H
#define BERTH_BASE_H
/*
 * What every public header needs: symbol visibility and the version.
 */
#if defined(__GNUC__) || defined(__clang__)
#define BERTH_PUBLIC __attribute__((visibility("default")))
/* @fmt and @args count from 1; @args is 0 for functions that take a va_list. */
#define BERTH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BERTH_PUBLIC
#define BERTH_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
#define BERTH_BEGIN_DECLS extern "C" {
#define BERTH_END_DECLS   }
#else
#define BERTH_BEGIN_DECLS
#define BERTH_END_DECLS
#endif

/* The version of these headers. */
#define BERTH_VERSION_MAJOR 0
#define BERTH_VERSION_MINOR 1
#define BERTH_VERSION_PATCH 0
#define BERTH_VERSION       "0.1.0"

BERTH_BEGIN_DECLS

/*
 * The version of the library that is running, "MAJOR.MINOR.PATCH". It differs from BERTH_VERSION
 * when a program was built against other headers. Static; never fails.
 */
BERTH_PUBLIC const char *berth_version(void);

BERTH_END_DECLS

#endif
