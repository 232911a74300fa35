#ifndef RING_H
#define RING_H

#include <stddef.h>

/* A ring of the last RING_SIZE bytes that were put into it. */
enum { RING_SIZE = 8 };

struct ring {
	char bytes[RING_SIZE];
	size_t total; /* bytes ever put */
};

void ring_put(struct ring *r, const char *p, size_t n);

/* Copies what is kept, oldest first, to out, which has room for RING_SIZE; returns how much. */
size_t ring_get(const struct ring *r, char *out);

#endif
