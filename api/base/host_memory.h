/* Internal interface of the host allocator. The hooks must not change while a context exists. */
#ifndef TANDEM_API_BASE_HOST_MEMORY_H
#define TANDEM_API_BASE_HOST_MEMORY_H

#include "api/backend.h"

/* Counts contexts: +1 when one is created, -1 when one is destroyed. */
void tdm_host_context_count(int change);

#endif
