#include "ring.h"

void ring_put(struct ring *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->bytes[r->total++ % RING_SIZE] = p[i];
}

size_t ring_get(const struct ring *r, char *out)
{
	size_t kept = r->total < RING_SIZE ? r->total : RING_SIZE;

	for (size_t i = 0; i < kept; i++)
		out[i] = r->bytes[(r->total - kept + i) % RING_SIZE];
	return kept;
}
