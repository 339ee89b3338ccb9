#include "formats/checkpoint/quantize_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/file_mapping.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "quant/schemes.h"

/* ---- layouts ---- */

/*
 * Reads an array of at most SAFETENSORS_MAX_RANK integers from 0 to 2^53 - 1. A double holds these
 * exactly. Returns 0 or -1.
 */
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
    return bad ? file_fail(error, "the metadata \"%s%s\" does not describe a quantized tensor",
                           QUANTIZE_KEY_PREFIX, file_printable(name).text)
               : 1;
}

int quantize_layout_check(const quantize_layout *layout, const safetensors_tensor *tensor,
                          file_error *error) {
    const size_t bytes =
        layout->storage == QUANTIZE_Q8_0 ? TDM_QUANT_Q8_0_BYTES : TDM_QUANT_Q4_0_BYTES;
    const int last = layout->rank - 1;
    uint64_t claimed = 1;
    for (int i = 0; i <= last; i++) {
        const int64_t extent = layout->shape[i] / (i == last ? TDM_QUANT_BLOCK_ELEMENTS : 1);
        if (__builtin_mul_overflow(claimed, (uint64_t)extent, &claimed))
            claimed = UINT64_MAX;
    }
    if (last < 0 || layout->shape[last] % TDM_QUANT_BLOCK_ELEMENTS != 0 ||
        tensor->dtype != SAFETENSORS_U8 || tensor->bytes % bytes != 0 ||
        claimed != tensor->bytes / bytes)
        return file_fail(
            error, "tensor \"%s\" does not contain the blocks of %s that its metadata describes",
            file_printable(tensor->name).text, layout->scheme);
    return 0;
}

/* Adds the numbers as decimal digits, because cJSON would write 1e15 as "1e+15". */
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

/* Returns the tensor whose name is the two strings joined. A missing tensor is an error. */
static const safetensors_tensor *find(const safetensors_file *file, const char *first,
                                      const char *second, file_error *error) {
    char *const name = quantize_join(first, second);
    const safetensors_tensor *const tensor = name ? safetensors_find(file, name) : NULL;
    if (!name)
        file_error_set(error, "out of memory for a name");
    else if (!tensor)
        file_error_set(error, "there is no tensor \"%s\"", file_printable(name).text);
    free(name);
    return tensor;
}

/* ---- quantized values with separate scales --------------------------------------------------- */

static tdm_quant_range range_of(tdm_dtype dtype) {
    if (dtype == TDM_U8)
        return (tdm_quant_range){0, 255};
    return dtype == TDM_S8 ? (tdm_quant_range){-128, 127} : (tdm_quant_range){-8, 7};
}

/* Checks the range of zero points of s4, because each is stored in a byte. */
static int check_s4_zero_points(const safetensors_tensor *zero_points, file_error *error) {
    const signed char *const values = zero_points->data;
    for (size_t i = 0; i < zero_points->bytes; i++)
        if (values[i] < -8 || values[i] > 7)
            return file_fail(error,
                             "zero point %zu of tensor \"%s\" is %d, outside the range of s4", i,
                             file_printable(zero_points->name).text, values[i]);
    return 0;
}

static int check_bytes(const safetensors_tensor *tensor, safetensors_dtype dtype, int64_t count,
                       file_error *error) {
    const file_name name = file_printable(tensor->name);
    if (tensor->dtype != dtype)
        return file_fail(error, "tensor \"%s\" has the dtype %s, not %s", name.text,
                         safetensors_dtype_name(tensor->dtype), safetensors_dtype_name(dtype));
    if (tensor->bytes / safetensors_dtype_bytes(dtype) != (size_t)count)
        return file_fail(error, "tensor \"%s\" has %zu elements, not %lld", name.text,
                         tensor->bytes / safetensors_dtype_bytes(dtype), (long long)count);
    return 0;
}

static tdm_quant_parameters parameters_at(const quantized_weight *weight, int64_t index) {
    const size_t position = (size_t)index;
    tdm_quant_parameters parameters = {
        .scale = (float)tdm_number_get(weight->scale_dtype, weight->scales, position)};
    if (weight->zero_point_dtype != TDM_DTYPE_NONE)
        parameters.zero_point = tdm_quant_get(weight->zero_point_dtype, weight->zero_points, index);
    return parameters;
}

static int take_scales(const safetensors_file *file, const char *name, int64_t count,
                       quantized_weight *weight, file_error *error) {
    tdm_quant_reason reason;
    const safetensors_tensor *const scales = find(file, name, QUANTIZE_SCALE_SUFFIX, error);
    if (!scales || check_bytes(scales, SAFETENSORS_F32, count, error))
        return -1;
    weight->scale_dtype = TDM_F32;
    weight->scales = scales->data;
    weight->scale_bytes = scales->bytes;
    for (int64_t i = 0; i < count; i++)
        if (!tdm_quant_parameters_check(parameters_at(weight, i), range_of(weight->dtype), i,
                                        &reason))
            return file_fail(error, "tensor \"%s\": %s", file_printable(scales->name).text,
                             reason.text);
    return 0;
}

static int take_zero_points(const safetensors_file *file, const char *name, int64_t count,
                            quantized_weight *weight, file_error *error) {
    const safetensors_tensor *const zero_points = find(file, name, QUANTIZE_ZERO_SUFFIX, error);
    const int is_unsigned = weight->dtype == TDM_U8;
    if (!zero_points ||
        check_bytes(zero_points, is_unsigned ? SAFETENSORS_U8 : SAFETENSORS_I8, count, error) ||
        (weight->dtype == TDM_S4 && check_s4_zero_points(zero_points, error)))
        return -1;
    weight->zero_point_dtype = is_unsigned ? TDM_U8 : TDM_S8;
    weight->zero_points = zero_points->data;
    weight->zero_point_bytes = zero_points->bytes;
    return 0;
}

/* Returns the specification of a weight's quantization. */
static tdm_quant_spec spec_of(const quantized_weight *weight) {
    tdm_quant_spec spec = {
        .rank = weight->rank, .dtype = weight->dtype, .range = range_of(weight->dtype)};
    memcpy(spec.shape, weight->shape, sizeof spec.shape);
    memcpy(spec.blocks, weight->block, sizeof spec.blocks);
    return spec;
}

static int take_codes(const safetensors_file *file, const safetensors_tensor *codes,
                      const quantize_layout *layout, quantized_weight *weight, file_error *error) {
    tdm_quant_reason reason;
    const tdm_quant_spec spec = spec_of(weight);
    if (tdm_quant_spec_check(&spec, &reason) != TDM_OK)
        return file_fail(error, "the metadata of tensor \"%s\": %s",
                         file_printable(codes->name).text, reason.text);
    const int64_t elements = tdm_quant_element_count(&spec);
    const int64_t bytes = layout->dtype == TDM_S4 ? elements / 2 + elements % 2 : elements;
    const int64_t scale_count = tdm_quant_scale_count(&spec);
    if (check_bytes(codes, layout->dtype == TDM_S8 ? SAFETENSORS_I8 : SAFETENSORS_U8, bytes,
                    error) ||
        take_scales(file, codes->name, scale_count, weight, error))
        return -1;
    weight->codes = codes->data;
    weight->code_bytes = codes->bytes;
    return layout->asymmetric ? take_zero_points(file, codes->name, scale_count, weight, error) : 0;
}

/* ---- blocks ---- */

int quantized_weight_take_blocks(const quantize_tensor *tensor, quantized_weight *weight,
                                 file_error *error) {
    const int q8_0 = tensor->storage == QUANTIZE_Q8_0;
    const size_t bytes = q8_0 ? TDM_QUANT_Q8_0_BYTES : TDM_QUANT_Q4_0_BYTES;
    const size_t blocks = tensor->bytes / bytes;
    const size_t code_bytes = blocks * (bytes - sizeof(uint16_t));
    unsigned char *const memory = malloc(code_bytes + blocks * sizeof(uint16_t) + 2);
    memset(weight, 0, sizeof *weight);
    if (!memory)
        return file_fail(error, "out of memory for tensor \"%s\"",
                         file_printable(tensor->name).text);
    uint16_t *const scales = (uint16_t *)(void *)(memory + code_bytes); /* aligned to 16 bytes */
    if (q8_0)
        tdm_quant_q8_0_split(tensor->data, blocks, scales, (int8_t *)memory);
    else
        tdm_quant_q4_0_split(tensor->data, blocks, scales, memory);
    snprintf(weight->scheme, sizeof weight->scheme, "%s", q8_0 ? "q8_0" : "q4_0");
    weight->memory = memory;
    weight->codes = memory;
    weight->code_bytes = code_bytes;
    weight->scale_dtype = TDM_F16;
    weight->scales = scales;
    weight->scale_bytes = blocks * sizeof *scales;
    weight->dtype = q8_0 ? TDM_S8 : TDM_S4;
    weight->rank = tensor->rank;
    memcpy(weight->shape, tensor->shape, sizeof weight->shape);
    for (int i = 0; i < tensor->rank; i++)
        weight->block[i] = i == tensor->rank - 1 ? TDM_QUANT_BLOCK_ELEMENTS : 1;
    return 0;
}

/*
 * Reads a weight in blocks from a safetensors file. The tensor holds plain bytes, and the metadata
 * gives its shape.
 */
static int take_blocks(const safetensors_tensor *from, const quantize_layout *layout,
                       quantized_weight *weight, file_error *error) {
    quantize_tensor tensor = {.name = from->name,
                              .storage = layout->storage,
                              .rank = layout->rank,
                              .data = from->data,
                              .bytes = from->bytes};
    memcpy(tensor.shape, layout->shape, sizeof tensor.shape);
    return quantize_layout_check(layout, from, error)
               ? -1
               : quantized_weight_take_blocks(&tensor, weight, error);
}

/* ---- the layer's input ---- */

static int read_input(const safetensors_file *file, const char *layer, quantized_weight *weight,
                      file_error *error) {
    tdm_quant_reason reason;
    file_error ignored;
    const safetensors_tensor *const scale =
        find(file, layer, ".input" QUANTIZE_SCALE_SUFFIX, &ignored);
    if (!scale)
        return 0;
    const safetensors_tensor *const zero_point =
        find(file, layer, ".input" QUANTIZE_ZERO_SUFFIX, error);
    if (!zero_point)
        return -1;
    const int is_unsigned = zero_point->dtype == SAFETENSORS_U8;
    if (check_bytes(scale, SAFETENSORS_F32, 1, error) ||
        check_bytes(zero_point, is_unsigned ? SAFETENSORS_U8 : SAFETENSORS_I8, 1, error))
        return -1;
    memcpy(&weight->input.scale, scale->data, sizeof weight->input.scale);
    weight->input_dtype = is_unsigned ? TDM_U8 : TDM_S8;
    weight->input.zero_point = is_unsigned ? *(const unsigned char *)zero_point->data
                                           : *(const signed char *)zero_point->data;
    if (!tdm_quant_parameters_check(weight->input, range_of(weight->input_dtype), 0, &reason))
        return file_fail(error, "tensor \"%s\": %s", file_printable(scale->name).text, reason.text);
    return 0;
}

/* ---- dequantization -------------------------------------------------------------------------- */

/* Returns how many consecutive elements of a row share a scale, from `column` on. */
static int64_t run_from(const quantized_weight *weight, int64_t column) {
    const int64_t extent = weight->shape[weight->rank - 1];
    const int64_t block = weight->block[weight->rank - 1];
    const int64_t end = block == 0 ? extent : column - column % block + block;
    return (end < extent ? end : extent) - column;
}

void quantized_weight_floats(const quantized_weight *weight, int64_t first, int64_t count,
                             float *values) {
    const tdm_quant_spec spec = spec_of(weight);
    int64_t at[SAFETENSORS_MAX_RANK] = {0};
    for (int64_t done = 0; done < count;) {
        int64_t rest = first + done;
        for (int i = weight->rank - 1; i >= 0; rest /= weight->shape[i], i--)
            at[i] = rest % weight->shape[i];
        int64_t run = weight->rank > 0 ? run_from(weight, at[weight->rank - 1]) : 1;
        run = run < count - done ? run : count - done;
        const tdm_quant_parameters parameters =
            parameters_at(weight, tdm_quant_scale_index(&spec, at));
        for (const int64_t end = done + run; done < end; done++)
            values[done] = tdm_quant_dequantize(
                tdm_quant_get(weight->dtype, weight->codes, first + done), parameters);
    }
}

void quantized_weight_release_parameters(const quantized_weight *weight) {
    file_release_pages(weight->floor, weight->scales, weight->scale_bytes);
    if (weight->zero_points)
        file_release_pages(weight->floor, weight->zero_points, weight->zero_point_bytes);
}

/* ---- the weight ---- */

static int take_floats(const safetensors_tensor *tensor, quantized_weight *weight,
                       file_error *error) {
    const quantize_tensor floats = {.dtype = tensor->dtype};
    weight->dtype = quantize_float_dtype(&floats);
    if (weight->dtype == TDM_DTYPE_NONE || weight->dtype == TDM_F64)
        return file_fail(error, "tensor \"%s\" has the dtype %s but no quantization metadata",
                         file_printable(tensor->name).text, safetensors_dtype_name(tensor->dtype));
    weight->rank = tensor->rank;
    memcpy(weight->shape, tensor->shape, sizeof weight->shape);
    weight->codes = tensor->data;
    weight->code_bytes = tensor->bytes;
    return 0;
}

static int read_weight(const safetensors_file *file, const char *name, quantized_weight *weight,
                       file_error *error) {
    quantize_layout layout;
    const safetensors_tensor *const tensor = find(file, name, "", error);
    const int found = tensor ? quantize_layout_find(file, name, &layout, error) : -1;
    if (found < 0)
        return -1;
    if (found == 0)
        return take_floats(tensor, weight, error);
    if (layout.storage != QUANTIZE_PLAIN)
        return take_blocks(tensor, &layout, weight, error);
    memcpy(weight->scheme, layout.scheme, sizeof weight->scheme);
    weight->dtype = layout.dtype;
    weight->rank = layout.rank;
    memcpy(weight->shape, layout.shape, sizeof weight->shape);
    memcpy(weight->block, layout.block, sizeof weight->block);
    return take_codes(file, tensor, &layout, weight, error);
}

int quantized_weight_read(const safetensors_file *file, const char *name, quantized_weight *weight,
                          file_error *error) {
    memset(weight, 0, sizeof *weight);
    char *const layer = quantize_layer_name(name);
    const int result =
        !layer ? file_fail(error, "out of memory for a name")
        : read_weight(file, name, weight, error) || read_input(file, layer, weight, error) ? -1
                                                                                           : 0;
    free(layer);
    if (result != 0)
        quantized_weight_release(weight);
    return result;
}

void quantized_weight_release(quantized_weight *weight) {
    free(weight->memory);
    memset(weight, 0, sizeof *weight);
}
