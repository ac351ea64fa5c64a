/* SPDX-License-Identifier: MIT */
/*
 * main.c: the command words of berth-agent.
 */
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/init.h"

static int hash_main(int argc, char **argv)
{
	char line[sizeof(agent.hash) + 1];

	(void)argc, (void)argv;
	if (agent_find_hash() < 0)
		return 1;
	return write_all(1, line, fmt(line, sizeof(line), "%s\n", agent.hash)) < 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	/* clang-format off */
	{"init", init_main},
	{"connect", connect_main},
	{"call", call_main},
	{"stage", stage_main}, /* on the host: makes an isolated sandbox around an init */
	{"erase", erase_main}, /* on the host: removes the folder of one */
	{"hash", hash_main}, /* of this binary, as the library knows it: is it whole? */
	/* clang-format on */
};

int main(int argc, char **argv)
{
	static const char usage[] = "usage: berth-agent init|connect|call|stage|erase|hash …\n";

	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	(void)!write_all(2, usage, sizeof(usage) - 1);
	return 2;
}
