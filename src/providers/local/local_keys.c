/* SPDX-License-Identifier: MIT */
/*
 * Keys of a local sandbox's spec: read, checked, compared. Pure but for local_keys_exist().
 *
 * Invariant: every kept value is canonical and has no control characters, so that a record is lines
 * of key=value, and meaning the same is being the same.
 */
#include "providers/local/local_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/strv.h"
#include "wire/box.h"

/* As many as stage takes, in ro= and rw= together. */
#define PATHS_MAX 16
/* Inner ids, /proc and so on are the kernel's; more is nobody's limit. */
#define PIDS_MAX (4 << 20)

/* ── canonical forms: owned by caller; NULL with errno EINVAL (not of the form) or ENOMEM ────── */

static char *invalid(void)
{
	errno = EINVAL;
	return NULL;
}

static char *one_of(const char *v, const char *const *known)
{
	for (; *known; known++) {
		if (strcmp(v, *known) == 0)
			return mem_strdup(v);
	}
	return invalid();
}

static char *canon_isolation(const char *v)
{
	return one_of(v, (const char *const[]){"bwrap", "none", NULL});
}

static char *canon_net(const char *v)
{
	return one_of(v, (const char *const[]){"none", "egress", "public", "host", NULL});
}

static char *canon_uids(const char *v)
{
	return one_of(v, (const char *const[]){"range", "single", NULL});
}

static char *canon_size(const char *v)
{
	uint64_t n;

	if (parse_size(v, &n) < 0 || n == 0 || n > INT64_MAX)
		return invalid();
	return mem_printf("%llu", (unsigned long long)n);
}

static char *canon_count(const char *v)
{
	uint64_t n;

	if (parse_uint(v, 1, PIDS_MAX, &n) < 0)
		return invalid();
	return mem_printf("%llu", (unsigned long long)n);
}

static char *canon_cpus(const char *v)
{
	char text[32];
	uint64_t n;
	size_t len;

	if (parse_milli(v, &n) < 0 || n == 0 || n > 1000000)
		return invalid();
	len = (size_t)snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)(n / 1000),
			       (unsigned)(n % 1000));
	while (text[len - 1] == '0')
		text[--len] = '\0';
	if (text[len - 1] == '.')
		text[--len] = '\0';
	return mem_strdup(text);
}

static char *canon_duration(const char *v)
{
	int64_t ms;

	if (parse_duration_ms(v, &ms) < 0 || ms <= 0)
		return invalid();
	return mem_printf("%lldms", (long long)ms);
}

static char *canon_path(const char *v)
{
	char *path;

	if (*v != '/' || strlen(v) >= PATH_BUF_MAX)
		return invalid();
	path = path_normalize(v);
	if (path && strcmp(path, "/") == 0) {
		free(path); /* the whole of the host is what nobody means */
		return invalid();
	}
	return path;
}

static char *canon_dir(const char *v)
{
	return *v ? path_normalize(v) : invalid();
}

bool local_key_part(const char **at, char *buf, size_t cap)
{
	size_t n;

	if (!*at || !**at)
		return false;
	n = strcspn(*at, ",");
	snprintf(buf, cap, "%.*s", (int)n, *at);
	*at += n + ((*at)[n] == ',');
	return true;
}

static char *join(const struct strv *v)
{
	auto(strbuf) struct strbuf b = STRBUF_INIT(SMALL_FILE_MAX);

	for (size_t i = 0; i < v->len; i++) {
		if (i == 0 || strcmp(v->items[i], v->items[i - 1]) != 0)
			strbuf_addf(&b, "%s%s", i ? "," : "", v->items[i]);
	}
	errno = ENOMEM;
	return strbuf_detach(&b, NULL);
}

/* Parts that are each read by one(), sorted, none twice. */
static char *canon_list(const char *v, char *(*one)(const char *part), size_t max)
{
	auto(strv) struct strv parts = STRV_INIT(max);
	size_t n = strlen(v);
	char part[PATH_BUF_MAX];
	int rc = 0;

	if (n == 0 || v[n - 1] == ',' || *v == ',' || strstr(v, ",,"))
		return invalid();
	while (rc == 0 && local_key_part(&v, part, sizeof(part))) {
		char *canon = one(part);

		if (!canon)
			return NULL;
		rc = strv_take(&parts, canon);
	}
	if (rc == BERTH_E_TOO_LARGE)
		return invalid();
	strv_sort(&parts);
	errno = ENOMEM;
	return rc == 0 ? join(&parts) : NULL;
}

static char *canon_paths(const char *v)
{
	return canon_list(v, canon_path, PATHS_MAX);
}

static bool read_port(const char *v, struct local_port_want *ret)
{
	const char *colon = strchr(v, ':');
	int64_t host = 0, port;
	char text[8];

	if (colon && (size_t)(colon - v) >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", colon ? (int)(colon - v) : 0, v);
	if ((colon && parse_int(text, 1, 65535, &host) < 0) ||
	    parse_int(colon ? colon + 1 : v, 1, 65535, &port) < 0)
		return false;
	*ret = (struct local_port_want){(unsigned)host, (unsigned)port};
	return true;
}

/* "PORT" or "HOSTPORT:PORT" without leading zeros. */
static char *canon_port(const char *v)
{
	struct local_port_want p;

	if (!read_port(v, &p))
		return invalid();
	return p.host ? mem_printf("%u:%u", p.host, p.port) : mem_printf("%u", p.port);
}

static char *canon_ports(const char *v)
{
	struct local_port_want p[LOCAL_PORTS_MAX];
	char *list = canon_list(v, canon_port, LOCAL_PORTS_MAX);
	struct local_keys k = {.value[KEY_PORTS] = list};
	size_t n = local_keys_ports(&k, p);

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (p[i].port != p[j].port && (!p[i].host || p[i].host != p[j].host))
				continue;
			free(list); /* one port, two places; or one place for two ports */
			return invalid();
		}
	}
	return list;
}

/* ── the table ──────────────────────────────────────────────────────────────────────────── */

static const struct {
	const char *key;
	unsigned in;
	const char *dflt;
	char *(*canon)(const char *value);
	const char *want;
} rules[KEY_COUNT] = {
#define LOCAL_KEY_RULE_(id, key, in, dflt, canon, want, help) \
	[KEY_##id] = {key, in, dflt, canon, want},
	LOCAL_KEYS(LOCAL_KEY_RULE_)
#undef LOCAL_KEY_RULE_
};

const struct berth_provider_key local_provider_keys[] = {
#define LOCAL_KEY_HELP_(id, key, in, dflt, canon, want, help) {key, help, true},
	LOCAL_KEYS(LOCAL_KEY_HELP_)
#undef LOCAL_KEY_HELP_
		{NULL, NULL, false},
};

enum local_key local_key_find(const char *key)
{
	for (int i = 0; i < KEY_COUNT; i++) {
		if (strcmp(rules[i].key, key) == 0)
			return (enum local_key)i;
	}
	return KEY_COUNT;
}

const char *local_key_name(enum local_key key)
{
	return rules[key].key;
}

const char *local_key_value(const struct local_keys *k, enum local_key key)
{
	return k->value[key] ? k->value[key] : rules[key].dflt;
}

static bool has_control(const char *v)
{
	for (; *v; v++) {
		if ((unsigned char)*v < 0x20 || *v == 0x7f)
			return true;
	}
	return false;
}

int local_keys_take(struct local_keys *k, const char *key, const char *value,
		    struct berth_error *err)
{
	enum local_key i = local_key_find(key);
	char *canon;

	if (i == KEY_COUNT)
		return 0;
	if (has_control(value))
		return berth_fail(err, BERTH_E_INVALID, "%s=%s: a control character in the value",
				  key, value);
	canon = rules[i].canon(value);
	if (!canon)
		return errno == EINVAL ? berth_fail(err, BERTH_E_INVALID, "%s=%s: %s", key, value,
						    rules[i].want)
				       : berth_fail_nomem(err);
	free(k->value[i]);
	k->value[i] = canon;
	return 0;
}

void local_keys_done(struct local_keys *k)
{
	for (int i = 0; i < KEY_COUNT; i++)
		free(k->value[i]);
	*k = (struct local_keys){0};
}

/* ── together ───────────────────────────────────────────────────────────────────────────── */

static unsigned bit_of(const char *isolation)
{
	return strcmp(isolation, "none") == 0 ? IN_NONE : IN_BWRAP;
}

int local_keys_fit(const struct local_keys *k, const char *isolation, struct berth_error *err)
{
	const char *name = k->value[KEY_ISOLATION] ? k->value[KEY_ISOLATION] : isolation;

	for (int i = 0; i < KEY_COUNT; i++) {
		if (!k->value[i] || rules[i].in & bit_of(name))
			continue;
		if (i == KEY_DIR)
			return berth_fail(err, BERTH_E_INVALID,
					  "dir=%s: only isolation=none has it: with bwrap berth's "
					  "files are out of the sandbox's reach",
					  k->value[i]);
		return berth_fail(err, BERTH_E_INVALID, "%s=%s: isolation=%s has no such key",
				  rules[i].key, k->value[i], name);
	}
	return 0;
}

int local_keys_compare(const struct local_keys *want, const struct local_keys *have,
		       const char *sandbox, struct berth_error *err)
{
	const char *isolation = have->value[KEY_ISOLATION];
	unsigned bit = bit_of(isolation);

	for (int i = 0; i < KEY_COUNT; i++) {
		const char *there = have->value[i];

		if (!want->value[i])
			continue;
		if (!there && bit == IN_BWRAP)
			there = rules[i].dflt;
		if (!there && i == KEY_DIR && bit == IN_NONE)
			there = "berth";
		if (there && strcmp(there, want->value[i]) == 0)
			continue;
		if (!(rules[i].in & bit) && i == KEY_DIR)
			return local_keys_fit(want, isolation, err);
		if (there)
			return berth_fail(err, BERTH_E_CONFLICT,
					  "sandbox %s exists with %s=%s, not %s", sandbox,
					  rules[i].key, there, want->value[i]);
		return berth_fail(err, BERTH_E_CONFLICT,
				  "sandbox %s exists without %s=, not with %s=%s", sandbox,
				  rules[i].key, rules[i].key, want->value[i]);
	}
	return 0;
}

static int must_exist(enum local_key key, const char *path, bool dir, struct berth_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return berth_fail(err, BERTH_E_INVALID, "%s=%s: %s", rules[key].key, path,
				  berth_errno_text(errno));
	if (dir && !S_ISDIR(st.st_mode))
		return berth_fail(err, BERTH_E_INVALID, "%s=%s: it is no directory", rules[key].key,
				  path);
	return 0;
}

int local_keys_exist(const struct local_keys *k, struct berth_error *err)
{
	static const enum local_key lists[] = {KEY_RO, KEY_RW};
	char part[PATH_BUF_MAX];
	int rc = 0;

	if (k->value[KEY_ROOTFS])
		rc = must_exist(KEY_ROOTFS, k->value[KEY_ROOTFS], true, err);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const char *at = k->value[lists[i]];

		while (rc == 0 && local_key_part(&at, part, sizeof(part))) {
			if (box_path_is_own(part))
				return berth_fail(err, BERTH_E_INVALID,
						  "%s=%s: that place is the sandbox's own",
						  rules[lists[i]].key, part);
			rc = must_exist(lists[i], part, false, err);
		}
	}
	return rc;
}

int64_t local_key_number(const struct local_keys *k, enum local_key key)
{
	const char *v = k->value[key];
	uint64_t n = 0;
	int64_t ms = 0;

	if (!v)
		return 0;
	if (rules[key].canon == canon_duration)
		return parse_duration_ms(v, &ms) == 0 ? ms : 0;
	if (rules[key].canon == canon_cpus)
		return parse_milli(v, &n) == 0 ? (int64_t)n : 0;
	return parse_uint(v, 0, INT64_MAX, &n) == 0 ? (int64_t)n : 0;
}

size_t local_keys_ports(const struct local_keys *k, struct local_port_want *ret)
{
	const char *at = k->value[KEY_PORTS];
	char part[16];
	size_t n = 0;

	while (n < LOCAL_PORTS_MAX && local_key_part(&at, part, sizeof(part))) {
		if (read_port(part, &ret[n]))
			n++;
	}
	return n;
}
