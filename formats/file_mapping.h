/* A regular file mapped into memory, to be read. */
#ifndef TANDEM_FORMATS_FILE_MAPPING_H
#define TANDEM_FORMATS_FILE_MAPPING_H

#include <stddef.h>

#include "formats/file_error.h"

typedef struct file_mapping {
    void *bytes; /* NULL: nothing is mapped */
    size_t size;
} file_mapping;

/* 0, or -1 with the reason, the path in front of it: not there, no regular file, less than `least` bytes (at least 1). */
int file_map(const char *path, size_t least, file_mapping *mapping, file_error *error);

/* A mapping of nothing is accepted. */
void file_unmap(file_mapping *mapping);

/*
 * Let the pages of the range, but the last if it is touched in part, go from the process's memory. They are read again, from the
 * system's cache or the disk, when they are next touched. Pages before the range go too, back to `floor` at most: a touched page
 * brings its neighbours in. From `floor` on all must be of one private, read-only mapping of a file.
 */
void file_release_pages(const void *floor, const void *bytes, size_t size);

#endif
