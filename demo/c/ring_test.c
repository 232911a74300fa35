#include "ring.h"

#include <stdio.h>
#include <string.h>

static int failures;

static void check(const char *put, const char *want)
{
	struct ring r = { .total = 0 };
	char got[RING_SIZE];
	size_t n;

	ring_put(&r, put, strlen(put));
	n = ring_get(&r, got);
	if (n != strlen(want) || memcmp(got, want, n) != 0) {
		printf("put \"%s\": got \"%.*s\", want \"%s\"\n", put, (int)n, got, want);
		failures++;
	}
}

int main(void)
{
	check("", "");
	check("abc", "abc");
	check("abcdefgh", "abcdefgh");
	check("abcdefghij", "cdefghij");
	puts(failures ? "ring_test: FAILED" : "ring_test: 4 checks passed");
	return failures != 0;
}
