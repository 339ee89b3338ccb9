/* Structs that grow. A program built with another version of the library passes a shorter or longer
 * struct than this version has. Its first member gives the size. */
#include <string.h>

#include "api/base/base.h"

/* No version will add more bytes than this to a struct. A larger size is an error, and the struct
 * is not read. */
#define MAX_GROWTH 4096

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static tdm_status check_size(const char *operation, const char *name, size_t size, size_t known) {
    if (size >= sizeof size && size % _Alignof(size_t) == 0 && size <= known + MAX_GROWTH)
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT,
                    "%s: struct_size of %s is %zu, but this library's struct has %zu bytes",
                    operation, name, size, known);
}

const void *tdm_struct_read(const char *operation, const char *name, const void *given,
                            size_t known, void *room) {
    const size_t size = size_of(given);
    if (size == known)
        return given;
    if (check_size(operation, name, size, known) != TDM_OK)
        return NULL;
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)given)[i] != 0) {
            tdm_set_detail(
                "%s: byte %zu of %s is not 0, but this library's struct has only %zu bytes",
                operation, i, name, known);
            return NULL;
        }
    memset(room, 0, known);
    memcpy(room, given, size < known ? size : known);
    memcpy(room, &known, sizeof known);
    return room;
}

tdm_status tdm_struct_check_output(const char *operation, const char *name, const void *target,
                                   size_t known) {
    return check_size(operation, name, size_of(target), known);
}

void tdm_struct_write(const void *made, size_t known, void *target) {
    const size_t size = size_of(target), first = sizeof size;
    const size_t written = size < known ? size : known;
    memcpy((char *)target + first, (const char *)made + first, written - first);
    memset((char *)target + written, 0, size - written);
}
