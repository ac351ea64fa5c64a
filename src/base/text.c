/* SPDX-License-Identifier: MIT */
/*
 * Text that is shown: one line, valid UTF-8, no control bytes, whatever came in. Used for errors
 * and log lines, so it neither allocates nor fails.
 */
#include "base/text.h"

#include <string.h>

#include "base/parse.h"

void text_one_line(char *out, size_t size, const char *in, bool cut)
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	size_t in_len = strlen(in), o = 0, last_fit = 0, i = 0;

	while (i < in_len) {
		size_t n = utf8_sequence(in + i, in_len - i);
		unsigned char c = (unsigned char)in[i];
		bool c1 = n == 2 && c == 0xc2 && (unsigned char)in[i + 1] < 0xa0;

		if (o + (n ? n : 1) >= size) {
			cut = true;
			break;
		}
		if (c == '\n' || c == '\r' || c == '\t')
			out[o++] = ' ';
		else if (n == 0 || c < 0x20 || c == 0x7f || c1)
			out[o++] = '?';
		else
			for (size_t k = 0; k < n; k++)
				out[o++] = in[i + k];
		i += n ? n : 1;
		if (o + sizeof(ellipsis) <= size)
			last_fit = o;
	}
	while (!cut && o > 0 && out[o - 1] == ' ')
		o--;
	out[o] = '\0';
	if (cut)
		memcpy(out + last_fit, ellipsis, sizeof(ellipsis));
}
