/* What the context tells the host allocator: hooks must not change while a context exists. */
#ifndef TANDEM_API_BASE_HOST_MEMORY_H
#define TANDEM_API_BASE_HOST_MEMORY_H

#include "api/backend.h"

/* Count a context in (+1) or out (-1). */
void tdm_host_context_count(int change);

#endif
