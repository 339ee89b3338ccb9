/* Allocation tags of the calling thread. Each text is stored once, for the life of the process. So
 * a block can name its tag after the thread that pushed it has ended. */
#include <string.h>

#include "api/base/base.h"

#define TAG_DEPTH 32
#define TAG_BUCKETS 256
#define TAG_LIMIT 65536

typedef struct tag_text {
    struct tag_text *next;
    char text[TDM_MEMORY_TAG_BYTES];
} tag_text;

static struct {
    pthread_mutex_t lock;
    tag_text *buckets[TAG_BUCKETS];
    int count;
} tags = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    const char *names[TAG_DEPTH];
    int depth;
} stack;

static unsigned bucket_of(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return (hash ^ (hash >> 16)) % TAG_BUCKETS;
}

/* Returns the single copy of the text; NULL if host memory or the tag limit is exhausted. */
static const char *intern(const char *text) {
    tag_text **const bucket = &tags.buckets[bucket_of(text)];
    pthread_mutex_lock(&tags.lock);
    tag_text *found = *bucket;
    while (found && strcmp(found->text, text) != 0)
        found = found->next;
    if (!found && tags.count < TAG_LIMIT && (found = tdm_host_calloc(1, sizeof *found))) {
        memcpy(found->text, text, strlen(text) + 1);
        found->next = *bucket;
        *bucket = found;
        tags.count++;
    }
    pthread_mutex_unlock(&tags.lock);
    return found ? found->text : NULL;
}

tdm_status tdm_memory_tag_push(const char *tag) {
    if (!tag)
        return tdm_fail(TDM_BAD_ARGUMENT, "memory_tag_push: tag is NULL");
    if (strlen(tag) >= TDM_MEMORY_TAG_BYTES)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "memory_tag_push: the tag has %zu bytes, at most %d are allowed",
                        strlen(tag), TDM_MEMORY_TAG_BYTES - 1);
    if (stack.depth == TAG_DEPTH)
        return tdm_fail(TDM_BAD_STATE, "memory_tag_push: %d tags are already open", TAG_DEPTH);
    const char *const kept = intern(tag);
    if (!kept)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "memory_tag_push: no memory for the tag %s", tag);
    stack.names[stack.depth++] = kept;
    return TDM_OK;
}

tdm_status tdm_memory_tag_pop(void) {
    if (stack.depth == 0)
        return tdm_fail(TDM_BAD_STATE, "memory_tag_pop: no tag is open");
    stack.depth--;
    return TDM_OK;
}

const char *tdm_memory_tag(void) {
    return stack.depth ? stack.names[stack.depth - 1] : NULL;
}
