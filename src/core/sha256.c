/* SPDX-License-Identifier: MIT */
/*
 * sha256.c: SHA-256 out of a libcrypto that is opened with dlopen(3) on first use.
 *
 * The plain SHA256_* functions are taken where they exist: they need no provider, no configuration
 * file and no initialisation (measured: first digest 0.01 ms after the dlopen, 1.0 ms through EVP),
 * and use the same assembly. EVP stands behind them for a libcrypto that has dropped them.
 *
 * Invariants: api is written once, under the mutex and before `loaded`, and only read afterwards.
 * The handle is never closed. It does not implement SHA-256, and offers no other algorithm.
 */
#include "core/sha256.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct libcrypto {
	int (*init)(void *);
	int (*update)(void *, const void *, size_t);
	int (*final)(unsigned char *, void *);

	const void *(*evp_sha256)(void);
	void *(*evp_new)(void);
	void (*evp_free)(void *);
	int (*evp_init)(void *, const void *, void *);
	int (*evp_update)(void *, const void *, size_t);
	int (*evp_final)(void *, unsigned char *, unsigned int *);
};

static struct libcrypto api;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;
static char why[256];

static bool test_evp;
static const char *test_library;

void sha256_test_setup(bool evp, const char *library)
{
	test_evp = evp;
	test_library = library;
}

/* dlsym gives a data pointer; POSIX promises that it can be copied into a function pointer. */
static bool symbol(void *lib, const char *name, void *ret_fn)
{
	void *p = dlsym(lib, name);

	memcpy(ret_fn, &p, sizeof(p));
	return p != NULL;
}

static void *open_library(void)
{
	static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.4", "libcrypto.so.1.1"};
	void *lib = NULL;

	if (test_library)
		return dlopen(test_library, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !lib && i < ARRAY_LEN(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static bool load_evp(void *lib)
{
	return symbol(lib, "EVP_sha256", &api.evp_sha256) &&
	       symbol(lib, "EVP_MD_CTX_new", &api.evp_new) &&
	       symbol(lib, "EVP_MD_CTX_free", &api.evp_free) &&
	       symbol(lib, "EVP_DigestInit_ex", &api.evp_init) &&
	       symbol(lib, "EVP_DigestUpdate", &api.evp_update) &&
	       symbol(lib, "EVP_DigestFinal_ex", &api.evp_final);
}

static bool load_plain(void *lib)
{
	struct libcrypto a = {0};

	if (test_evp || !symbol(lib, "SHA256_Init", &a.init) ||
	    !symbol(lib, "SHA256_Update", &a.update) || !symbol(lib, "SHA256_Final", &a.final))
		return false;
	api = a;
	return true;
}

static void load(void)
{
	void *lib = open_library();
	const char *text = lib ? NULL : dlerror();

	if (lib && (load_plain(lib) || load_evp(lib))) {
		loaded = true;
		return;
	}
	if (lib)
		dlclose(lib);
	strncpy(why, text ? text : "it has no SHA-256", sizeof(why) - 1);
}

/* dlopen(3) tells no errno. What would stop any open is asked for itself: it is no missing
 * library. */
static int cannot_open(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? errno : 0;
}

int sha256_load(struct berth_error *err)
{
	bool ok;
	int e;

	/* Not once for ever: one that ran out of descriptors may have some the next time. */
	pthread_mutex_lock(&loading);
	if (!loaded)
		load();
	ok = loaded;
	pthread_mutex_unlock(&loading);
	if (ok)
		return 0;
	e = cannot_open();
	if (e)
		return berth_fail_errno(err, 0, e, "SHA-256: OpenSSL's libcrypto");
	berth_fail(err, BERTH_E_UNSUPPORTED, "SHA-256: OpenSSL's libcrypto cannot be loaded: %s",
		   why);
	berth_error_hint(err, "install it: apt-get install libssl3");
	return BERTH_E_UNSUPPORTED;
}

int sha256_begin(struct sha256 *h, struct berth_error *err)
{
	void *evp;

	h->evp = NULL;
	if (api.init) {
		api.init(h->ctx);
		return 0;
	}
	if (!api.evp_new)
		return berth_fail(err, BERTH_E_INTERNAL, "SHA-256 before libcrypto was loaded");
	evp = api.evp_new();
	if (!evp)
		return berth_fail_nomem(err);
	if (api.evp_init(evp, api.evp_sha256(), NULL) != 1) {
		api.evp_free(evp);
		return berth_fail(err, BERTH_E_UNSUPPORTED, "libcrypto does not offer SHA-256");
	}
	h->evp = evp;
	return 0;
}

void sha256_add(struct sha256 *h, const void *p, size_t n)
{
	if (h->evp)
		api.evp_update(h->evp, p, n);
	else
		api.update(h->ctx, p, n);
}

void sha256_end(struct sha256 *h, uint8_t ret[SHA256_LEN])
{
	if (h->evp)
		api.evp_final(h->evp, ret, NULL);
	else
		api.final(ret, h->ctx);
	sha256_done(h);
}

void sha256_done(struct sha256 *h)
{
	if (h->evp)
		api.evp_free(h->evp);
	h->evp = NULL;
}

int sha256_bytes(const void *p, size_t n, uint8_t ret[SHA256_LEN], struct berth_error *err)
{
	struct sha256 h;
	int r = sha256_load(err);

	if (r < 0 || (r = sha256_begin(&h, err)) < 0)
		return r;
	sha256_add(&h, p, n);
	sha256_end(&h, ret);
	return 0;
}
