/* SPDX-License-Identifier: MIT */
/* The embedded agents: the right bytes, the right hash, and they run. */
#include "core/agent_blob.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/utsname.h>

#include "base/io.h"
#include "loop/child.h"

#include "tap.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static void check_hash(const struct agent_blob *blob)
{
	XXH128_canonical_t canon;
	char hex[33];

	XXH128_canonicalFromHash(&canon, XXH3_128bits(blob->data, blob->size));
	for (size_t i = 0; i < sizeof(canon.digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", canon.digest[i]);
	ASSERT_STREQ(blob->hash, hex);
}

TEST(every_agent_is_whole)
{
	const struct agent_blob *blob;
	size_t i;

	for (i = 0; (blob = agent_blob_at(i)); i++) {
		const Elf64_Ehdr *elf = (const void *)blob->data;

		ASSERT_GT(blob->size, sizeof(*elf));
		ASSERT(memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0);
		ASSERT_EQ(elf->e_machine,
			  strcmp(blob->arch, "x86_64") == 0 ? EM_X86_64 : EM_AARCH64);
		ASSERT_EQ(elf->e_type, ET_EXEC); /* static, at a fixed address */
		check_hash(blob);
		ASSERT(agent_blob_get(blob->arch) == blob);
	}
	ASSERT_GE(i, 1);
	ASSERT_NULL(agent_blob_at(i));
	ASSERT_NULL(agent_blob_get("vax"));
}

TEST(there_is_one_for_this_machine)
{
	struct utsname uts;
	const struct agent_blob *blob;
	auto_free char *file = NULL;
	size_t len = 0;
	char path[4096];

	ASSERT_EQ(uname(&uts), 0);
	blob = agent_blob_get(uts.machine);
	ASSERT_NOT_NULL(blob);
	snprintf(path, sizeof(path), "%s/berth-agent", getenv("BERTH_BUILD_ROOT"));
	ASSERT_EQ(read_file(AT_FDCWD, path, 64 << 20, &file, &len, NULL), 0);
	ASSERT_EQ(len, blob->size);
	ASSERT(memcmp(file, blob->data, len) == 0);
}

/* What an agent says without arguments is its own business; that it gets to say it is ours. */
static void run_agent(const struct agent_blob *blob, const char *emulator)
{
	char *argv[] = {(char *)emulator, (char *)"./agent", NULL};
	struct child_params params = CHILD_PARAMS_INIT;
	struct child_exit end;

	ASSERT_EQ(write_file_atomic(AT_FDCWD, "agent", blob->data, blob->size, 0755, 0, NULL), 0);
	params.argv = emulator ? argv : argv + 1;
	ASSERT_EQ(child_run(&params, NULL, 0, 1 << 16, 20000, &end, NULL, NULL, NULL, NULL, NULL),
		  0);
	ASSERT_EQ(end.signaled, false);
	ASSERT_NE(end.code, 126);
	ASSERT_NE(end.code, 127);
}

TEST(the_native_one_runs)
{
	struct utsname uts;

	ASSERT_EQ(uname(&uts), 0);
	run_agent(agent_blob_get(uts.machine), NULL);
}

TEST(the_aarch64_one_runs)
{
	const struct agent_blob *blob = agent_blob_get("aarch64");

	TEST_REQUIRE("qemu-aarch64", "needs qemu-aarch64-static");
	if (!blob)
		SKIP("this build has no aarch64 agent");
	run_agent(blob, "qemu-aarch64-static");
}

TEST_MAIN()
