/* SPDX-License-Identifier: MIT */
/* SHA-256 over a libcrypto that is loaded late: known answers, both sets of functions, a library
 * that is not there. */
#include "tap.h"

#include "base/hex.h"
#include "core/sha256.h"

static const char *hex_of(const void *p, size_t n)
{
	static char text[SHA256_HEX + 1];
	uint8_t digest[SHA256_LEN];

	if (sha256_bytes(p, n, digest, NULL) < 0)
		return "failed";
	return hex_encode(digest, sizeof(digest), text);
}

/* FIPS 180-2, appendix B. */
static void known_answers(void)
{
	char *million = malloc(1000000);
	struct sha256 h;
	uint8_t digest[SHA256_LEN];
	char text[SHA256_HEX + 1];

	ASSERT_STREQ(hex_of("", 0),
		     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	ASSERT_STREQ(hex_of("abc", 3),
		     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	ASSERT_STREQ(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
		     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(million, 'a', 1000000);
	ASSERT_EQ(sha256_begin(&h, NULL), 0);
	for (size_t i = 0; i < 1000000; i += 777)
		sha256_add(&h, million + i, i + 777 > 1000000 ? 1000000 - i : 777);
	sha256_end(&h, digest);
	ASSERT_STREQ(hex_encode(digest, sizeof(digest), text),
		     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	sha256_done(&h);
	free(million);
}

TEST(known_answers_plain)
{
	known_answers();
}

TEST(known_answers_evp)
{
	sha256_test_setup(true, NULL);
	known_answers();
}

TEST(given_up_half_way)
{
	struct sha256 h;

	sha256_test_setup(true, NULL);
	ASSERT_EQ(sha256_load(NULL), 0);
	ASSERT_EQ(sha256_begin(&h, NULL), 0);
	sha256_add(&h, "x", 1);
	sha256_done(&h);
	ASSERT_NULL(h.evp);
}

TEST(missing_library_is_said)
{
	struct berth_error err = BERTH_ERROR_INIT;

	sha256_test_setup(false, "libcrypto-that-is-not-there.so.9");
	ASSERT_EQ(sha256_load(&err), BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(err.message, "libcrypto-that-is-not-there.so.9");
	ASSERT_CONTAINS(err.hint, "libssl3");
	ASSERT_EQ(sha256_load(NULL), BERTH_E_UNSUPPORTED);
}

TEST(library_without_sha256_is_said)
{
	struct berth_error err = BERTH_ERROR_INIT;

	sha256_test_setup(false, "libm.so.6");
	ASSERT_EQ(sha256_load(&err), BERTH_E_UNSUPPORTED);
	ASSERT_CONTAINS(err.message, "no SHA-256");
}

TEST_MAIN()
