#include "formats/checkpoint/quantize_index.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/file_mapping.h"
#include "formats/json_file.h"
#include "formats/safetensors.h"

static const char map_key[] = "weight_map";

struct quantize_index {
    cJSON *json; /* owns the names */
    const char **shards;
    size_t shard_count;
    quantize_place *places;
    size_t count;
};

static int ends_in(const char *name, const char *suffix) {
    const size_t length = strlen(name);
    const size_t tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

int quantize_is_index(const char *path) {
    return ends_in(path, ".index.json");
}

/* ---- shards ---- */

static int compare_texts(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

/* Names are told of as they are. */
static int has_control(const char *name) {
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127)
            return 1;
    return 0;
}

/* A plain name, so that the file is in the folder of the index, be it as a link. */
static int check_shard(const cJSON *item, file_error *error) {
    const file_name tensor = file_printable(item->string);
    if (!cJSON_IsString(item))
        return file_fail(error, "the shard of tensor \"%s\" is no text", tensor.text);
    const char *const name = item->valuestring;
    if (strchr(name, '/') || has_control(name) || !ends_in(name, ".safetensors"))
        return file_fail(error,
                         "tensor \"%s\" is to be in \"%s\", which is no safetensors file in the "
                         "folder of the index",
                         tensor.text, file_printable(name).text);
    return 0;
}

/* Every name once. */
static int list_shards(quantize_index *index, const cJSON *map, file_error *error) {
    const cJSON *item;
    size_t all = 0;
    cJSON_ArrayForEach(item, map) {
        if (check_shard(item, error))
            return -1;
        index->shards[all++] = item->valuestring;
    }
    qsort(index->shards, all, sizeof *index->shards, compare_texts);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || strcmp(index->shards[i], index->shards[index->shard_count - 1]) != 0)
            index->shards[index->shard_count++] = index->shards[i];
    return 0;
}

static size_t find_shard(const quantize_index *index, const char *name) {
    const char *const *const found =
        bsearch(&name, index->shards, index->shard_count, sizeof *index->shards, compare_texts);
    return (size_t)(found - index->shards);
}

/* ---- tensors ---- */

static int compare_places(const void *left, const void *right) {
    const quantize_place *const a = left;
    const quantize_place *const b = right;
    return strcmp(a->tensor, b->tensor);
}

static int list_places(quantize_index *index, const cJSON *map, file_error *error) {
    const cJSON *item;
    cJSON_ArrayForEach(item, map) index->places[index->count++] =
        (quantize_place){item->string, find_shard(index, item->valuestring)};
    qsort(index->places, index->count, sizeof *index->places, compare_places);
    for (size_t i = 1; i < index->count; i++)
        if (!strcmp(index->places[i - 1].tensor, index->places[i].tensor))
            return file_fail(error, "tensor \"%s\" stands twice in the index",
                             file_printable(index->places[i].tensor).text);
    return 0;
}

/* ---- the index ---- */

static int take_map(quantize_index *index, file_error *error) {
    const cJSON *map = NULL;
    const cJSON *item;
    size_t count = 0;
    cJSON_ArrayForEach(item, index->json) {
        if (strcmp(item->string, map_key) != 0)
            continue;
        if (map)
            return file_fail(error, "\"%s\" stands twice in the index", map_key);
        map = item;
    }
    if (!cJSON_IsObject(map) || !map->child)
        return file_fail(error, "the index has no %s with a tensor", map_key);
    cJSON_ArrayForEach(item, map) count++;
    index->shards = calloc(count, sizeof *index->shards);
    index->places = calloc(count, sizeof *index->places);
    if (!index->shards || !index->places)
        return file_fail(error, "out of memory for %zu tensors", count);
    return list_shards(index, map, error) || list_places(index, map, error) ? -1 : 0;
}

static int parse(quantize_index *index, const char *text, size_t size, file_error *error) {
    enum {
        MAX_DEPTH = 16
    };
    if (size > SAFETENSORS_MAX_HEADER)
        return file_fail(error, "the index of %zu bytes is above the limit of %d", size,
                         SAFETENSORS_MAX_HEADER);
    index->json = json_object_parse("the index", text, size, MAX_DEPTH, error);
    return index->json ? take_map(index, error) : -1;
}

int quantize_index_open(const char *path, quantize_index **index, file_error *error) {
    file_mapping mapping;
    file_error inner;
    *index = NULL;
    if (file_map(path, 2, &mapping, error))
        return -1;
    quantize_index *const made = calloc(1, sizeof *made);
    const int result = made ? parse(made, mapping.bytes, mapping.size, &inner)
                            : file_fail(&inner, "out of memory");
    file_unmap(&mapping);
    if (result != 0) {
        quantize_index_close(made);
        return file_fail(error, "%s: %s", path, inner.text);
    }
    *index = made;
    return 0;
}

void quantize_index_close(quantize_index *index) {
    if (!index)
        return;
    cJSON_Delete(index->json);
    free(index->shards);
    free(index->places);
    free(index);
}

size_t quantize_index_shards(const quantize_index *index) {
    return index->shard_count;
}

const char *quantize_index_shard(const quantize_index *index, size_t shard) {
    return index->shards[shard];
}

size_t quantize_index_count(const quantize_index *index) {
    return index->count;
}

const quantize_place *quantize_index_find(const quantize_index *index, const char *tensor) {
    const quantize_place key = {.tensor = tensor};
    return bsearch(&key, index->places, index->count, sizeof *index->places, compare_places);
}
