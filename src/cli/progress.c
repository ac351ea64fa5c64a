/* SPDX-License-Identifier: MIT */
/*
 * One line on the terminal that says what a deploy is doing. Nothing is written unless stderr is a
 * terminal; with -v the output of an install goes to stderr as it comes, terminal or not.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"
#include "cli/cli.h"

#define REDRAW_NS (100 * NS_PER_MS)

static struct {
	bool drawn;
	char phase[16];
	int64_t begun_at, drawn_at;
} line;

void progress_clear(void)
{
	static const char erase[] = "\r\033[K";

	if (!line.drawn)
		return;
	line.drawn = false;
	if (write_full(2, erase, sizeof(erase) - 1) < 0)
		return; /* the terminal is gone; there is nobody to tell */
}

static const char *phase_words(const char *phase)
{
	static const char *const words[][2] = {
		{"hash", "reading the artifact"},
		{"upload", "uploading"},
		{"install", "installing dependencies"},
		{"launch", "launching"},
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(words[i][0], phase))
			return words[i][1];
	return phase;
}

static void draw(const struct berth_progress *p)
{
	char text[120], done[24], total[24];
	int n;

	if (p->total)
		n = snprintf(text, sizeof(text), "\r\033[Kberth: %s %s of %s",
			     phase_words(p->phase), show_bytes(p->done, done),
			     show_bytes(p->total, total));
	else if (p->done)
		n = snprintf(text, sizeof(text), "\r\033[Kberth: %s %s", phase_words(p->phase),
			     show_bytes(p->done, done));
	else
		n = snprintf(text, sizeof(text), "\r\033[Kberth: %s", phase_words(p->phase));
	line.drawn = true;
	if (n > 0 && write_full(2, text, MIN_OF((size_t)n, sizeof(text) - 1)) < 0)
		line.drawn = false;
}

void progress_show(void *arg, const struct berth_progress *p)
{
	int64_t now;

	(void)arg;
	if (cli.quiet)
		return;
	if (p->text && p->text_len) {
		if (cli.verbose) {
			progress_clear();
			fwrite(p->text, 1, p->text_len, stderr);
		}
		return;
	}
	if (cli.verbose && strcmp(line.phase, p->phase) != 0 && !isatty(2))
		fprintf(stderr, "berth: %s: %s\n", cli.what, phase_words(p->phase));
	now = now_mono_ns();
	if (!line.begun_at)
		line.begun_at = now;
	if (strcmp(line.phase, p->phase) != 0)
		line.drawn_at = 0;
	snprintf(line.phase, sizeof(line.phase), "%s", p->phase);
	/* What is over in a moment would only flicker. */
	if (!strcmp(p->phase, "launch")) {
		progress_clear();
		return;
	}
	if (!strcmp(p->phase, "hash") && now - line.begun_at < REDRAW_NS)
		return;
	if (now - line.drawn_at < REDRAW_NS || !isatty(2))
		return;
	line.drawn_at = now;
	draw(p);
}
