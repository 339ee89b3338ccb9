/* Reads and writes the files of the program cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend_opencl/cache/program_cache_internal.h"

#define FORMAT_VERSION 1u

static const char magic[8] = {'T', 'D', 'M', 'P', 'R', 'O', 'G', '\n'};

/* Fields are in the host's byte order. A file of the other byte order has a wrong `format`. */
typedef struct file_header {
    char magic[sizeof magic];
    uint32_t format;
    uint32_t header_bytes;
    tdm_program_key key;
    uint64_t payload_bytes;
    uint8_t checksum[SHA256_DIGEST_LENGTH];
} file_header;

/* ---- keys ------------------------------------------------------------------------------------ */

void tdm_program_key_begin(tdm_program_key_builder *builder) {
    SHA256Init(&builder->state);
}

void tdm_program_key_add(tdm_program_key_builder *builder, const void *item, size_t bytes) {
    const uint64_t length = bytes;
    SHA256Update(&builder->state, (const uint8_t *)&length, sizeof length);
    SHA256Update(&builder->state, item, bytes);
}

void tdm_program_key_add_text(tdm_program_key_builder *builder, const char *text) {
    tdm_program_key_add(builder, text, strlen(text));
}

tdm_program_key tdm_program_key_end(tdm_program_key_builder *builder) {
    tdm_program_key key;
    SHA256Final(key.bytes, &builder->state);
    return key;
}

static void checksum_of(const unsigned char *payload, size_t bytes,
                        uint8_t checksum[SHA256_DIGEST_LENGTH]) {
    SHA2_CTX state;
    SHA256Init(&state);
    SHA256Update(&state, payload, bytes);
    SHA256Final(checksum, &state);
}

static void file_name(const tdm_program_key *key, char name[CACHE_NAME_BYTES]) {
    for (size_t i = 0; i < sizeof key->bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
    memcpy(name + 2 * sizeof key->bytes, CACHE_SUFFIX, sizeof CACHE_SUFFIX);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The fault of a file that may be good. The file is not used now, but it is not deleted. */
static const char not_now[] = "it cannot be read at the moment";

/* Reads exactly `bytes` bytes. Returns NULL, or the fault. */
static const char *read_all(int file, void *target, size_t bytes) {
    unsigned char *next = target;
    while (bytes > 0) {
        const ssize_t got = read(file, next, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? not_now : "its size is wrong";
        next += got;
        bytes -= (size_t)got;
    }
    return NULL;
}

/* Reads and checks an open file. Returns NULL and sets the payload, or returns the fault. */
static const char *read_file(int file, const tdm_program_key *key, uint64_t limit,
                             unsigned char **payload, size_t *bytes) {
    struct stat status;
    file_header header;
    if (fstat(file, &status) != 0)
        return not_now;
    if (!S_ISREG(status.st_mode))
        return "it is not a regular file";
    if (!tdm_program_cache_is_private(&status))
        return "it belongs to another user, or others may write to it";
    if ((uint64_t)status.st_size < sizeof header ||
        (uint64_t)status.st_size - sizeof header > limit)
        return "its size is wrong";
    const char *fault = read_all(file, &header, sizeof header);
    if (fault)
        return fault;
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.format != FORMAT_VERSION ||
        header.header_bytes != sizeof header)
        return "its header is wrong";
    if (memcmp(&header.key, key, sizeof *key) != 0)
        return "its key belongs to another program";
    const uint64_t size = (uint64_t)status.st_size - sizeof header;
    if (header.payload_bytes != size || size == 0)
        return "its size is wrong";
    unsigned char *const data = tdm_host_alloc((size_t)size);
    uint8_t checksum[SHA256_DIGEST_LENGTH];
    fault = data ? read_all(file, data, (size_t)size) : not_now;
    if (fault) {
        tdm_host_free(data);
        return fault;
    }
    checksum_of(data, (size_t)size, checksum);
    if (memcmp(checksum, header.checksum, sizeof checksum) != 0) {
        tdm_host_free(data);
        return "its checksum is wrong";
    }
    *payload = data;
    *bytes = (size_t)size;
    return NULL;
}

/*
 * Returns the fault of a file that was not opened. A link, a socket and a file without permission
 * are faulty files. A lack of memory or descriptors says nothing about the file.
 */
static const char *open_fault(int error) {
    return error == ELOOP || error == ENXIO || error == EACCES ? "it cannot be opened" : not_now;
}

bool tdm_program_cache_load(tdm_program_cache *cache, const tdm_program_key *key,
                            unsigned char **payload, size_t *bytes) {
    char name[CACHE_NAME_BYTES];
    file_name(key, name);
    return tdm_program_cache_load_file(cache, name, key, payload, bytes);
}

bool tdm_program_cache_load_file(tdm_program_cache *cache, const char *name,
                                 const tdm_program_key *key, unsigned char **payload,
                                 size_t *bytes) {
    // O_NONBLOCK: opening a pipe in the file's place must not block.
    const int file = openat(cache->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
        return false;
    const char *bad = file < 0 ? open_fault(errno) : NULL;
    if (file >= 0) {
        bad = read_file(file, key, cache->limit, payload, bytes);
        if (!bad)
            futimens(file, NULL); // mark as used now, so that it is evicted last
        close(file);
    }
    if (bad == not_now) {
        tdm_log(TDM_LOG_WARNING, "cache", "%s/%s is not used: %s", cache->path, name, bad);
        return false;
    }
    if (bad) {
        tdm_log(TDM_LOG_WARNING, "cache", "%s/%s is deleted: %s", cache->path, name, bad);
        unlinkat(cache->directory, name, 0);
        return false;
    }
    tdm_log(TDM_LOG_DEBUG, "cache", "%s/%s: %zu bytes read", cache->path, name, *bytes);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_all(int file, const void *source, size_t bytes) {
    const unsigned char *next = source;
    while (bytes > 0) {
        const ssize_t put = write(file, next, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        next += put;
        bytes -= (size_t)put;
    }
    return true;
}

/*
 * Creates a new file with a unique name. The process id and a counter make the name unique. O_EXCL
 * checks that the file did not exist.
 */
static int create_temporary(const tdm_program_cache *cache, char *name, size_t name_bytes) {
    static atomic_uint counter;
    snprintf(name, name_bytes, CACHE_TEMPORARY "%ld-%u", (long)getpid(),
             atomic_fetch_add(&counter, 1u));
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int file = openat(cache->directory, name, flags, 0600);
    if (file >= 0 || errno != EEXIST)
        return file;
    // An earlier process with the same id crashed and left the file behind.
    unlinkat(cache->directory, name, 0);
    return openat(cache->directory, name, flags, 0600);
}

static bool write_file(const tdm_program_cache *cache, const char *name, const file_header *header,
                       const unsigned char *payload, size_t bytes) {
    char temporary[64];
    const int file = create_temporary(cache, temporary, sizeof temporary);
    if (file < 0)
        return false;
    const bool written = write_all(file, header, sizeof *header) &&
                         write_all(file, payload, bytes) && fsync(file) == 0;
    const int write_error = errno;
    const bool closed = close(file) == 0;
    if (written && closed && renameat(cache->directory, temporary, cache->directory, name) == 0)
        return true;
    const int error = written ? errno : write_error;
    unlinkat(cache->directory, temporary, 0);
    errno = error;
    return false;
}

bool tdm_program_cache_store(tdm_program_cache *cache, const tdm_program_key *key,
                             const unsigned char *payload, size_t bytes) {
    char name[CACHE_NAME_BYTES];
    file_name(key, name);
    if (bytes == 0 || bytes > cache->limit || cache->limit - bytes < sizeof(file_header)) {
        tdm_log(TDM_LOG_INFO, "cache", "%s/%s: %zu bytes exceed the limit of %llu", cache->path,
                name, bytes, (unsigned long long)cache->limit);
        return false;
    }
    if (!tdm_program_cache_store_file(cache, name, key, payload, bytes))
        return false;
    tdm_program_cache_trim(cache, cache->limit);
    return true;
}

bool tdm_program_cache_store_file(tdm_program_cache *cache, const char *name,
                                  const tdm_program_key *key, const unsigned char *payload,
                                  size_t bytes) {
    file_header header;
    memset(&header, 0, sizeof header);
    memcpy(header.magic, magic, sizeof magic);
    header.format = FORMAT_VERSION;
    header.header_bytes = sizeof header;
    header.key = *key;
    header.payload_bytes = bytes;
    checksum_of(payload, bytes, header.checksum);
    if (!write_file(cache, name, &header, payload, bytes)) {
        tdm_log(TDM_LOG_WARNING, "cache", "%s/%s cannot be written: %s", cache->path, name,
                strerror(errno));
        return false;
    }
    tdm_log(TDM_LOG_DEBUG, "cache", "%s/%s: %zu bytes written", cache->path, name, bytes);
    return true;
}

void tdm_program_cache_remove(tdm_program_cache *cache, const tdm_program_key *key) {
    char name[CACHE_NAME_BYTES];
    file_name(key, name);
    unlinkat(cache->directory, name, 0);
}
