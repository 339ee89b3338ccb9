/*
 * Compiled programs on disk: a directory of one file per program, named after its key. This code
 * calls no driver.
 *
 * The directory is TANDEM_CACHE_DIR ("off" disables the cache), else XDG_CACHE_HOME/tandem, else
 * HOME/.cache/tandem. A program with raised privileges ignores all of them. The directory is
 * created with mode 0700. A directory of another owner, or that others may write to, is not used.
 *
 * A file is a header (magic, format, key, payload size, SHA-256 of the payload) and the payload. A
 * writer creates it under a temporary name, syncs and renames it. Readers therefore never see half
 * a file, and writers may compete. A file with a wrong header or checksum counts as absent and is
 * deleted, and so is one that is not a regular file of this user. A file that cannot be read for
 * lack of memory or descriptors counts as absent and stays.
 *
 * Loading a file updates its modification time. When the files exceed the limit (256 MiB, or
 * TANDEM_CACHE_LIMIT bytes), the least recently used are deleted. A failure here only causes a log
 * message (topic "cache"): the program is compiled again.
 *
 * Drivers with a cache of their own, or with untrustworthy binaries, get no cache.
 * TANDEM_CACHE_FORCE=1 gives them one all the same, for tests.
 */
#ifndef TANDEM_BACKEND_OPENCL_CACHE_PROGRAM_CACHE_H
#define TANDEM_BACKEND_OPENCL_CACHE_PROGRAM_CACHE_H

#include <sha2.h>

#include "api/backend.h"

typedef struct tdm_program_key {
    uint8_t bytes[SHA256_DIGEST_LENGTH];
} tdm_program_key;

/*
 * A key is the hash of a sequence of items. Their lengths are hashed too, so that "a","bc" and
 * "ab","c" differ.
 */
typedef struct tdm_program_key_builder {
    SHA2_CTX state;
} tdm_program_key_builder;

void tdm_program_key_begin(tdm_program_key_builder *builder);
void tdm_program_key_add(tdm_program_key_builder *builder, const void *item, size_t bytes);
void tdm_program_key_add_text(tdm_program_key_builder *builder, const char *text);
tdm_program_key tdm_program_key_end(tdm_program_key_builder *builder);

typedef struct tdm_program_cache tdm_program_cache;

/*
 * Returns the directory that the environment selects, or NULL for none. Release it with
 * tdm_host_free.
 */
char *tdm_program_cache_path(void);

/*
 * Opens the directory; missing directories of the path are created. Returns NULL if it cannot be
 * used (with a log message) or if host memory is short. Thread-safe.
 */
tdm_program_cache *tdm_program_cache_open(const char *path);
/* NULL is accepted. */
void tdm_program_cache_close(tdm_program_cache *cache);

/*
 * Loads the payload of a key; release it with tdm_host_free. Returns false if there is none.
 * Thread-safe.
 */
bool tdm_program_cache_load(tdm_program_cache *cache, const tdm_program_key *key,
                            unsigned char **payload, size_t *bytes);
/*
 * Stores a payload. Returns false on failure; the key's previous file, if any, then remains.
 * Thread-safe.
 */
bool tdm_program_cache_store(tdm_program_cache *cache, const tdm_program_key *key,
                             const unsigned char *payload, size_t bytes);
/*
 * These functions load and store a file whose name the caller chooses. Such a file does not count
 * as a program and is not evicted.
 */
bool tdm_program_cache_load_file(tdm_program_cache *cache, const char *name,
                                 const tdm_program_key *key, unsigned char **payload,
                                 size_t *bytes);
bool tdm_program_cache_store_file(tdm_program_cache *cache, const char *name,
                                  const tdm_program_key *key, const unsigned char *payload,
                                  size_t bytes);
/* Deletes the file of a key, if there is one. Thread-safe. */
void tdm_program_cache_remove(tdm_program_cache *cache, const tdm_program_key *key);

/* ---- the directory as a whole, for tools ----------------------------------------------------- */

typedef struct tdm_program_cache_totals {
    uint64_t files;
    uint64_t bytes;
    uint64_t limit;
} tdm_program_cache_totals;

bool tdm_program_cache_measure(tdm_program_cache *cache, tdm_program_cache_totals *totals);
/*
 * Deletes the least recently used programs until at most `bytes` are left, and the temporary files
 * of crashed writers.
 */
void tdm_program_cache_trim(tdm_program_cache *cache, uint64_t bytes);

#endif
