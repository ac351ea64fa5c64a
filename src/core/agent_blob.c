/* SPDX-License-Identifier: MIT */
/*
 * Embeds the agent binaries. The build passes AGENT_FILE_<ARCH> (path of the binary) and a
 * generated header with its hash and size; the header changes with the binary, so this file is
 * rebuilt. It does not look at the machine: which architecture a sandbox has is the caller's
 * business.
 */
#include "core/agent_blob.h"

#include <string.h>

#include "base/attr.h"

#define EMBED(symbol, file)                                                \
	__asm__(".pushsection .rodata.agent_" #symbol ",\"a\",@progbits\n" \
		".balign 16\n"                                             \
		".hidden agent_" #symbol "\n"                              \
		".global agent_" #symbol "\n"                              \
		"agent_" #symbol ":\n"                                     \
		".incbin \"" file "\"\n"                                   \
		".popsection\n");                                          \
	extern const unsigned char agent_##symbol[]

#ifdef AGENT_FILE_X86_64
#include "agent_x86_64.h"
EMBED(x86_64, AGENT_FILE_X86_64);
#endif
#ifdef AGENT_FILE_AARCH64
#include "agent_aarch64.h"
EMBED(aarch64, AGENT_FILE_AARCH64);
#endif

static const struct agent_blob blobs[] = {
#ifdef AGENT_FILE_X86_64
	{"x86_64", agent_x86_64, AGENT_X86_64_SIZE, AGENT_X86_64_HASH},
#endif
#ifdef AGENT_FILE_AARCH64
	{"aarch64", agent_aarch64, AGENT_AARCH64_SIZE, AGENT_AARCH64_HASH},
#endif
};

const struct agent_blob *agent_blob_at(size_t i)
{
	return i < ARRAY_LEN(blobs) ? &blobs[i] : NULL;
}

const struct agent_blob *agent_blob_get(const char *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(blobs); i++) {
		if (strcmp(blobs[i].arch, arch) == 0)
			return &blobs[i];
	}
	return NULL;
}
