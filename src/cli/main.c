/* SPDX-License-Identifier: MIT */
/* berth: the program. Everything is in cli_main(), so that tests and the generators link it. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
