/* SPDX-License-Identifier: MIT */
/*
 * A manifest. Entries that were read are written again and must be the same bytes; whether the
 * whole is in order and complete is found out a second time, slowly.
 */
#include "wire/manifest.h"

#include <string.h>

#include "fuzz.h"

enum { MANY = 200 };

static bool same(struct wire_slice a, const uint8_t *p, size_t n)
{
	return a.n == n && memcmp(a.p, p, n) == 0;
}

static void check_path(struct wire_slice path)
{
	char copy[MANIFEST_PATH_MAX + 3];

	MUST(path.n >= 1 && path.n <= MANIFEST_PATH_MAX && wire_slice_is_text(path));
	/* "/" + path + "/" has none of these in it. */
	copy[0] = '/';
	memcpy(copy + 1, path.p, path.n);
	copy[path.n + 1] = '/';
	copy[path.n + 2] = '\0';
	MUST(!strstr(copy, "//") && !strstr(copy, "/./") && !strstr(copy, "/../"));
}

static void check_entry(const struct manifest_entry *e)
{
	uint8_t one[64 + 2 * MANIFEST_PATH_MAX];
	size_t n = manifest_canonical(e, one, sizeof(one));

	check_path(e->path);
	MUST(e->type == 'f' || e->type == 'd' || e->type == 'l');
	MUST(e->type == 'f' || (!e->executable && e->size == 0));
	MUST((e->type == 'l') == (e->target.n > 0) && wire_slice_is_text(e->target));
	MUST(n == 6 + e->path.n + (e->type == 'f' ? 40 : e->type == 'l' ? 4 + e->target.n : 0));
	MUST(manifest_canonical(e, one, n - 1) == 0);
}

/* Is the list in strict order, with every directory there? By looking at all pairs. */
static bool good_list(const struct manifest_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint8_t *slash = memrchr(e[i].path.p, '/', e[i].path.n);
		bool found = !slash;

		for (size_t k = 0; k < i; k++) {
			size_t less = e[k].path.n < e[i].path.n ? e[k].path.n : e[i].path.n;
			int c = memcmp(e[k].path.p, e[i].path.p, less);

			if (c > 0 || (c == 0 && e[k].path.n >= e[i].path.n))
				return false;
			found = found || (e[k].type == 'd' && same(e[k].path, e[i].path.p,
								   (size_t)(slash - e[i].path.p)));
		}
		if (!found)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct manifest_entry list[MANY];
	uint8_t *out = fuzz_alloc(size);
	const char *why = NULL;
	size_t pos = 0, n = 0;
	struct wire_w w;
	int r = 0, whole = manifest_check(data, size, &why);

	MUST((whole == 0 && !why) || (whole == -1 && why && *why));
	wire_w_init(&w, out, size);
	while (n < MANY && (r = manifest_next(data, size, &pos, &list[n])) > 0) {
		check_entry(&list[n]);
		manifest_put(&w, &list[n]);
		MUST(w.len == pos);
		n++;
	}
	MUST(wire_w_ok(&w) && memcmp(out, data, pos) == 0);
	if (n < MANY)
		MUST((whole == 0) == (r == 0 && good_list(list, n)));
	free(out);
	return 0;
}
