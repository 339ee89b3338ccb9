/* Declarations that the two files of the program cache share. */
#ifndef TANDEM_BACKEND_OPENCL_CACHE_PROGRAM_CACHE_INTERNAL_H
#define TANDEM_BACKEND_OPENCL_CACHE_PROGRAM_CACHE_INTERNAL_H

#include <sys/stat.h>

#include "backend_opencl/cache/program_cache.h"

#define CACHE_SUFFIX ".tdmprog"
#define CACHE_TEMPORARY ".tandem-new-"
/* Hexadecimal key, suffix, terminating zero. */
#define CACHE_NAME_BYTES (2 * sizeof(tdm_program_key) + sizeof CACHE_SUFFIX)

struct tdm_program_cache {
    int directory;
    uint64_t limit;
    char *path; /* for messages */
};

/* True if the file belongs to this user and nobody else can write to it. */
bool tdm_program_cache_is_private(const struct stat *file);

#endif
