/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without libFuzzer: over every file of the given corpus folders, over all
 * short prefixes of each (truncation is what streams do), and over mutations of each from a fixed
 * seed, so that the normal test run sees the same inputs every time. A crash ends the program
 * before its plan, which the test runner counts as a failure; the input that did it is written to
 * the temporary folder and named on stderr. TAP on stdout.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX_BYTES (4u << 20)
#define PREFIXES        512
#define MUTATIONS       2000

static const uint8_t *current;
static size_t current_size;

static void on_crash(int sig)
{
	static const char path[] = "/tmp/berth-fuzz-crash";
	FILE *f = fopen(path, "wb");

	if (f) {
		fwrite(current, 1, current_size, f);
		fclose(f);
	}
	fprintf(stderr, "signal %d on an input of %zu bytes, written to %s\n", sig, current_size,
		path);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* A copy of exactly the right size, so that a sanitizer sees a read past the end. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	current = copy;
	current_size = size;
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Bits, interesting bytes, cuts, doubled ranges: up to four of them. */
static size_t mutate(uint8_t *data, size_t size, uint64_t *state)
{
	static const uint8_t bytes[] = {0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '\r', '/', '.', ':'};
	unsigned rounds = 1 + next_random(state) % 4;

	while (rounds-- && size > 0) {
		size_t at = next_random(state) % size, n = 1 + next_random(state) % 8;

		switch (next_random(state) % 5) {
		case 0:
			data[at] = (uint8_t)(data[at] ^ (1u << next_random(state) % 8));
			break;
		case 1:
			data[at] = bytes[next_random(state) % sizeof(bytes)];
			break;
		case 2:
			size = at;
			break;
		case 3:
			if (n > size - at)
				n = size - at;
			memmove(data + at, data + at + n, size - at - n);
			size -= n;
			break;
		default:
			data[at] = (uint8_t)next_random(state);
			break;
		}
	}
	return size;
}

static void run_all_forms(const uint8_t *data, size_t size)
{
	uint8_t *scratch = malloc(size ? size : 1);
	uint64_t state = size;

	if (!scratch)
		abort();
	run(data, size);
	for (size_t n = 0; n < size && n < PREFIXES; n++)
		run(data, n);
	/* Large inputs get fewer rounds: the time of a run is bounded by bytes. */
	for (size_t i = 0; i < MUTATIONS && i * size < (64u << 20); i++) {
		memcpy(scratch, data, size);
		run(scratch, mutate(scratch, size, &state));
	}
	free(scratch);
}

/* The number of inputs in @folder, or -1. */
static int replay(const char *folder)
{
	static uint8_t data[INPUT_MAX_BYTES];
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int count = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		char path[4096];
		size_t n;
		FILE *f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		f = fopen(path, "rb");
		if (!f)
			continue;
		n = fread(data, 1, sizeof(data), f);
		fclose(f);
		run_all_forms(data, n);
		count++;
	}
	closedir(dir);
	return count;
}

int main(int argc, char **argv)
{
	int bad = 0;

	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGFPE, on_crash);
	run((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);

		if (n <= 0)
			printf("# %s: %s\n", argv[i], n < 0 ? strerror(errno) : "no inputs");
		printf("%s %d - %d inputs and their mutations\n", n > 0 ? "ok" : "not ok", i, n);
		bad |= n <= 0;
	}
	printf("1..%d\n", argc - 1);
	return bad;
}
