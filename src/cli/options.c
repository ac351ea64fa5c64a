/* SPDX-License-Identifier: MIT */
/*
 * Reading the command line against the tables.
 *
 * Options may stand anywhere before `--`: global ones before the verb too. Letters can be put
 * together (-it, -n5). What follows `--` belongs to the command of verbs that have one. Messages
 * show an argument only up to its '=', as what is behind it may be a secret.
 *
 * It does not look at what values mean beyond their form; the verbs and the library do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"

struct cli cli = {.status_fd = -1};

/* Options seen, for OPT_ONCE; more than a command line can reasonably have of them. */
#define SEEN_MAX 16
struct parse {
	const struct cli_opt *seen[SEEN_MAX];
	size_t n_seen;
	const struct cli_verb *table; /* where the next verb word is looked up */
	size_t room;                  /* argc: no list can be longer */
};

/* ── nearest ────────────────────────────────────────────────────────────────────────────────── */

#define WORD_MAX 40

/* Optimal string alignment distance: swapped neighbours count as one. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned d[WORD_MAX + 1][WORD_MAX + 1];

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN_OF(best, d[i - 1][j] + 1);
			best = MIN_OF(best, d[i][j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN_OF(best, d[i - 2][j - 2] + 1);
			d[i][j] = best;
		}
	}
	return d[n][m];
}

void nearest_try(struct nearest *n, const char *candidate)
{
	size_t len = strlen(candidate);
	unsigned allowed = n->len <= 3 ? 1 : n->len <= 7 ? 2 : 3;
	unsigned d = distance(n->word, n->len, candidate, len);

	/* The beginning of a word is meant as that word. */
	if (n->len >= 3 && len > n->len && !strncmp(n->word, candidate, n->len))
		d = MIN_OF(d, 1u);
	if (d <= allowed && (!n->best || d < n->distance)) {
		n->best = candidate;
		n->distance = d;
	}
}

/* ── options ────────────────────────────────────────────────────────────────────────────────── */

static const struct cli_opt *table_find(const struct cli_opt *o, const char *name, size_t len)
{
	for (; o->name; o++)
		if (!strncmp(o->name, name, len) && !o->name[len])
			return o;
	return NULL;
}

const struct cli_opt *cli_option(const struct cli_verb *v, const char *name, size_t len)
{
	const struct cli_opt *o = NULL;

	for (size_t i = 0; v && v->options && v->options[i] && !o; i++)
		o = table_find(v->options[i], name, len);
	return o ? o : table_find(cli_global_options, name, len);
}

static const struct cli_opt *letter_find(const struct cli_verb *v, char c)
{
	for (size_t i = 0; v && v->options && v->options[i]; i++)
		for (const struct cli_opt *o = v->options[i]; o->name; o++)
			if (o->letter == c)
				return o;
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		if (o->letter == c)
			return o;
	return NULL;
}

static int unknown_option(const char *name, size_t len)
{
	struct nearest n = {.word = name, .len = len};
	char hint[64];

	for (size_t i = 0; cli.verb && cli.verb->options && cli.verb->options[i]; i++)
		for (const struct cli_opt *o = cli.verb->options[i]; o->name; o++)
			nearest_try(&n, o->name);
	for (const struct cli_opt *o = cli_global_options; o->name; o++)
		nearest_try(&n, o->name);
	if (n.best)
		snprintf(hint, sizeof(hint), "did you mean --%s?", n.best);
	return cli_usage(n.best ? hint : NULL, "unknown option \"--%.*s\"",
			 (int)MIN_OF(len, (size_t)64), name);
}

static bool is_choice(const char *choices, const char *value)
{
	size_t len = strlen(value);

	for (const char *p = choices; p; p = strchr(p, '|')) {
		if (*p == '|')
			p++;
		if (!strncmp(p, value, len) && (!p[len] || p[len] == '|') && len)
			return true;
	}
	return false;
}

/* A number of the option's kind. 0, -EINVAL, -ERANGE. */
static int number(const struct cli_opt *o, const char *value, int64_t *ret)
{
	uint64_t u = 0;
	int64_t i = 0;
	int r;

	if ((o->flags & OPT_NONE) && !strcmp(value, "none")) {
		*ret = -1;
		return 0;
	}
	switch (o->kind) {
	case OPT_DURATION:
		r = parse_duration_ms(value, &i);
		break;
	case OPT_SIZE:
		r = parse_size(value, &u);
		break;
	case OPT_MILLI:
		r = parse_milli(value, &u);
		break;
	default:
		r = parse_uint(value, 0, INT64_MAX, &u);
		break;
	}
	if (r < 0)
		return r;
	if (u > INT64_MAX)
		return -ERANGE;
	if (o->kind != OPT_DURATION)
		i = (int64_t)u;
	if (i < 0 || (i == 0 && !(o->flags & OPT_ZERO)))
		return -ERANGE;
	*ret = i;
	return 0;
}

static int bad_number(const struct cli_opt *o, const char *value, int why)
{
	static const char *const forms[] = {
		[OPT_DURATION] = "a duration is a number with ms, s, m or h, or seconds: 250ms, "
				 "1.5, 10m",
		[OPT_SIZE] = "a size is a number of bytes, or one with K, M or G: 4096, 16M",
		[OPT_COUNT] = "a whole number is wanted",
		[OPT_MILLI] = "a number such as 2 or 0.5 is wanted",
	};

	if (why == -ERANGE)
		return cli_usage(forms[o->kind], "--%s: \"%.40s\" is out of range", o->name, value);
	return cli_usage(forms[o->kind], "--%s: \"%.40s\" is no %s", o->name, value,
			 o->kind == OPT_DURATION ? "duration"
			 : o->kind == OPT_SIZE   ? "size"
						 : "number");
}

static int list_add(struct parse *p, const struct cli_opt *o, const char *value)
{
	struct opt_list *l = o->value;

	if (!l->items)
		l->items = calloc(p->room, sizeof(*l->items));
	if (!l->items) {
		struct berth_error err;

		berth_fail_nomem(&err);
		return cli_fail(&err);
	}
	l->items[l->n++] = (struct opt_use){o, value};
	return 0;
}

static int check_once(struct parse *p, const struct cli_opt *o)
{
	if (!(o->flags & OPT_ONCE))
		return 0;
	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i] == o)
			return cli_usage(NULL, "--%s is given twice", o->name);
	if (p->n_seen < SEEN_MAX)
		p->seen[p->n_seen++] = o;
	return 0;
}

static int set_option(struct parse *p, const struct cli_opt *o, const char *value)
{
	int r = check_once(p, o);

	if (r)
		return r;
	if (o->choices && !is_choice(o->choices, value)) {
		char hint[80];

		snprintf(hint, sizeof(hint), "it is one of %s", o->choices);
		return cli_usage(hint, "--%s: \"%.40s\" is not known", o->name, value);
	}
	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->value = true;
		return 0;
	case OPT_STRING:
		if (!*value)
			return cli_usage(NULL, "--%s: the value is empty", o->name);
		*(const char **)o->value = value;
		return 0;
	case OPT_LIST:
		return list_add(p, o, value);
	default:
		r = number(o, value, o->value);
		return r < 0 ? bad_number(o, value, r) : 0;
	}
}

/* --name, --name=value, --name value. *i is moved when the next argument is eaten. */
static int long_option(struct parse *p, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	const struct cli_opt *o = cli_option(cli.verb, name, len);

	if (!o)
		return unknown_option(name, len);
	if (o->kind == OPT_FLAG) {
		if (eq)
			return cli_usage(NULL, "--%s takes no value", o->name);
		return set_option(p, o, NULL);
	}
	if (eq)
		return set_option(p, o, eq + 1);
	if (*i + 1 >= argc)
		return cli_usage(NULL, "--%s needs a value (%s)", o->name, o->arg);
	return set_option(p, o, argv[++*i]);
}

/* -it, -e K=V, -eK=V. */
static int short_options(struct parse *p, int argc, char **argv, int *i)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		const struct cli_opt *o = letter_find(cli.verb, *c);
		int r;

		if (!o)
			return cli_usage(NULL, "unknown option \"-%c\"",
					 *c > ' ' && *c < 127 ? *c : '?');
		if (o->kind == OPT_FLAG) {
			r = set_option(p, o, NULL);
			if (r)
				return r;
			continue;
		}
		if (c[1])
			return set_option(p, o, c + 1);
		if (*i + 1 >= argc)
			return cli_usage(NULL, "-%c needs a value (%s)", o->letter, o->arg);
		return set_option(p, o, argv[++*i]);
	}
	return 0;
}

/* ── verbs and arguments ────────────────────────────────────────────────────────────────────── */

static int find_verb(struct parse *p, const char *word)
{
	struct nearest n = {.word = word, .len = strlen(word)};
	char hint[96], buf[80];

	for (const struct cli_verb *v = p->table; v->name; v++) {
		nearest_try(&n, v->name);
		if (strcmp(v->name, word))
			continue;
		snprintf(cli.what + strlen(cli.what), sizeof(cli.what) - strlen(cli.what), "%s%s",
			 *cli.what ? " " : "", v->name);
		cli.verb = v;
		p->table = v->subs;
		return 0;
	}
	if (n.best)
		snprintf(hint, sizeof(hint), "did you mean `berth %s%s%s`?", cli.what,
			 *cli.what ? " " : "", n.best);
	return cli_usage(n.best ? hint : NULL, "unknown verb \"%s\"", cli_shown(word, buf));
}

static int argument(struct parse *p, const char *arg)
{
	if (p->table)
		return find_verb(p, arg);
	cli.args[cli.n_args++] = arg;
	return 0;
}

static int check_arguments(void)
{
	const struct cli_verb *v = cli.verb;
	char buf[80];

	if (cli.n_args > v->max_args)
		return cli_usage(v->flags & VERB_COMMAND ? "the command stands behind --" : NULL,
				 "unexpected argument \"%s\"",
				 cli_shown(cli.args[v->max_args], buf));
	if (cli.n_args < v->min_args)
		return cli_usage(NULL, "no %s given", v->arg_names[cli.n_args]);
	for (size_t i = 0; i < cli.n_args; i++)
		if (!*cli.args[i])
			return cli_usage(NULL, "%s is empty", v->arg_names[i]);
	return 0;
}

/* What a usage error needs to know before the line is understood: where errors are wanted. */
static void look_ahead(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--json"))
			cli.json = true;
		else if (!strcmp(argv[i], "--status-file") && i + 1 < argc)
			cli.status_file = argv[i + 1];
		else if (!strncmp(argv[i], "--status-file=", 14))
			cli.status_file = argv[i] + 14;
	}
}

static int parse_words(struct parse *p, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int r;

		if (!strcmp(argv[i], "--")) {
			if (cli.verb && (cli.verb->flags & VERB_COMMAND)) {
				cli.command = (const char *const *)&argv[i + 1];
				return 0;
			}
			for (i++; i < argc; i++)
				if ((r = argument(p, argv[i])))
					return r;
			return 0;
		}
		if (!strncmp(argv[i], "--", 2))
			r = long_option(p, argc, argv, &i);
		else if (argv[i][0] == '-' && argv[i][1])
			r = short_options(p, argc, argv, &i);
		else
			r = argument(p, argv[i]);
		if (r)
			return r;
	}
	return 0;
}

int cli_parse(int argc, char **argv)
{
	struct parse p = {.table = cli_verbs, .room = (size_t)argc + 1};
	int r;

	cli.args = calloc(p.room, sizeof(*cli.args));
	if (!cli.args) {
		struct berth_error err;

		berth_fail_nomem(&err);
		return cli_fail(&err);
	}
	look_ahead(argc, argv);
	r = parse_words(&p, argc, argv);
	if (r)
		return r;
	cli.json = cli.json_given;
	cli.status_file = cli.status_file_given;
	if (cli.help || cli.version)
		return 0;
	if (!cli.verb)
		return cli_usage("berth help", "no verb given");
	if (p.table)
		return cli_usage(NULL, "no verb given behind \"%s\"", cli.what);
	if (cli.json && (cli.verb->flags & VERB_STREAMS))
		return cli_usage("--status-file FILE gets the state or the error",
				 "--json is refused, as stdout is the worker's");
	return check_arguments();
}
