/* SPDX-License-Identifier: MIT */
/*
 * Bringing berth-agent into a sandbox whose driver only carries bytes or runs commands.
 *
 * What is asked of the sandbox: sh, uname, mkdir, mv, rm, chmod, and base64 where no file can be
 * put. The agent's place is a directory that belongs to us (0700, checked with test -O), because
 * /tmp may be shared; its name has its content hash, so a new library never runs an old agent. It
 * is run once (it tells its own hash) before it gets that name.
 */
#include "core/bootstrap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "core/agent_blob.h"
#include "core/provider.h"

#define SHELL_TIMEOUT_MS 60000
#define SHELL_OUT_MAX    16384
#define ARGS_MAX         10

/* Runs a script of sh. BERTH_E_UNAVAILABLE when it does not exit with 0; *ret_out (cap bytes,
 * NUL-terminated) may be NULL. */
static int shell(struct berth_sandbox *s, const char *script, const char *const *args,
		 char *ret_out, size_t cap, struct berth_error *err)
{
	const char *argv[ARGS_MAX + 5] = {"sh", "-c", script, "sh"};
	uint8_t errors[512], dropped[512];
	struct berth_execute_io io = {.out = ret_out ? (uint8_t *)ret_out : dropped,
				      .out_cap = ret_out ? cap - 1 : sizeof(dropped),
				      .err = errors,
				      .err_cap = sizeof(errors),
				      .exit_code = -1};
	int rc;

	for (size_t i = 0; args[i]; i++)
		argv[4 + i] = args[i];
	rc = provider_execute(s, argv, &io, SHELL_TIMEOUT_MS, err);
	if (rc < 0)
		return rc;
	if (ret_out)
		ret_out[io.out_len] = '\0';
	if (io.exit_code == 0)
		return 0;
	return berth_fail(
		err, BERTH_E_UNAVAILABLE, "a command of berth failed in the sandbox: %.*s",
		io.err_len ? (int)io.err_len : 9, io.err_len ? (const char *)errors : "no reason");
}

/* "key=value" on a line of its own; owned by caller, NULL when there is none or no memory. */
static char *line_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		if (strncmp(p, key, n) == 0 && p[n] == '=')
			return mem_strndup(p + n + 1, strcspn(p + n + 1, "\r\n"));
	}
	return NULL;
}

static const char home_script[] =
	"h=$HOME; [ -n \"$h\" ] || h=$(getent passwd \"$(id -u)\" 2>/dev/null | cut -d: -f6);"
	"printf 'machine=%s\\nhome=%s\\n' \"$(uname -m)\" \"$h\"";

int bootstrap_home(struct berth_sandbox *s, struct berth_error *err)
{
	char out[SHELL_OUT_MAX];
	auto_free char *machine = NULL, *home = NULL;
	int rc = shell(s, home_script, (const char *const[]){NULL}, out, sizeof(out), err);

	if (rc < 0)
		return rc;
	machine = line_value(out, "machine");
	home = line_value(out, "home");
	if (machine && strlen(machine) < sizeof(s->machine))
		strcpy(s->machine, strcmp(machine, "arm64") == 0 ? "aarch64" : machine);
	if (!home || *home != '/') {
		berth_fail(err, BERTH_E_UNAVAILABLE, "the sandbox %s does not tell its home",
			   s->full);
		berth_error_hint(err, "give an absolute --remote-dir DIR");
		return BERTH_E_UNAVAILABLE;
	}
	free(s->home);
	s->home = TAKE_PTR(home);
	return 0;
}

/* ── files by commands ──────────────────────────────────────────────────────────────────── */

static const char first_script[] =
	"umask 077; mkdir -p -- \"${1%/*}\" && rm -f -- \"$1\" && : >\"$1\" && chmod \"$2\" \"$1\"";
static const char piece_script[] = "printf %s \"$2\" | base64 -d >>\"$1\"";

int bootstrap_write(struct berth_sandbox *s, const char *path, unsigned mode, const void *data,
		    size_t n, struct berth_error *err)
{
	auto_free char *text = mem_alloc(BASE64_LEN(BOOTSTRAP_PIECE) + 1);
	const uint8_t *p = data;
	char octal[16];
	int rc;

	if (!text)
		return berth_fail_nomem(err);
	octal[0] = '0';
	octal[1] = (char)('0' + (mode >> 6 & 7));
	octal[2] = (char)('0' + (mode >> 3 & 7));
	octal[3] = (char)('0' + (mode & 7));
	octal[4] = '\0';
	rc = shell(s, first_script, (const char *const[]){path, octal, NULL}, NULL, 0, err);
	while (rc == 0 && n > 0) {
		size_t piece = MIN_OF(n, (size_t)BOOTSTRAP_PIECE);

		text[base64_encode(p, piece, text)] = '\0';
		rc = shell(s, piece_script, (const char *const[]){path, text, NULL}, NULL, 0, err);
		p += piece;
		n -= piece;
	}
	return rc;
}

/* ── the agent ──────────────────────────────────────────────────────────────────────────── */

/* $1 file name of the agent, $2 its hash, then directories: the first that has it, is ours and can
 * run it. */
static const char find_script[] =
	"f=$1; h=$2; shift 2; for d; do [ -O \"$d\" ] && [ -O \"$d/$f\" ] && "
	"[ \"$(\"$d/$f\" hash 2>/dev/null)\" = \"$h\" ] && "
	"{ printf 'agent=%s\\n' \"$d/$f\"; exit 0; }; done; exit 0";
/* $1 directory: is it ours, or can it be made so? */
static const char dir_script[] =
	"umask 077; mkdir -p -- \"$1\" && [ -O \"$1\" ] && [ ! -L \"$1\" ] && chmod 700 -- \"$1\"";
/* $1 temporary file, $2 name, $3 hash. */
static const char install_script[] =
	"chmod 700 -- \"$1\" && h=$(\"$1\" hash) && [ \"$h\" = \"$3\" ] && "
	"mv -f -- \"$1\" \"$2\" || { r=$?; rm -f -- \"$1\"; "
	"[ -z \"$h\" ] || echo \"the file that arrived is another ($h)\" >&2; exit \"$r\"; }";

/* Where an agent may be: the berth directory first, then what is usually writable. "uid" keeps
 * users of a shared /tmp apart. */
static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};
#define N_PLACES (ARRAY_LEN(places) + 1)

struct candidates {
	char *dir[N_PLACES + 1];
};

static void candidates_done(struct candidates *c)
{
	for (size_t i = 0; i < N_PLACES; i++)
		free(c->dir[i]);
}
BERTH_DEFINE_AUTO(candidates, struct candidates, candidates_done);

static int candidates_fill(struct berth_sandbox *s, struct candidates *c, struct berth_error *err)
{
	char out[64];
	const char *dir = NULL;
	int rc = sandbox_dir(s, &dir, err);

	if (rc == 0)
		rc = shell(s, "id -u", (const char *const[]){NULL}, out, sizeof(out), err);
	if (rc < 0)
		return rc;
	out[strcspn(out, "\r\n")] = '\0';
	c->dir[0] = mem_printf("%s/agent", dir);
	for (size_t i = 1; i < N_PLACES; i++)
		c->dir[i] = mem_printf("%s/.berth-agent-%s", places[i - 1], out);
	for (size_t i = 0; i < N_PLACES; i++) {
		if (!c->dir[i])
			return berth_fail_nomem(err);
	}
	return 0;
}

static int find_agent(struct berth_sandbox *s, const char *file, const char *hash,
		      const struct candidates *c, struct berth_error *err)
{
	const char *args[N_PLACES + 3] = {file, hash};
	char out[SHELL_OUT_MAX];
	int rc;

	for (size_t i = 0; i < N_PLACES; i++)
		args[2 + i] = c->dir[i];
	rc = shell(s, find_script, args, out, sizeof(out), err);
	if (rc == 0)
		s->agent = line_value(out, "agent");
	return rc;
}

static int put_agent(struct berth_sandbox *s, const struct agent_blob *blob, const char *dir,
		     const char *file, struct berth_error *err)
{
	auto_free char *tmp = NULL, *path = NULL;
	char name[12];
	int rc = shell(s, dir_script, (const char *const[]){dir, NULL}, NULL, 0, err);

	if (rc < 0)
		return rc;
	tmp = mem_printf("%s/.tmp-%s", dir, random_name(name, 10));
	path = mem_printf("%s/%s", dir, file);
	if (!tmp || !path)
		return berth_fail_nomem(err);
	if (s->ops->put_file)
		rc = provider_put_file(s, tmp, 0700, blob->data, blob->size, err);
	else
		rc = bootstrap_write(s, tmp, 0700, blob->data, blob->size, err);
	if (rc == 0)
		rc = shell(s, install_script, (const char *const[]){tmp, path, blob->hash, NULL},
			   NULL, 0, err);
	if (rc == 0)
		s->agent = TAKE_PTR(path);
	return rc;
}

static int no_agent_for(struct berth_sandbox *s, struct berth_error *err)
{
	auto(strbuf) struct strbuf known = STRBUF_INIT(128);
	const struct agent_blob *blob;

	for (size_t i = 0; (blob = agent_blob_at(i)); i++)
		strbuf_addf(&known, "%s%s", i ? ", " : "", blob->arch);
	return berth_fail(err, BERTH_E_UNSUPPORTED,
			  "the sandbox %s is a %s machine; this berth has agents for %s", s->full,
			  s->machine[0] ? s->machine : "nameless", known.data);
}

int bootstrap_agent(struct berth_sandbox *s, bool put, struct berth_error *err)
{
	auto(candidates) struct candidates c = {0};
	auto_free char *file = NULL;
	const struct agent_blob *blob;
	struct berth_error last = BERTH_ERROR_INIT;
	int rc = 0;

	if (s->agent)
		return 0;
	if (!s->machine[0])
		rc = bootstrap_home(s, err);
	if (rc < 0)
		return rc;
	blob = agent_blob_get(s->machine);
	if (!blob)
		return no_agent_for(s, err);
	file = mem_printf("berth-agent-%s", blob->hash);
	rc = file ? candidates_fill(s, &c, err) : berth_fail_nomem(err);
	if (rc == 0)
		rc = find_agent(s, file, blob->hash, &c, err);
	if (rc < 0 || s->agent)
		return rc;
	if (!put)
		return berth_fail(err, BERTH_E_UNAVAILABLE,
				  "berth has not been in the sandbox %s yet", s->full);
	for (size_t i = 0; i < N_PLACES && !s->agent; i++) {
		rc = put_agent(s, blob, c.dir[i], file, &last);
		if (rc == BERTH_E_NOMEM)
			break;
	}
	if (s->agent)
		return 0;
	return berth_fail(err, rc, "berth-agent cannot be run in the sandbox %s: %s", s->full,
			  last.message);
}
