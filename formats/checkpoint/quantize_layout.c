#include "formats/checkpoint/quantize_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "quant/quant_blocks.h"

/* Numbers that fit a double exactly. 0, or -1. */
static int read_numbers(const cJSON *array, int64_t *numbers, int *count) {
    static const double largest = 9007199254740991.0; /* 2^53 - 1 */
    const cJSON *item;
    *count = 0;
    if (!cJSON_IsArray(array))
        return -1;
    cJSON_ArrayForEach(item, array) {
        if (*count == SAFETENSORS_MAX_RANK || !cJSON_IsNumber(item) ||
            !(item->valuedouble >= 0.0 && item->valuedouble <= largest) ||
            item->valuedouble != floor(item->valuedouble))
            return -1;
        numbers[(*count)++] = (int64_t)item->valuedouble;
    }
    return 0;
}

static quantize_storage storage_of(const char *scheme) {
    if (!strcmp(scheme, "q8_0"))
        return QUANTIZE_Q8_0;
    return !strcmp(scheme, "q4_0") ? QUANTIZE_Q4_0 : QUANTIZE_PLAIN;
}

static int read_layout(const cJSON *json, quantize_layout *layout) {
    int blocks = 0;
    const cJSON *const original = cJSON_GetObjectItemCaseSensitive(json, "original_shape");
    const char *const scheme =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "scheme"));
    const char *const dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "dtype"));
    memset(layout, 0, sizeof *layout);
    if (!scheme || !dtype || strlen(scheme) >= sizeof layout->scheme)
        return -1;
    memcpy(layout->scheme, scheme, strlen(scheme) + 1);
    layout->storage = storage_of(scheme);
    layout->dtype = tdm_dtype_from_name(dtype);
    layout->asymmetric =
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "zero_points")) ? 1 : 0;
    if (layout->dtype != TDM_S8 && layout->dtype != TDM_U8 && layout->dtype != TDM_S4)
        return -1;
    if (read_numbers(cJSON_GetObjectItemCaseSensitive(json, "shape"), layout->shape,
                     &layout->rank) ||
        read_numbers(cJSON_GetObjectItemCaseSensitive(json, "block"), layout->block, &blocks) ||
        blocks != layout->rank)
        return -1;
    return original ? read_numbers(original, layout->original_shape, &layout->original_rank) : 0;
}

int quantize_layout_find(const safetensors_file *file, const char *name, quantize_layout *layout,
                         file_error *error) {
    char *const key = quantize_join(QUANTIZE_KEY_PREFIX, name);
    if (!key)
        return file_fail(error, "out of memory for the metadata of \"%s\"",
                         file_printable(name).text);
    const char *const text = safetensors_metadata(file, key);
    free(key);
    if (!text)
        return 0;
    const char *const version = safetensors_metadata(file, QUANTIZE_VERSION_KEY);
    if (!version || strcmp(version, QUANTIZE_VERSION))
        return file_fail(error, "the metadata \"%s\" is \"%.40s\", not \"%s\"",
                         QUANTIZE_VERSION_KEY, version ? file_printable(version).text : "",
                         QUANTIZE_VERSION);
    cJSON *const json = cJSON_Parse(text);
    const int bad = !json || read_layout(json, layout);
    cJSON_Delete(json);
    return bad ? file_fail(error, "the metadata \"%s%s\" is no description of a quantized tensor",
                           QUANTIZE_KEY_PREFIX, file_printable(name).text)
               : 1;
}

int quantize_layout_blocks(const quantize_layout *layout, const safetensors_tensor *tensor,
                           size_t *blocks, file_error *error) {
    const size_t bytes =
        layout->storage == QUANTIZE_Q8_0 ? TDM_QUANT_Q8_0_BYTES : TDM_QUANT_Q4_0_BYTES;
    const int last = layout->rank - 1;
    uint64_t claimed = 1;
    for (int i = 0; i <= last; i++) {
        const int64_t extent = layout->shape[i] / (i == last ? TDM_QUANT_BLOCK_ELEMENTS : 1);
        if (__builtin_mul_overflow(claimed, (uint64_t)extent, &claimed))
            claimed = UINT64_MAX;
    }
    *blocks = tensor->bytes / bytes;
    if (last < 0 || layout->shape[last] % TDM_QUANT_BLOCK_ELEMENTS != 0 ||
        tensor->dtype != SAFETENSORS_U8 || tensor->bytes % bytes != 0 || claimed != *blocks)
        return file_fail(error, "tensor \"%s\" is not what its metadata says, blocks of %s",
                         file_printable(tensor->name).text, layout->scheme);
    return 0;
}

/* As text: cJSON's own format turns 1e15 into "1e+15". */
static int add_numbers(cJSON *json, const char *key, const int64_t *numbers, int count) {
    cJSON *const array = cJSON_AddArrayToObject(json, key);
    for (int i = 0; i < count; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%lld", (long long)numbers[i]);
        if (!cJSON_AddItemToArray(array, cJSON_CreateRaw(digits)))
            return -1;
    }
    return array ? 0 : -1;
}

char *quantize_layout_text(const quantize_layout *layout) {
    cJSON *const json = cJSON_CreateObject();
    int failed = !cJSON_AddStringToObject(json, "scheme", layout->scheme) ||
                 !cJSON_AddStringToObject(json, "dtype", tdm_dtype_name(layout->dtype)) ||
                 add_numbers(json, "shape", layout->shape, layout->rank) ||
                 add_numbers(json, "block", layout->block, layout->rank);
    if (!failed && layout->asymmetric)
        failed = !cJSON_AddTrueToObject(json, "zero_points");
    if (!failed && layout->original_rank > 0)
        failed = add_numbers(json, "original_shape", layout->original_shape, layout->original_rank);
    char *const text = failed ? NULL : cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

char *quantize_join(const char *first, const char *second) {
    const size_t size = strlen(first) + strlen(second) + 1;
    char *const text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s", first, second);
    return text;
}

char *quantize_layer_name(const char *weight) {
    static const char suffix[] = ".weight";
    const size_t length = strlen(weight);
    const size_t tail = sizeof suffix - 1;
    const int named = length > tail && !strcmp(weight + length - tail, suffix);
    return strndup(weight, named ? length - tail : length);
}
