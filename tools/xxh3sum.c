/* SPDX-License-Identifier: MIT */
/*
 * Build tool: the XXH3-128 of a file, in the canonical form that xxh128sum prints.
 *   xxh3sum FILE                       prints "<hex>\n"
 *   xxh3sum --header NAME FILE OUT     writes NAME_HASH ("<hex>") and NAME_SIZE as macros to OUT
 */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static int hash_file(const char *path, char hex[33], unsigned long *size)
{
	static unsigned char buf[1 << 16];
	XXH3_state_t state;
	XXH128_canonical_t canon;
	size_t n;
	FILE *f = fopen(path, "rb");

	if (!f)
		return -1;
	*size = 0;
	XXH3_128bits_reset(&state);
	while ((n = fread(buf, 1, sizeof(buf), f)) > 0) {
		XXH3_128bits_update(&state, buf, n);
		*size += n;
	}
	if (ferror(f)) {
		fclose(f);
		return -1;
	}
	fclose(f);
	XXH128_canonicalFromHash(&canon, XXH3_128bits_digest(&state));
	for (size_t i = 0; i < sizeof(canon.digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", canon.digest[i]);
	return 0;
}

int main(int argc, char **argv)
{
	int header = argc == 5 && strcmp(argv[1], "--header") == 0;
	unsigned long size;
	char hex[33];
	FILE *out;

	if (!header && argc != 2) {
		fprintf(stderr, "usage: xxh3sum [--header NAME] FILE [OUT]\n");
		return 2;
	}
	if (hash_file(argv[header ? 3 : 1], hex, &size) < 0) {
		perror(argv[header ? 3 : 1]);
		return 1;
	}
	if (!header)
		return printf("%s\n", hex) < 0;
	out = fopen(argv[4], "w");
	if (!out ||
	    fprintf(out, "#define %s_HASH \"%s\"\n#define %s_SIZE %luu\n", argv[2], hex, argv[2],
		    size) < 0 ||
	    fclose(out) != 0) {
		perror(argv[4]);
		return 1;
	}
	return 0;
}
