/* SPDX-License-Identifier: MIT */
/*
 * bwrap.c: /usr/bin/bwrap without glibc's vector code (see ./run), in user-mode Linux. berth runs
 * bwrap by an fd and with an environment of its own, so neither a script nor our variable would do;
 * what runs inside inherits it. Of musl, which has no such code itself.
 */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char tunables[] = "GLIBC_TUNABLES=" TUNABLES;

	(void)argc;
	putenv(tunables);
	execv("/usr/bin/bwrap", argv);
	return 127;
}
