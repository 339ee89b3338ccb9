/* The table of built-in backends, one row each. context.c defines it. */
#ifndef TANDEM_API_DEVICE_BACKENDS_H
#define TANDEM_API_DEVICE_BACKENDS_H

#include "api/backend.h"

typedef struct tdm_backend_row {
    const char *name;
    const tdm_backend *backend; /* NULL: not in this build */
} tdm_backend_row;

extern const tdm_backend_row tdm_backend_rows[];
extern const int tdm_backend_row_count;

#endif
