#include "formats/checkpoint/quantize_index.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/file_mapping.h"
#include "formats/json_file.h"
#include "formats/safetensors.h"
#include "formats/utf8_text.h"

static const char map_key[] = "weight_map";

enum {
    MAX_DEPTH = 16
};

static int ends_in(const char *name, const char *suffix) {
    const size_t length = strlen(name);
    const size_t tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

int quantize_is_index(const char *path) {
    return ends_in(path, ".index.json");
}

static int compare_texts(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

static int compare_items(const void *left, const void *right) {
    const cJSON *const *a = left;
    const cJSON *const *b = right;
    return strcmp((*a)->string, (*b)->string);
}

/*
 * A shard must be a file name without a folder, so that it is in the folder of the index. The file
 * may be a link.
 */
static int check_shard(const cJSON *item, file_error *error) {
    const file_name tensor = file_printable(item->string);
    if (!cJSON_IsString(item))
        return file_fail(error, "the shard of tensor \"%s\" is not a string", tensor.text);
    const char *const name = item->valuestring;
    if (strchr(name, '/') || !utf8_is_plain(name, strlen(name)) || !ends_in(name, ".safetensors"))
        return file_fail(error,
                         "tensor \"%s\" should be in \"%s\", which is not a safetensors file in "
                         "the folder of the index",
                         tensor.text, file_printable(name).text);
    return 0;
}

/* Finds the map, which must occur once: JSON does not define the meaning of duplicate members. */
static const cJSON *find_map(const cJSON *json, file_error *error) {
    const cJSON *map = NULL;
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, json) {
        if (strcmp(item->string, map_key) != 0)
            continue;
        map = item;
        count++;
    }
    if (count == 1 && cJSON_IsObject(map) && map->child)
        return map;
    if (count > 1)
        file_error_set(error, "\"%s\" appears twice in the index", map_key);
    else
        file_error_set(error, "the index has no %s with a tensor", map_key);
    return NULL;
}

static int take_map(quantize_index *index, const cJSON *map, file_error *error) {
    const cJSON *item;
    size_t all = 0;
    cJSON_ArrayForEach(item, map) all++;
    index->items = calloc(all, sizeof *index->items);
    index->shards = calloc(all, sizeof *index->shards);
    if (!index->items || !index->shards)
        return file_fail(error, "out of memory for %zu tensors", all);
    cJSON_ArrayForEach(item, map) {
        if (check_shard(item, error))
            return -1;
        index->shards[index->count] = item->valuestring;
        index->items[index->count++] = item;
    }
    qsort(index->shards, all, sizeof *index->shards, compare_texts);
    qsort(index->items, all, sizeof *index->items, compare_items);
    for (size_t i = 0; i < all; i++) {
        if (i == 0 || strcmp(index->shards[i], index->shards[index->shard_count - 1]) != 0)
            index->shards[index->shard_count++] = index->shards[i];
        if (i > 0 && !strcmp(index->items[i - 1]->string, index->items[i]->string))
            return file_fail(error, "tensor \"%s\" appears twice in the index",
                             file_printable(index->items[i]->string).text);
    }
    return 0;
}

int quantize_index_open(const char *path, quantize_index *index, file_error *error) {
    file_mapping mapping;
    file_error inner;
    if (file_map(path, 2, &mapping, error))
        return -1;
    if (mapping.size > SAFETENSORS_MAX_HEADER)
        file_error_set(&inner, "the index of %zu bytes is above the limit of %d", mapping.size,
                       SAFETENSORS_MAX_HEADER);
    else
        index->json =
            json_object_parse("the index", mapping.bytes, mapping.size, MAX_DEPTH, &inner);
    file_unmap(&mapping);
    const cJSON *const map = index->json ? find_map(index->json, &inner) : NULL;
    return map && take_map(index, map, &inner) == 0 ? 0
                                                    : file_fail(error, "%s: %s", path, inner.text);
}

void quantize_index_close(quantize_index *index) {
    cJSON_Delete(index->json);
    free(index->items);
    free(index->shards);
    memset(index, 0, sizeof *index);
}

const char *quantize_index_shard_of(const quantize_index *index, const char *tensor) {
    const cJSON key = {.string = (char *)(uintptr_t)tensor};
    const cJSON *const key_pointer = &key;
    const cJSON *const *const found =
        bsearch(&key_pointer, index->items, index->count, sizeof *index->items, compare_items);
    return found ? (*found)->valuestring : NULL;
}
