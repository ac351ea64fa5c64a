/* SPDX-License-Identifier: MIT */
/* Installs: what needs the whole artifact, and that each ingredient of a layer's key changes it. */
#include "tap.h"

#include "core/install.h"
#include "core/package_json.h"

static const struct {
	const char *name, *text;
	bool whole;
} packages[] = {
	{"empty", "", false},
	{"empty object", "{}", false},
	{"plain",
	 "{\"name\":\"x\",\"version\":\"1.0.0\",\"main\":\"./index.js\",\"type\":\"module\"}",
	 false},
	{"dependencies",
	 "{\"dependencies\":{\"ms\":\"^2.1.3\",\"a\":\"1 || 2\",\"g\":\"github:a/b#semver:^5\"}}",
	 false},
	{"harmless scripts",
	 "{\"scripts\":{\"start\":\"node .\",\"test\":\"./run install\",\"build\":\"tsc\"}}",
	 false},
	{"numbers and nesting", "{\"a\":[1,-2.5e+3,true,false,null,{\"b\":[]}],\"c\":{}}", false},
	{"install elsewhere", "{\"config\":{\"install\":\"x\"},\"install\":1}", false},
	{"escapes in a text", "{\"description\":\"a \\\"file:\\\" and \\\\ \\u00e9\"}", false},
	{"preinstall", "{\"scripts\":{\"preinstall\":\"x\"}}", true},
	{"install", "{\"scripts\":{\"start\":\"x\",\"install\":\"x\"}}", true},
	{"postinstall", "{ \"scripts\" : {\n \"postinstall\" : \"x\" } }", true},
	{"prepare", "{\"name\":\"x\",\"scripts\":{\"prepare\":\"x\"}}", true},
	{"file dependency", "{\"dependencies\":{\"x\":\"file:./x\"}}", true},
	{"link dependency", "{\"devDependencies\":{\"x\":\"link:../x\"}}", true},
	{"relative dependency", "{\"optionalDependencies\":{\"x\":\"../x\"}}", true},
	{"absolute dependency", "{\"dependencies\":{\"x\":\"/opt/x.tgz\"}}", true},
	{"nested override", "{\"overrides\":{\"a\":{\"b\":\"file:b.tgz\"}}}", true},
	{"workspaces", "{\"workspaces\":[\"packages/*\"]}", true},
	{"hidden key", "{\"scripts\":{\"\\u0069nstall\":\"x\"}}", true},
	{"hidden top key", "{\"\\u0073cripts\":{\"install\":\"x\"}}", true},
	{"hidden value", "{\"dependencies\":{\"x\":\"\\u0066ile:x\"}}", true},
	{"cut off", "{\"name\":\"x\"", true},
	{"cut off text", "{\"name\":\"x", true},
	{"cut off escape", "{\"name\":\"x\\", true},
	{"wrong brackets", "{\"a\":[}", true},
	{"closed twice", "{}}", true},
	{"byte order mark", "\xef\xbb\xbf{}", true},
	{"comment", "{/*\"*/}", true},
};

static void check_package(const char *name, const char *text, bool whole)
{
	/* an exact copy: reading behind the end is seen by the sanitizer */
	size_t n = strlen(text);
	char *copy = malloc(n ? n : 1);

	memcpy(copy, text, n);
	SUBTEST("%s", name)
	CHECK_EQ(package_json_needs_whole(copy, n), whole);
	free(copy);
}

TEST(package_json)
{
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
		check_package(packages[i].name, packages[i].text, packages[i].whole);
}

TEST(package_json_too_deep)
{
	char text[400];

	memset(text, '[', 200);
	memset(text + 200, ']', 200);
	ASSERT_EQ(package_json_needs_whole(text, 400), true);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ASSERT_NOT_NULL(f);
	fputs(text, f);
	fclose(f);
}

static uint8_t facts_buf[1024];

/* Facts of a sandbox; NULL takes the usual value. */
static struct wire_slice facts(const char *machine, const char *libc_id, const char *node)
{
	struct wire_w w;
	char rt[200];
	int n;

	wire_w_init(&w, facts_buf, sizeof(facts_buf));
	wire_w_int(&w, WK_HAVE, 0);
	n = snprintf(rt, sizeof(rt), "node%c%s", 0, node ? node : "/usr/bin/node 1 2.3");
	wire_w_bytes(&w, WK_RUNTIME, rt, (size_t)n);
	wire_w_bytes(&w, WK_RUNTIME, "npm\0", 4);
	wire_w_str(&w, WK_LIBC, libc_id ? libc_id : "/lib/libc.so.6 4 5.6");
	wire_w_str(&w, WK_MACHINE, machine ? machine : "x86_64");
	ASSERT(wire_w_ok(&w));
	return (struct wire_slice){facts_buf, w.len};
}

static void key_of(const char *command, struct wire_slice f, char ret[SHA256_HEX + 1])
{
	struct artifact_options o = {.modules = ARTIFACT_MODULES_AUTO};
	struct berth_error err = BERTH_ERROR_INIT;
	struct artifact *a = NULL;

	if (artifact_load("t", &o, &a, &err) < 0 || install_key(a, command, f, ret, &err) < 0)
		FAIL("%s", err.message);
	artifact_free(a);
}

static void usual(char ret[SHA256_HEX + 1])
{
	key_of(INSTALL_DEFAULT, facts(NULL, NULL, NULL), ret);
}

static void make(void)
{
	ASSERT_OK(mkdir("t", 0755));
	put("t/package.json", "{\"dependencies\":{\"ms\":\"2\"}}");
	put("t/index.js", "1");
}

TEST(facts_are_in_the_key)
{
	char first[SHA256_HEX + 1], k[SHA256_HEX + 1];

	make();
	usual(first);
	usual(k);
	ASSERT_STREQ(k, first);
	ASSERT_EQ(strlen(k), 64);
	key_of(INSTALL_DEFAULT, facts("aarch64", NULL, NULL), k);
	CHECK(strcmp(k, first) != 0);
	key_of(INSTALL_DEFAULT, facts(NULL, "/lib/libc.so.6 4 5.7", NULL), k);
	CHECK(strcmp(k, first) != 0);
	key_of(INSTALL_DEFAULT, facts(NULL, NULL, "/usr/bin/node 1 2.4"), k);
	CHECK(strcmp(k, first) != 0);
	key_of(INSTALL_DEFAULT, facts(NULL, NULL, ""), k);
	CHECK(strcmp(k, first) != 0);
	key_of("npm ci", facts(NULL, NULL, NULL), k);
	CHECK(strcmp(k, first) != 0);
}

static void check_file(const char *path, const char *first)
{
	char k[SHA256_HEX + 1], with[SHA256_HEX + 1];

	SUBTEST("%s", path)
	{
		put(path, "one");
		usual(with);
		CHECK(strcmp(with, first) != 0);
		put(path, "two");
		usual(k);
		CHECK(strcmp(k, first) != 0);
		CHECK(strcmp(k, with) != 0);
		unlink(path);
		usual(k);
		CHECK_STREQ(k, first);
	}
}

TEST(every_lock_file_is_in_the_key)
{
	static const char *const files[] = {
		"t/package-lock.json",
		"t/npm-shrinkwrap.json",
		"t/pnpm-lock.yaml",
		"t/yarn.lock",
		"t/bun.lock",
		"t/bun.lockb",
		"t/.npmrc",
		"t/requirements.txt",
		"t/requirements-dev.txt",
		"t/pyproject.toml",
		"t/uv.lock",
		"t/poetry.lock",
	};
	char first[SHA256_HEX + 1];

	make();
	usual(first);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		check_file(files[i], first);
}

TEST(other_files_are_not)
{
	char first[SHA256_HEX + 1], k[SHA256_HEX + 1];

	make();
	ASSERT_OK(mkdir("t/sub", 0755));
	usual(first);
	put("t/index.js", "2");
	put("t/new.txt", "");
	put("t/sub/package.json", "{}");
	put("t/requirements.txt.bak", "");
	usual(k);
	ASSERT_STREQ(k, first);
	put("t/package.json", "{\"dependencies\":{\"ms\":\"3\"}}");
	usual(k);
	ASSERT_STRNE(k, first);
}

static void check_whole(const char *what, const char *command)
{
	char a[SHA256_HEX + 1], b[SHA256_HEX + 1];

	SUBTEST("%s", what)
	{
		put("t/index.js", "1");
		key_of(command, facts(NULL, NULL, NULL), a);
		put("t/index.js", "2");
		key_of(command, facts(NULL, NULL, NULL), b);
		CHECK(strcmp(a, b) != 0);
	}
}

TEST(whole_artifact_where_more_is_looked_at)
{
	make();
	check_whole("another command", "make deps");
	put("t/binding.gyp", "{}");
	check_whole("binding.gyp", INSTALL_DEFAULT);
	unlink("t/binding.gyp");
	put("t/package.json", "{\"scripts\":{\"postinstall\":\"node index.js\"}}");
	check_whole("install script", INSTALL_DEFAULT);
	put("t/package.json", "not JSON");
	check_whole("broken package.json", INSTALL_DEFAULT);
	unlink("t/package.json");
	ASSERT_OK(symlink("index.js", "t/package.json"));
	check_whole("package.json is a link", INSTALL_DEFAULT);
}

TEST(message_is_one_line_with_the_end)
{
	static const char colours[] = "a\n\n  b\tc\x1b[31mred\x1b[0m\r\n\x01";
	char out[INSTALL_MESSAGE_MAX], *tail = malloc(9000);

	install_message("exit 1", colours, sizeof(colours) - 1, out, sizeof(out));
	ASSERT_STREQ(out, "exit 1: a b cred");
	install_message("exit 1", "", 0, out, sizeof(out));
	ASSERT_STREQ(out, "exit 1");
	install_message("exit 1", "\n \n", 3, out, sizeof(out));
	ASSERT_STREQ(out, "exit 1");
	memset(tail, 'x', 9000);
	memcpy(tail + 8991, " the end\n", 9);
	install_message("exit 1", tail, 9000, out, sizeof(out));
	ASSERT_EQ(strlen(out), 500);
	ASSERT_STREQ(out + 492, " the end");
	/* a cut falls between characters */
	for (size_t i = 0; i + 1 < 9000; i += 2)
		memcpy(tail + i, "\xc3\xa9", 2);
	install_message("exit 17", tail, 9000, out, sizeof(out));
	ASSERT_EQ((unsigned char)out[9], 0xc3);
	install_message("exit 1", tail, 9000, out, sizeof(out));
	ASSERT_EQ((unsigned char)out[8], 0xc3);
	free(tail);
}

TEST_MAIN()
