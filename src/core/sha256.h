/* SPDX-License-Identifier: MIT */
#ifndef BERTH_CORE_SHA256_H
#define BERTH_CORE_SHA256_H
/*
 * SHA-256 by OpenSSL's libcrypto, which is loaded when the first digest is wanted and never linked:
 * a verb that hashes nothing does not pay for it. Safe to use from several threads, each with its
 * own state.
 */
#include <berth/error.h>

#include "base/attr.h"

#define SHA256_LEN 32
#define SHA256_HEX 64 /* digits, without the NUL */

/* One digest under way. Owns nothing until libcrypto is so new that only EVP is left; then
 * sha256_done() frees. */
struct sha256 {
	_Alignas(16) unsigned char ctx[128]; /* SHA256_CTX has 112 bytes in every libcrypto that has
						it */
	void *evp;
};

/*
 * Loads libcrypto. 0, or BERTH_E_UNSUPPORTED with what is missing and how to mend it. Calling it
 * again costs nothing. All other functions need one successful call before them.
 */
int sha256_load(struct berth_error *err) attr_warn_unused;

/* Begins a digest. BERTH_E_NOMEM, BERTH_E_INTERNAL; only begun digests may be passed to the others.
 */
int sha256_begin(struct sha256 *h, struct berth_error *err) attr_warn_unused;
void sha256_add(struct sha256 *h, const void *p, size_t n);
/* Ends the digest; the state is as after sha256_done(). */
void sha256_end(struct sha256 *h, uint8_t ret[SHA256_LEN]);
/* Gives an unfinished digest up. Safe after sha256_end() and on a zeroed struct. */
void sha256_done(struct sha256 *h);

/* All in one, loading included. */
int sha256_bytes(const void *p, size_t n, uint8_t ret[SHA256_LEN],
		 struct berth_error *err) attr_warn_unused;

/* For tests: act as if only the EVP functions existed (evp), or as if the library had this name.
 * Before sha256_load(). */
void sha256_test_setup(bool evp, const char *library);

#endif
