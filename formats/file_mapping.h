/* A regular file that is mapped into memory for reading. */
#ifndef TANDEM_FORMATS_FILE_MAPPING_H
#define TANDEM_FORMATS_FILE_MAPPING_H

#include <stddef.h>

#include "formats/file_error.h"

typedef struct file_mapping {
    void *bytes; /* NULL: nothing is mapped */
    size_t size;
} file_mapping;

/*
 * Returns 0, or -1 and the reason, which begins with the path: the file does not exist, is not a
 * regular file, or has less than `least` bytes (at least 1).
 */
int file_map(const char *path, size_t least, file_mapping *mapping, file_error *error);

/* An empty mapping is accepted. */
void file_unmap(file_mapping *mapping);

/*
 * Releases the pages of the range from the process's memory, except a last page that is only partly
 * in it. They are read again, from the system's cache or the disk, when they are next touched.
 * Pages before the range are released too, but none before `floor`, because touching a page also
 * reads its neighbours. The memory from `floor` on must be one private, read-only mapping of a
 * file.
 */
void file_release_pages(const void *floor, const void *bytes, size_t size);

#endif
