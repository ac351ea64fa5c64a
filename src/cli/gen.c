/* SPDX-License-Identifier: MIT */
/*
 * cli-gen: writes what is made from the tables of verbs and options. A build tool; not installed.
 *
 *	cli-gen man TEMPLATE	the manual page: @VERBS@, @OPTIONS@, @KEYS@, @VERSION@ are replaced
 *	cli-gen bash|zsh|fish	a completion
 *	cli-gen options		"VERB --option" lines, for the test that nothing is missing
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

typedef void (*verb_fn)(const struct cli_verb *v, const char *path);

static void each_verb(const struct cli_verb *v, const char *before, verb_fn fn)
{
	for (; v->name; v++) {
		char path[64];

		snprintf(path, sizeof(path), "%s%s", before, v->name);
		if (v->subs) {
			snprintf(path, sizeof(path), "%s%s ", before, v->name);
			each_verb(v->subs, path, fn);
		} else {
			fn(v, path);
		}
	}
}

/* ── manual page ────────────────────────────────────────────────────────────────────────────── */

/* Plain text as roff: '-' and '\' are escaped, a leading '.' is protected. */
static void roff(const char *s)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", stdout);
	for (; *s; s++) {
		if (*s == '-' || *s == '\\')
			putchar('\\');
		if (!strncmp(s, "…", strlen("…"))) {
			fputs("...", stdout);
			s += strlen("…") - 1;
			continue;
		}
		putchar(*s == '\\' ? 'e' : *s);
	}
}

static void man_option(const struct cli_opt *o)
{
	fputs(".TP\n", stdout);
	if (o->letter)
		printf("\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", stdout);
	roff(o->name);
	fputs("\\fR", stdout);
	if (o->arg) {
		fputs(" \\fI", stdout);
		roff(o->arg);
		fputs("\\fR", stdout);
	}
	putchar('\n');
	roff(o->help);
	if (o->deflt) {
		fputs(" (default: ", stdout);
		roff(o->deflt);
		putchar(')');
	}
	fputs(".\n", stdout);
}

static void man_options(const struct cli_opt *o)
{
	for (; o->name; o++)
		man_option(o);
}

static void man_verb(const struct cli_verb *v, const char *path)
{
	fputs(".SS berth ", stdout);
	roff(path);
	if (*v->args) {
		putchar(' ');
		roff(v->args);
	}
	putchar('\n');
	printf("%c", *v->summary >= 'a' ? *v->summary - 'a' + 'A' : *v->summary);
	roff(v->summary + 1);
	fputs(".\n", stdout);
	if (v->text)
		fputs(v->text, stdout);
	for (size_t i = 0; v->options && v->options[i]; i++)
		man_options(v->options[i]);
}

static void man_key(void *arg, const char *provider, const char *key, const char *help)
{
	(void)arg;
	fputs(".TP\n\\fB", stdout);
	roff(provider);
	fputs("\\fR, \\fB", stdout);
	roff(key);
	fputs("=\\fR\n", stdout);
	roff(help);
	fputs(".\n", stdout);
}

static int man(const char *path)
{
	auto_fclose FILE *f = fopen(path, "re");
	char line[4096];

	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "@VERSION@");

		if (!strcmp(line, "@VERBS@\n"))
			each_verb(cli_verbs, "", man_verb);
		else if (!strcmp(line, "@OPTIONS@\n"))
			man_options(cli_global_options);
		else if (!strcmp(line, "@KEYS@\n") && help_each_key(man_key, NULL) < 0)
			return 1;
		else if (!strcmp(line, "@KEYS@\n"))
			continue;
		else if (at)
			printf("%.*s%s%s", (int)(at - line), line, BERTH_VERSION,
			       at + strlen("@VERSION@"));
		else
			fputs(line, stdout);
	}
	return 0;
}

/* ── completions ────────────────────────────────────────────────────────────────────────────── */

static void words_of(const struct cli_opt *o)
{
	for (; o->name; o++) {
		printf(" --%s", o->name);
		if (o->letter)
			printf(" -%c", o->letter);
	}
}

static void bash_verb(const struct cli_verb *v, const char *path)
{
	printf("\t'%s') words='", path);
	for (size_t i = 0; v->options && v->options[i]; i++)
		words_of(v->options[i]);
	printf("' ;;\n");
}

static void bash_names(const struct cli_verb *v)
{
	for (; v->name; v++)
		printf(" %s", v->name);
}

/* Options whose value is completed: files, directories, fixed words. */
static void bash_value(const struct cli_opt *o)
{
	for (; o->name; o++) {
		if (!o->arg)
			continue;
		printf("\t--%s", o->name);
		if (o->letter)
			printf("|-%c", o->letter);
		fputs(") ", stdout);
		if (o->choices) {
			fputs("COMPREPLY=($(compgen -W '", stdout);
			for (const char *c = o->choices; *c; c++)
				putchar(*c == '|' ? ' ' : *c);
			fputs("' -- \"$cur\")); return ;;\n", stdout);
		} else if (o->flags & (OPT_FILE | OPT_DIR)) {
			printf("compopt -o filenames; COMPREPLY=($(compgen -%c -- \"$cur\")); "
			       "return ;;\n",
			       o->flags & OPT_DIR ? 'd' : 'f');
		} else {
			fputs("return ;;\n", stdout);
		}
	}
}

static void bash_values_of(const struct cli_verb *v, const char *path)
{
	(void)path;
	for (size_t i = 0; v->options && v->options[i]; i++)
		bash_value(v->options[i]);
}

static int bash(void)
{
	fputs("# bash completion for berth; made by cli-gen from the tables of verbs and options\n"
	      "_berth_ids()\n{\n\tberth ps --json -q 2>/dev/null |\n"
	      "\t\tsed -n 's/.*\"executionId\":\"\\([^\"]*\\)\".*/\\1/p'\n}\n\n"
	      "_berth()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal i verb= words= global='",
	      stdout);
	words_of(cli_global_options);
	fputs("'\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\t[[ ${COMP_WORDS[i]} == -- ]] && { compopt -o default; return; }\n"
	      "\t\t[[ ${COMP_WORDS[i]} == -* ]] && continue\n"
	      "\t\t[[ ${COMP_WORDS[i-1]} == -s || ${COMP_WORDS[i-1]} == --sandbox ||\n"
	      "\t\t   ${COMP_WORDS[i-1]} == --state || ${COMP_WORDS[i-1]} == --remote-dir ]] && "
	      "continue\n"
	      "\t\tif [[ -z $verb ]]; then verb=${COMP_WORDS[i]}\n"
	      "\t\telif [[ $verb == sandbox ]]; then verb=\"sandbox ${COMP_WORDS[i]}\"; fi\n"
	      "\tdone\n"
	      "\tcase $prev in\n",
	      stdout);
	bash_value(cli_global_options);
	each_verb(cli_verbs, "", bash_values_of);
	fputs("\tesac\n\tcase $verb in\n\t'') words='", stdout);
	bash_names(cli_verbs);
	fputs("' ;;\n", stdout);
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		if (!v->subs)
			continue;
		printf("\t'%s') words='", v->name);
		bash_names(v->subs);
		fputs("' ;;\n", stdout);
	}
	each_verb(cli_verbs, "", bash_verb);
	fputs("\tesac\n"
	      "\tif [[ $cur == -* || -z $verb || $verb == sandbox ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$words $global\" -- \"$cur\"))\n"
	      "\telse\n\t\tcase $verb in\n"
	      "\t\t"
	      "run|deploy) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
	      "\t\tstatus|wait|logs|cancel|relaunch|rm) COMPREPLY=($(compgen -W \"$(_berth_ids)\" "
	      "-- \"$cur\")) ;;\n"
	      "\t\tcp) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
	      "\t\tesac\n\tfi\n}\ncomplete -F _berth berth\n",
	      stdout);
	return 0;
}

/* Inside a single-quoted word of zsh's _arguments. */
static void zsh_text(const char *s)
{
	for (; *s; s++) {
		if (*s == '\'')
			fputs("'\\'", stdout);
		else if (strchr("[]:\\", *s))
			putchar('\\');
		putchar(*s);
	}
}

static void zsh_option(const struct cli_opt *o)
{
	for (int round = o->letter ? 0 : 1; round < 2; round++) {
		printf(" \\\n\t\t\t'%s", o->kind == OPT_LIST ? "*" : "");
		if (round)
			printf("--%s%s[", o->name, o->arg ? "=" : "");
		else
			printf("-%c%s[", o->letter, o->arg ? "+" : "");
		zsh_text(o->help);
		putchar(']');
		if (o->arg) {
			putchar(':');
			zsh_text(o->arg);
			putchar(':');
			if (o->choices) {
				putchar('(');
				for (const char *c = o->choices; *c; c++)
					putchar(*c == '|' ? ' ' : *c);
				putchar(')');
			} else if (o->flags & OPT_DIR) {
				fputs("_files -/", stdout);
			} else if (o->flags & OPT_FILE) {
				fputs("_files", stdout);
			}
		}
		putchar('\'');
	}
}

static void zsh_verb(const struct cli_verb *v, const char *path)
{
	printf("\t\t(%s%s%s) _arguments -s", strchr(path, ' ') ? "'" : "", path,
	       strchr(path, ' ') ? "'" : "");
	for (size_t i = 0; v->options && v->options[i]; i++)
		for (const struct cli_opt *o = v->options[i]; o->name; o++)
			zsh_option(o);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		zsh_option(o);
	if (v->max_args && !strcmp(v->arg_names[0], "ID"))
		fputs(" \\\n\t\t\t'1:execution:_berth_ids'", stdout);
	else if (v->max_args && !strcmp(v->arg_names[0], "DIR"))
		fputs(" \\\n\t\t\t'1:artifact:_files -/'", stdout);
	else if (v->max_args)
		fputs(" \\\n\t\t\t'*:file:_files'", stdout);
	if (v->flags & VERB_COMMAND)
		fputs(" \\\n\t\t\t'*::command:_normal'", stdout);
	fputs(" ;;\n", stdout);
}

static void zsh_names(const struct cli_verb *v)
{
	for (; v->name; v++) {
		printf(" \\\n\t\t\t'%s:", v->name);
		zsh_text(v->summary);
		putchar('\'');
	}
}

static int zsh(void)
{
	fputs("#compdef berth\n"
	      "# zsh completion for berth; made by cli-gen from the tables of verbs and options\n"
	      "_berth_ids() {\n\tlocal -a ids\n"
	      "\tids=(${(f)\"$(berth ps --json -q 2>/dev/null |\n"
	      "\t\tsed -n 's/.*\"executionId\":\"\\([^\"]*\\)\".*/\\1/p')\"})\n"
	      "\tcompadd -a ids\n}\n\n"
	      "_berth() {\n\tlocal curcontext=$curcontext state verb\n\tlocal -a verbs\n"
	      "\t_arguments -C -s",
	      stdout);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		zsh_option(o);
	fputs(" \\\n\t\t\t'1:verb:->verb' '*::argument:->rest'\n"
	      "\tcase $state in\n\t(verb)\n\t\tverbs=(",
	      stdout);
	zsh_names(cli_verbs);
	fputs(")\n\t\t_describe verb verbs ;;\n\t(rest)\n\t\tverb=$words[1]\n"
	      "\t\tif [[ $verb == sandbox ]]; then\n"
	      "\t\t\tif (( CURRENT == 2 )); then\n\t\t\t\tverbs=(",
	      stdout);
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		if (v->subs)
			zsh_names(v->subs);
	fputs(")\n\t\t\t\t_describe verb verbs\n\t\t\t\treturn\n\t\t\tfi\n"
	      "\t\t\tverb=\"sandbox $words[2]\"\n\t\t\tshift words\n\t\t\t(( CURRENT-- ))\n\t\tfi\n"
	      "\t\tcase $verb in\n",
	      stdout);
	each_verb(cli_verbs, "", zsh_verb);
	fputs("\t\tesac ;;\n\tesac\n}\n\n_berth \"$@\"\n", stdout);
	return 0;
}

static void fish_text(const char *s)
{
	putchar('\'');
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('\'');
}

static void fish_option(const struct cli_opt *o, const char *condition)
{
	printf("complete -c berth%s -l %s", condition, o->name);
	if (o->letter)
		printf(" -s %c", o->letter);
	if (o->choices) {
		fputs(" -x -a '", stdout);
		for (const char *c = o->choices; *c; c++)
			putchar(*c == '|' ? ' ' : *c);
		putchar('\'');
	} else if (o->flags & (OPT_FILE | OPT_DIR)) {
		fputs(" -r -F", stdout);
	} else if (o->arg) {
		fputs(" -x", stdout);
	}
	fputs(" -d ", stdout);
	fish_text(o->help);
	putchar('\n');
}

static void fish_verb(const struct cli_verb *v, const char *path)
{
	char condition[128];
	const char *space = strchr(path, ' ');

	if (space)
		snprintf(condition, sizeof(condition),
			 " -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from "
			 "%s'",
			 (int)(space - path), path, space + 1);
	else
		snprintf(condition, sizeof(condition), " -n '__fish_seen_subcommand_from %s'",
			 path);
	for (size_t i = 0; v->options && v->options[i]; i++)
		for (const struct cli_opt *o = v->options[i]; o->name; o++)
			fish_option(o, condition);
	if (v->max_args && !strcmp(v->arg_names[0], "ID"))
		printf("complete -c berth%s -f -a '(__berth_ids)'\n", condition);
	else if (v->max_args)
		printf("complete -c berth%s -F\n", condition);
}

static void fish_names(const struct cli_verb *v, const char *condition)
{
	for (; v->name; v++) {
		printf("complete -c berth -n '%s' -a %s -d ", condition, v->name);
		fish_text(v->summary);
		putchar('\n');
	}
}

static int fish(void)
{
	fputs("# fish completion for berth; made by cli-gen from the tables of verbs and options\n"
	      "function __berth_ids\n\tberth ps --json -q 2>/dev/null |\n"
	      "\t\tstring replace -rf '.*\"executionId\":\"([^\"]*)\".*' '$1'\nend\n\n"
	      "complete -c berth -f\n",
	      stdout);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		fish_option(o, "");
	fish_names(cli_verbs, "__fish_use_subcommand");
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		char condition[160];

		if (!v->subs)
			continue;
		snprintf(
			condition, sizeof(condition),
			"__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from start "
			"stop destroy info ls",
			v->name);
		fish_names(v->subs, condition);
	}
	each_verb(cli_verbs, "", fish_verb);
	return 0;
}

/* ── the list for the test ──────────────────────────────────────────────────────────────────── */

static void list_verb(const struct cli_verb *v, const char *path)
{
	printf("%s\n", path);
	for (size_t i = 0; v->options && v->options[i]; i++)
		for (const struct cli_opt *o = v->options[i]; o->name; o++)
			printf("%s --%s\n", path, o->name);
}

static int options(void)
{
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		printf(" --%s\n", o->name);
	each_verb(cli_verbs, "", list_verb);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*fn)(void);
	} kinds[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {"options", options}};

	if (argc == 3 && !strcmp(argv[1], "man"))
		return man(argv[2]);
	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			return kinds[i].fn();
	fputs("usage: cli-gen man TEMPLATE | bash | zsh | fish | options\n", stderr);
	return 2;
}
