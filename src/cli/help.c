/* SPDX-License-Identifier: MIT */
/* --help and `berth help`, out of the tables. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define HELP_COLUMN 30

static void print_option(FILE *f, const struct cli_opt *o)
{
	char left[64];
	int n = 0;

	if (o->letter)
		n = snprintf(left, sizeof(left), "  -%c, --%s", o->letter, o->name);
	else
		n = snprintf(left, sizeof(left), "      --%s", o->name);
	if (o->arg)
		snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->arg);
	if (strlen(left) >= HELP_COLUMN)
		fprintf(f, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(f, "%-*s", HELP_COLUMN, left);
	fprintf(f, "%s", o->help);
	if (o->deflt)
		fprintf(f, " [%s]", o->deflt);
	fputc('\n', f);
}

static void print_options(FILE *f, const struct cli_verb *v)
{
	if (!v->options || !v->options[0])
		return;
	fputs("\noptions:\n", f);
	for (size_t i = 0; v->options[i]; i++)
		for (const struct cli_opt *o = v->options[i]; o->name; o++)
			print_option(f, o);
}

static void print_globals(FILE *f)
{
	fputs("\nglobal options:\n", f);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		print_option(f, o);
}

int help_each_key(void (*fn)(void *arg, const char *provider, const char *key, const char *help),
		  void *arg)
{
	struct berth *b = NULL;
	const struct berth_provider_ops *ops;
	int r = berth_new("/", &b, NULL); /* it looks at nothing there */

	for (size_t i = 0; r == 0 && (ops = berth_provider_at(b, i)); i++) {
		const struct berth_provider_key *k = ops->keys;

		for (; !(ops->flags & BERTH_PROVIDER_HIDDEN) && k && k->key; k++)
			fn(arg, ops->name, k->key, k->help);
	}
	berth_free(b);
	return r;
}

static void print_key(void *arg, const char *provider, const char *key, const char *help)
{
	fprintf(arg, "  %s?%s=%*s%s\n", provider, key,
		(int)MAX_OF(HELP_COLUMN - 4 - (int)strlen(provider) - (int)strlen(key), 1), "",
		help);
}

static void print_verbs(FILE *f, const struct cli_verb *v, const char *before)
{
	for (; v->name; v++) {
		char left[40];

		if (v->subs) {
			print_verbs(f, v->subs, "sandbox ");
			continue;
		}
		snprintf(left, sizeof(left), "%s%s", before, v->name);
		fprintf(f, "  %-18s%s\n", left, v->summary);
	}
}

void help_print_verb(const struct cli_verb *v, const char *path, bool to_stderr)
{
	FILE *f = to_stderr ? stderr : stdout;

	fprintf(f, "usage: berth %s%s%s\n\n%s\n", path, *v->args ? " " : "", v->args, v->summary);
	if (v->subs) {
		fputs("\nverbs:\n", f);
		print_verbs(f, v->subs, "");
	}
	print_options(f, v);
	if (!strncmp(path, "sandbox", strlen("sandbox"))) {
		fputs("\nkeys of a sandbox spec (they count when it is created):\n", f);
		(void)help_each_key(print_key, f);
	}
	print_globals(f);
}

void help_print_all(bool to_stderr)
{
	FILE *f = to_stderr ? stderr : stdout;

	fputs("usage: berth [OPTIONS] VERB …\n\n"
	      "Runs workers and jobs in sandboxes and tells the truth about them.\n\nverbs:\n",
	      f);
	print_verbs(f, cli_verbs, "");
	print_globals(f);
	fputs("\nberth help VERB tells more; so does berth(1).\n", f);
}

int cmd_help_for(const char *const *names, size_t n)
{
	const struct cli_verb *table = cli_verbs, *v = NULL;
	char path[64] = "", buf[80];

	for (size_t i = 0; i < n; i++) {
		struct nearest near = {.word = names[i], .len = strlen(names[i])};
		char hint[64];

		for (v = table; v && v->name && strcmp(v->name, names[i]); v++)
			nearest_try(&near, v->name);
		snprintf(hint, sizeof(hint), "did you mean %s?", near.best ? near.best : "");
		if (!v || !v->name)
			return cli_usage(near.best ? hint : "berth help", "unknown verb \"%s\"",
					 cli_shown(names[i], buf));
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s", *path ? " " : "",
			 v->name);
		table = v->subs;
	}
	if (v)
		help_print_verb(v, path, false);
	else
		help_print_all(false);
	return 0;
}

int cmd_help(void)
{
	return cmd_help_for(cli.args, cli.n_args);
}

int cmd_version(void)
{
	if (cli.json)
		printf("{\"version\":\"%s\"}\n", berth_version());
	else
		printf("berth %s\n", berth_version());
	return 0;
}
