/* SPDX-License-Identifier: MIT */
/*
 * Embeds the agent binaries. The build passes AGENT_FILE_<ARCH> (path of the binary) and a
 * generated header with its hash; the header changes with the binary, so this file is rebuilt.
 * It does not look at the machine: which architecture a sandbox has is the caller's business.
 */
#include "core/agent_blob.h"

#include <string.h>

#include "base/attr.h"

#define EMBED(symbol, file)                                                                        \
	__asm__(".pushsection .rodata.agent_" #symbol ",\"a\",@progbits\n"                         \
		".balign 16\n"                                                                     \
		".hidden agent_" #symbol "_start\n"                                                \
		".global agent_" #symbol "_start\n"                                                \
		"agent_" #symbol "_start:\n"                                                       \
		".incbin \"" file "\"\n"                                                           \
		".hidden agent_" #symbol "_end\n"                                                  \
		".global agent_" #symbol "_end\n"                                                  \
		"agent_" #symbol "_end:\n"                                                         \
		".byte 0\n"                                                                        \
		".popsection\n");                                                                  \
	extern const unsigned char agent_##symbol##_start[];                                       \
	extern const unsigned char agent_##symbol##_end[]

#ifdef AGENT_FILE_X86_64
#include "agent_hash_x86_64.h"
EMBED(x86_64, AGENT_FILE_X86_64);
#endif
#ifdef AGENT_FILE_AARCH64
#include "agent_hash_aarch64.h"
EMBED(aarch64, AGENT_FILE_AARCH64);
#endif

struct embedded {
	struct agent_blob blob; /* size is filled in at the first call: it is no constant */
	const unsigned char *end;
};

static struct embedded embedded[] = {
#ifdef AGENT_FILE_X86_64
	{{"x86_64", agent_x86_64_start, 0, AGENT_HASH_X86_64}, agent_x86_64_end},
#endif
#ifdef AGENT_FILE_AARCH64
	{{"aarch64", agent_aarch64_start, 0, AGENT_HASH_AARCH64}, agent_aarch64_end},
#endif
};

const struct agent_blob *agent_blob_at(size_t i)
{
	if (i >= ARRAY_LEN(embedded))
		return NULL;
	embedded[i].blob.size = (size_t)(embedded[i].end - embedded[i].blob.data);
	return &embedded[i].blob;
}

const struct agent_blob *agent_blob_get(const char *arch)
{
	const struct agent_blob *blob;

	for (size_t i = 0; (blob = agent_blob_at(i)); i++) {
		if (strcmp(blob->arch, arch) == 0)
			return blob;
	}
	return NULL;
}
