/* SPDX-License-Identifier: MIT */
/* Keys of a local sandbox's spec, and the command line that isolation=bwrap makes of them. */
#include "localtest.h"
#include "torture.h"
#include "providers/local/local_bwrap.h"

static struct local_keys k;
static struct berth_error err;

static int take(const char *key, const char *value)
{
	return local_keys_take(&k, key, value, &err);
}

/* What a value is kept as; NULL: it is refused, with key, value and what is wanted. */
static const char *kept(const char *key, const char *value)
{
	char pair[512];
	int rc;

	local_keys_done(&k);
	rc = take(key, value);
	if (rc == 0)
		return k.value[local_key_find(key)];
	ASSERT_EQ(rc, BERTH_E_INVALID);
	snprintf(pair, sizeof(pair), "%s=%s: ", key, value);
	ASSERT_EQ(strncmp(err.message, pair, strlen(pair)), 0);
	ASSERT_GT(strlen(err.message), strlen(pair));
	return NULL;
}

TEST(values_have_one_form)
{
	static const struct {
		const char *key, *value, *kept;
	} rows[] = {
		{"isolation", "bwrap", "bwrap"},
		{"isolation", "none", "none"},
		{"isolation", "Bwrap", NULL},
		{"isolation", "", NULL},
		{"net", "none", "none"},
		{"net", "egress", "egress"},
		{"net", "public", "public"},
		{"net", "host", "host"},
		{"net", "bridge", NULL},
		{"uids", "range", "range"},
		{"uids", "single", "single"},
		{"uids", "0", NULL},
		{"memory", "1G", "1073741824"},
		{"memory", "1024M", "1073741824"},
		{"memory", "1073741824", "1073741824"},
		{"memory", "1.5k", "1536"},
		{"memory", "0", NULL},
		{"memory", "0.1", NULL},
		{"memory", "-1", NULL},
		{"memory", "1T", NULL},
		{"memory", "99999999999999999999", NULL},
		{"disk", "10G", "10737418240"},
		{"disk", "", NULL},
		{"pids", "100", "100"},
		{"pids", "0100", "100"},
		{"pids", "0", NULL},
		{"pids", "1.5", NULL},
		{"pids", "99999999", NULL},
		{"cpus", "2", "2"},
		{"cpus", "2.0", "2"},
		{"cpus", "0.50", "0.5"},
		{"cpus", "1.125", "1.125"},
		{"cpus", "10", "10"},
		{"cpus", "0", NULL},
		{"cpus", "0.0", NULL},
		{"cpus", "two", NULL},
		{"idle", "30m", "1800000ms"},
		{"idle", "0.5h", "1800000ms"},
		{"idle", "1800", "1800000ms"},
		{"idle", "0", NULL},
		{"idle", "-1s", NULL},
		{"expires", "2h", "7200000ms"},
		{"expires", "soon", NULL},
		{"ports", "4111", "4111"},
		{"ports", "8080,4111,8080", "4111,8080"},
		{"ports", "0080:0090", "80:90"},
		{"ports", "1:2,3:4", "1:2,3:4"},
		{"ports", "80:1,80:2", NULL}, /* one place for two ports */
		{"ports", "1:80,2:80", NULL}, /* two places for one port */
		{"ports", "80,1:80", NULL},
		{"ports", "0", NULL},
		{"ports", "65536", NULL},
		{"ports", "0:80", NULL},
		{"ports", "1:2:3", NULL},
		{"ports", "1,", NULL},
		{"ports", ",1", NULL},
		{"ports", "1,,2", NULL},
		{"ports", "", NULL},
		{"ports", "123456789:1", NULL},
		{"rootfs", "/srv//image/./a/..", "/srv/image"},
		{"rootfs", "image", NULL},
		{"rootfs", "/", NULL},
		{"rootfs", "/a/..", NULL},
		{"ro", "/b,/a/,/b", "/a,/b"},
		{"ro", "/a,b", NULL},
		{"rw", "/data", "/data"},
		{"rw", "", NULL},
		{"dir", "a/../b", "b"},
		{"dir", "/srv/x/", "/srv/x"},
		{"dir", "", NULL},
		{"memory", "1G\nuid_base=0", NULL},
		{"ro", "/a\nid=x", NULL},
		{"dir", "a\tb", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *v;

		if (strchr(rows[i].value, '\n') || strchr(rows[i].value, '\t')) {
			ASSERT_EQ(take(rows[i].key, rows[i].value), BERTH_E_INVALID);
			continue;
		}
		v = kept(rows[i].key, rows[i].value);
		if (!rows[i].kept && v)
			FAIL("%s=%s is kept as %s", rows[i].key, rows[i].value, v);
		if (rows[i].kept && (!v || strcmp(v, rows[i].kept) != 0))
			FAIL("%s=%s is kept as %s, not %s", rows[i].key, rows[i].value,
			     v ? v : err.message, rows[i].kept);
		/* What is kept means itself. */
		if (v) {
			auto_free char *again = strdup(v);

			ASSERT_STREQ(kept(rows[i].key, again), rows[i].kept);
		}
	}
	local_keys_done(&k);
	ASSERT_EQ(take("nokey", "x"), 0);
}

TEST(every_key_is_in_help_and_refuses_nonsense)
{
	size_t n = 0;

	for (const struct berth_provider_key *p = local_provider_keys; p->key; p++, n++) {
		ASSERT_EQ((size_t)local_key_find(p->key), n);
		ASSERT_STREQ(local_key_name((enum local_key)n), p->key);
		ASSERT(p->creation);
		ASSERT_GT(strlen(p->help), 10u);
		ASSERT_EQ(take(p->key, "\x01"), BERTH_E_INVALID);
		ASSERT_CONTAINS(err.message, p->key);
	}
	ASSERT_EQ(n, (size_t)KEY_COUNT);
	ASSERT_EQ(local_key_find("nokey"), KEY_COUNT);
}

TEST(which_keys_an_isolation_has)
{
	static const char *const walled[][2] = {
		{"net", "none"}, {"uids", "range"}, {"memory", "1"}, {"pids", "1"}, {"cpus", "1"},
		{"disk", "1"},   {"rootfs", "/a"},  {"ro", "/a"},    {"rw", "/a"}};
	static const char *const both[][2] = {{"ports", "1"}, {"idle", "1"}, {"expires", "1"}};

	for (size_t i = 0; i < ARRAY_LEN(walled); i++) {
		ASSERT_NOT_NULL(kept(walled[i][0], walled[i][1]));
		ASSERT_EQ(local_keys_fit(&k, "bwrap", &err), 0);
		ASSERT_EQ(local_keys_fit(&k, "none", &err), BERTH_E_INVALID);
		ASSERT_CONTAINS(err.message, walled[i][0]);
		ASSERT_CONTAINS(err.message, "isolation=none");
		ASSERT_EQ(take("isolation", "none"), 0);
		ASSERT_EQ(local_keys_fit(&k, "bwrap", &err), BERTH_E_INVALID);
	}
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		ASSERT_NOT_NULL(kept(both[i][0], both[i][1]));
		ASSERT_EQ(local_keys_fit(&k, "bwrap", &err), 0);
		ASSERT_EQ(local_keys_fit(&k, "none", &err), 0);
	}
	ASSERT_NOT_NULL(kept("dir", "x"));
	ASSERT_EQ(local_keys_fit(&k, "none", &err), 0);
	ASSERT_EQ(local_keys_fit(&k, "bwrap", &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "dir=x");
	local_keys_done(&k);
}

/* Compares key=value with a record of @have, "key=value" words. */
static int compared(const char *have, const char *key, const char *value)
{
	struct local_keys there = {0};
	auto_free char *text = strdup(have);
	char *word, *save = NULL;
	int rc;

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '=');

		*eq = '\0';
		ASSERT_EQ(local_keys_take(&there, word, eq + 1, NULL), 0);
	}
	local_keys_done(&k);
	ASSERT_EQ(take(key, value), 0);
	rc = local_keys_compare(&k, &there, "local:x", &err);
	local_keys_done(&there);
	return rc;
}

TEST(what_differs_is_a_conflict_that_names_it)
{
	/* As this version records them, and as one that knew only two keys did. */
	ASSERT_EQ(compared("isolation=bwrap memory=1G", "memory", "1073741824"), 0);
	ASSERT_EQ(compared("isolation=bwrap net=egress", "net", "egress"), 0);
	ASSERT_EQ(compared("isolation=bwrap", "net", "egress"), 0);
	ASSERT_EQ(compared("isolation=bwrap", "uids", "range"), 0);
	ASSERT_EQ(compared("isolation=none", "isolation", "none"), 0);
	ASSERT_EQ(compared("isolation=none", "dir", "berth"), 0);
	ASSERT_EQ(compared("isolation=none dir=a", "dir", "./a"), 0);
	ASSERT_EQ(compared("isolation=bwrap", "net", "none"), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "sandbox local:x exists with net=egress, not none");
	ASSERT_EQ(compared("isolation=bwrap memory=1G", "memory", "2G"), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "sandbox local:x exists with memory=1073741824, not 2147483648");
	ASSERT_EQ(compared("isolation=bwrap", "memory", "2G"), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message,
		     "sandbox local:x exists without memory=, not with memory=2147483648");
	ASSERT_EQ(compared("isolation=none", "isolation", "bwrap"), BERTH_E_CONFLICT);
	ASSERT_STREQ(err.message, "sandbox local:x exists with isolation=none, not bwrap");
	ASSERT_EQ(compared("isolation=none", "net", "egress"), BERTH_E_CONFLICT);
	ASSERT_EQ(compared("isolation=none", "dir", "other"), BERTH_E_CONFLICT);
	ASSERT_EQ(compared("isolation=none", "idle", "1h"), BERTH_E_CONFLICT);
	ASSERT_EQ(compared("isolation=bwrap", "dir", "other"), BERTH_E_INVALID);
	local_keys_done(&k);
	/* Nothing wanted: never one. */
	ASSERT_EQ(local_keys_compare(&k, &(struct local_keys){{(char *)"bwrap"}}, "x", &err), 0);
}

TEST(paths_must_be_there)
{
	ASSERT_EQ(close(ASSERT_OK(open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600))), 0);
	ASSERT_NOT_NULL(kept("ro", "/usr,/etc/passwd"));
	ASSERT_EQ(local_keys_exist(&k, &err), 0);
	ASSERT_NOT_NULL(kept("rw", "/usr,/no/such"));
	ASSERT_EQ(local_keys_exist(&k, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "rw=/no/such");
	/* There, but the sandbox's own: what is below /proc, what holds /run/berth. */
	for (size_t i = 0; i < 3; i++) {
		static const char *const own[] = {"/proc/self", "/run", "/etc"};

		ASSERT_NOT_NULL(kept("rw", own[i]));
		ASSERT_EQ(local_keys_exist(&k, &err), BERTH_E_INVALID);
		ASSERT_CONTAINS(err.message, "sandbox's own");
	}
	ASSERT_NOT_NULL(kept("rootfs", "/etc/passwd"));
	ASSERT_EQ(local_keys_exist(&k, &err), BERTH_E_INVALID);
	ASSERT_CONTAINS(err.message, "no directory");
	ASSERT_NOT_NULL(kept("rootfs", "/usr"));
	ASSERT_EQ(local_keys_exist(&k, &err), 0);
	local_keys_done(&k);
}

/* ── stage ──────────────────────────────────────────────────────────────────────────────── */

static const char *line_of(struct local *l, const struct local_tools *t,
			   const struct local_ports *ports)
{
	auto(strv) struct strv v = STRV_INIT(512);
	static char text[4096];
	size_t n = 0;

	ASSERT_EQ(local_stage_argv(l, t, "AGENT", ports, &v), 0);
	for (size_t i = 0; i < v.len; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", v.items[i]);
	local_keys_done(&l->record.keys);
	return text;
}

static struct local box(const char *words)
{
	struct local l = {.name = (char *)"box", .record = {.id = "sbx_1"}};
	auto_free char *text = strdup(words);
	char *word, *save = NULL;

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '=');

		*eq = '\0';
		ASSERT_EQ(local_keys_take(&l.record.keys, word, eq + 1, NULL), 0);
	}
	return l;
}

TEST(the_command_line_of_stage)
{
	struct local_tools root = {.bwrap = (char *)"BWRAP"};
	struct local_tools user = {.bwrap = (char *)"BWRAP",
				   .slirp = (char *)"SLIRP",
				   .newuidmap = (char *)"NU",
				   .newgidmap = (char *)"NG",
				   .systemd_run = (char *)"RUN"};
	struct local_ports none = LOCAL_PORTS_INIT;
	struct local_ports two = {.p = {{4111, 1, 100}, {8, 8, -1}, {80, 2, 101}}, .n = 3};
	struct local l = box("isolation=bwrap net=none");

	l.record.uid_base = l.record.gid_base = 1879048192;
	ASSERT_STREQ(line_of(&l, &root, &none),
		     "AGENT stage --bwrap BWRAP --agent AGENT --hostname box --ready 3 --lock 5 "
		     "--ids range "
		     "--base 1879048192 --gbase 1879048192 --net none --groups berth-sbx_1");
	l = box("isolation=bwrap memory=1M pids=7 cpus=1.5 rootfs=/r ro=/a,/b rw=/c idle=1s "
		"ports=4111,80");
	l.record.uid_base = 100000;
	l.record.gid_base = 200000;
	l.record.expires_ms = 99;
	ASSERT_STREQ(line_of(&l, &user, &two),
		     "RUN --user --scope --quiet --collect -p Delegate=yes -- "
		     "AGENT stage --bwrap BWRAP --agent AGENT --hostname box --ready 3 --lock 5 "
		     "--ids range "
		     "--base 100000 --gbase 200000 --newuidmap NU --newgidmap NG --net egress "
		     "--slirp SLIRP --net-ready 4 --rootfs /r --ro /a --ro /b --rw /c "
		     "--groups berth-sbx_1 --memory 1048576 --pids 7 --cpus-milli 1500 "
		     "--port 4111=6 --port 80=8 --idle-ms 1000 --expires-ms 99");
	two.n = 0; /* no fds of ours */
	l = box("isolation=bwrap net=host uids=single");
	ASSERT_STREQ(line_of(&l, &root, &none), "AGENT stage --bwrap BWRAP --agent AGENT "
						"--hostname box --ready 3 --lock 5 --ids single "
						"--net host --groups berth-sbx_1");
}

static int take_them_all(void *arg)
{
	static const char *const pairs[][2] = {
		{"isolation", "bwrap"}, {"net", "none"},  {"uids", "range"}, {"memory", "1G"},
		{"pids", "0100"},       {"cpus", "1.50"}, {"rootfs", "/r/"}, {"ro", "/a,/b"},
		{"rw", "/c"},           {"idle", "30m"},  {"expires", "2h"}, {"ports", "1:4111,80"},
	};
	struct local_keys keys = {0};
	int rc = 0;

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(pairs) && rc == 0; i++)
		rc = local_keys_take(&keys, pairs[i][0], pairs[i][1], &err);
	if (rc == 0)
		ASSERT_STREQ(keys.value[local_key_find("cpus")], "1.5");
	else
		ASSERT_EQ(rc, BERTH_E_NOMEM);
	local_keys_done(&keys);
	return rc;
}

TEST(keys_survive_every_missing_allocation)
{
	torture(take_them_all, NULL);
}

TEST(who_needs_a_scope)
{
	/* root, limits, own groups, manager */
	ASSERT_EQ(local_scope_decide(true, true, false, false), SCOPE_NOT_NEEDED);
	ASSERT_EQ(local_scope_decide(false, false, false, false), SCOPE_NOT_NEEDED);
	ASSERT_EQ(local_scope_decide(false, true, true, false), SCOPE_NOT_NEEDED);
	ASSERT_EQ(local_scope_decide(false, true, false, true), SCOPE_SYSTEMD);
	ASSERT_EQ(local_scope_decide(false, true, false, false), SCOPE_NONE);
}

TEST_MAIN()
