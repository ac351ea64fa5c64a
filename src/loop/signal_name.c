/* SPDX-License-Identifier: MIT */
/* Names of signals, from one table and without locale. */
#include "loop/child.h"

#include <string.h>

#include "base/parse.h"

#define RT_FIRST 34 /* SIGRTMIN of the C libraries: they keep 32 and 33 */
#define RT_LAST  64

static const char *const names[] = {
	[SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",
	[SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
	[SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT",
	[SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
	[SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1",
	[SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
	[SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM",
	[SIGTERM] = "SIGTERM", [SIGSTKFLT] = "SIGSTKFLT",
	[SIGCHLD] = "SIGCHLD", [SIGCONT] = "SIGCONT",
	[SIGSTOP] = "SIGSTOP", [SIGTSTP] = "SIGTSTP",
	[SIGTTIN] = "SIGTTIN", [SIGTTOU] = "SIGTTOU",
	[SIGURG] = "SIGURG",   [SIGXCPU] = "SIGXCPU",
	[SIGXFSZ] = "SIGXFSZ", [SIGVTALRM] = "SIGVTALRM",
	[SIGPROF] = "SIGPROF", [SIGWINCH] = "SIGWINCH",
	[SIGIO] = "SIGIO",     [SIGPWR] = "SIGPWR",
	[SIGSYS] = "SIGSYS",   [32] = "SIG32",
	[33] = "SIG33",
};

#define RT(n) "SIGRTMIN+" #n
static const char *const rt_names[RT_LAST - RT_FIRST + 1] = {
	"SIGRTMIN", RT(1),  RT(2),  RT(3),  RT(4),  RT(5),  RT(6),      RT(7),
	RT(8),      RT(9),  RT(10), RT(11), RT(12), RT(13), RT(14),     RT(15),
	RT(16),     RT(17), RT(18), RT(19), RT(20), RT(21), RT(22),     RT(23),
	RT(24),     RT(25), RT(26), RT(27), RT(28), RT(29), "SIGRTMAX",
};

const char *signal_name(int sig)
{
	if (sig >= RT_FIRST && sig <= RT_LAST)
		return rt_names[sig - RT_FIRST];
	return sig > 0 && (size_t)sig < ARRAY_LEN(names) ? names[sig] : NULL;
}

int signal_number(const char *name)
{
	uint64_t number;

	if (parse_uint(name, 1, RT_LAST, &number) == 0)
		return (int)number;
	for (int sig = 1; sig <= RT_LAST; sig++) {
		const char *full = signal_name(sig);

		if (full && (strcmp(full, name) == 0 || strcmp(full + 3, name) == 0))
			return sig;
	}
	return -1;
}
