/*
 * Compiled programs on disk: a directory of one file per program, named after its key. No driver
 * is needed here.
 *
 * Where: TANDEM_CACHE_DIR ("off" disables the cache), else XDG_CACHE_HOME/tandem, else
 * HOME/.cache/tandem. None of them counts in a program with raised privileges. The directory is
 * created with mode 0700; one of another owner, or that others may write to, is not used at all.
 *
 * A file is a header (magic, format, key, payload size, SHA-256 of the payload) and the payload.
 * It is written aside, synced and renamed, so that a reader never sees half of one and writers
 * may compete. A file that is no plain file of ours, or whose header or checksum does not fit, is
 * deleted and counts as absent. One that cannot be read for want of memory or descriptors counts as
 * absent and stays. A file in use is touched; when the files exceed the limit (256
 * MiB, or TANDEM_CACHE_LIMIT bytes) the ones unused for longest are deleted. Nothing that fails
 * here is more than a log message (topic "cache"): the program is compiled once more.
 *
 * Drivers that cache by themselves, or whose binaries are not to be trusted, get no cache;
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
 * A key is the hash of a sequence of items; their lengths are hashed too, so that "a","bc" and
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

/* The directory by the environment, or NULL: none. tdm_host_free releases it. */
char *tdm_program_cache_path(void);

/*
 * Open the directory, creating what is missing of it; NULL with a log message when it cannot be
 * used. Thread-safe.
 */
tdm_program_cache *tdm_program_cache_open(const char *path);
/* NULL is accepted. */
void tdm_program_cache_close(tdm_program_cache *cache);

/*
 * The payload of a key, to be released with tdm_host_free; false when there is none. Thread-safe.
 */
bool tdm_program_cache_load(tdm_program_cache *cache, const tdm_program_key *key,
                            unsigned char **payload, size_t *bytes);
/*
 * Keep a payload; false when that failed, and the former file of the key, if any, stands.
 * Thread-safe.
 */
bool tdm_program_cache_store(tdm_program_cache *cache, const tdm_program_key *key,
                             const unsigned char *payload, size_t bytes);
/*
 * Load and store a file of the folder that has a name of its own. It does not count among the
 * programs, and is not evicted.
 */
bool tdm_program_cache_load_file(tdm_program_cache *cache, const char *name,
                                 const tdm_program_key *key, unsigned char **payload,
                                 size_t *bytes);
bool tdm_program_cache_store_file(tdm_program_cache *cache, const char *name,
                                  const tdm_program_key *key, const unsigned char *payload,
                                  size_t bytes);
/* Delete the file of a key, if there is one. Thread-safe. */
void tdm_program_cache_remove(tdm_program_cache *cache, const tdm_program_key *key);

/* ---- the directory as a whole, for tools ----------------------------------------------------- */

typedef struct tdm_program_cache_totals {
    uint64_t files;
    uint64_t bytes;
    uint64_t limit;
} tdm_program_cache_totals;

bool tdm_program_cache_measure(tdm_program_cache *cache, tdm_program_cache_totals *totals);
/*
 * Delete the programs unused for longest until at most `bytes` are left, and what crashed writers
 * left behind.
 */
void tdm_program_cache_trim(tdm_program_cache *cache, uint64_t bytes);

#endif
