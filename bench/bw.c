/* SPDX-License-Identifier: MIT */
/*
 * bw.c: the worker of the benchmarks. One static program, no shell needed:
 *   bw hold        says "r" on stdout and waits for TERM
 *   bw stamp       waits for USR1, then 20 ms, then writes CLOCK_MONOTONIC in ns to stdout and ends
 *   bw write N     writes N bytes to stdout in pieces of 64 KiB
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int put_all(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t k = write(1, p, n);

		if (k < 0)
			return -1;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

static int stamp(void)
{
	struct timespec t = {.tv_nsec = 20 * 1000 * 1000};
	char line[32];
	sigset_t set;
	int sig, n;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	put_all("r\n", 2);
	sigwait(&set, &sig);
	nanosleep(&t, NULL);
	clock_gettime(CLOCK_MONOTONIC, &t);
	n = snprintf(line, sizeof(line), "%lld\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec);
	return put_all(line, (size_t)n) < 0;
}

int main(int argc, char **argv)
{
	static char block[65536];
	long long left;

	if (argc >= 2 && !strcmp(argv[1], "hold")) {
		put_all("r\n", 2);
		for (;;)
			pause();
	}
	if (argc >= 2 && !strcmp(argv[1], "stamp"))
		return stamp();
	if (argc < 3 || strcmp(argv[1], "write"))
		return 2;
	memset(block, 'x', sizeof(block));
	for (left = atoll(argv[2]); left > 0; left -= (long long)sizeof(block)) {
		size_t n = left < (long long)sizeof(block) ? (size_t)left : sizeof(block);

		if (put_all(block, n) < 0)
			return 1;
	}
	return 0;
}
