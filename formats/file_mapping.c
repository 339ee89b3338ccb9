#include "formats/file_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NEIGHBOURS = 2 << 20 /* at most so many bytes are read around a touched page */
};

static int map_descriptor(int descriptor, const char *path, size_t least, file_mapping *mapping,
                          file_error *error) {
    struct stat status;
    if (fstat(descriptor, &status))
        return file_fail(error, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return file_fail(error, "%s is not a regular file", path);
    if (status.st_size < (off_t)least) /* an empty file cannot be mapped */
        return file_fail(error, "%s: the file is truncated: %lld bytes", path,
                         (long long)status.st_size);
    void *const bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return file_fail(error, "%s cannot be mapped: %s", path, strerror(errno));
    *mapping = (file_mapping){bytes, (size_t)status.st_size};
    return 0;
}

int file_map(const char *path, size_t least, file_mapping *mapping, file_error *error) {
    *mapping = (file_mapping){NULL, 0};
    if (path[0] == '\0')
        return file_fail(error, "the name of the input file is empty");
    /* O_NONBLOCK: a pipe without a writer must not block the program before it is refused. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return file_fail(error, "%s: %s", path, strerror(errno));
    const int result = map_descriptor(descriptor, path, least, mapping, error);
    close(descriptor);
    return result;
}

void file_unmap(file_mapping *mapping) {
    if (mapping->bytes)
        munmap(mapping->bytes, mapping->size);
    *mapping = (file_mapping){NULL, 0};
}

void file_release_pages(const void *floor, const void *bytes, size_t size) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t lowest = (uintptr_t)floor;
    uintptr_t begin = (uintptr_t)bytes;
    begin = begin - lowest > NEIGHBOURS ? begin - NEIGHBOURS : lowest;
    begin = begin / page * page;
    const uintptr_t end = ((uintptr_t)bytes + size) / page * page;
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}
