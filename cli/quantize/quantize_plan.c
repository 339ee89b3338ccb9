#include "cli/quantize/quantize_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantize/quantize_pass.h"

/* ---- which tensors ---- */

static int matches(const regex_t *expression, const char *name) {
    return regexec(expression, name, 0, NULL, 0) == 0;
}

static const quantize_scheme *scheme_of(const quantize_tensor *tensor,
                                        const quantize_choice *choice) {
    for (size_t i = 0; i < choice->exception_count; i++)
        if (matches(&choice->exceptions[i].names, tensor->name))
            return choice->exceptions[i].scheme;
    return choice->scheme;
}

/* Returns 1 if, judged by its name, the tensor gets a scheme that changes it. */
static int is_chosen(const quantize_tensor *tensor, const quantize_choice *choice) {
    return scheme_of(tensor, choice)->kind != QUANTIZE_KEEP &&
           !(choice->skip && matches(choice->skip, tensor->name)) &&
           (!choice->only || matches(choice->only, tensor->name));
}

/* Returns why the scheme cannot take a requested tensor, or NULL. */
static const char *obstacle(const quantize_tensor *tensor, const quantize_scheme *scheme) {
    if (tensor->storage == QUANTIZE_CODED)
        return NULL;
    if (tensor->has_codes)
        return "already quantized; f32, f16 and bf16 dequantize it";
    if (!quantize_is_float(tensor))
        return "not a tensor of floats";
    if (tensor->rank < 2 && scheme->kind != QUANTIZE_FLOATS)
        return "not a matrix";
    if (quantize_element_count(tensor) == 0)
        return "empty";
    if (scheme->kind != QUANTIZE_BLOCKS)
        return NULL;
    if (tensor->storage == scheme->storage)
        return "already in this block format";
    return tensor->shape[tensor->rank - 1] % 32 != 0 ? "last dimension is not a multiple of 32"
                                                     : NULL;
}

/* Returns the scheme that changes a tensor, or NULL. *note then explains an unexpected NULL. */
static const quantize_scheme *scheme_taken(const quantize_tensor *tensor,
                                           const quantize_choice *choice, const char **note) {
    *note = NULL;
    if (!is_chosen(tensor, choice))
        return NULL;
    const int is_weight = tensor->storage == QUANTIZE_CODED ||
                          (quantize_is_float(tensor) && tensor->rank >= 2 &&
                           quantize_element_count(tensor) >= QUANTIZE_MIN_ELEMENTS);
    if (!choice->only && !is_weight)
        return NULL;
    const quantize_scheme *const scheme = scheme_of(tensor, choice);
    *note = obstacle(tensor, scheme);
    return *note ? NULL : scheme;
}

/* ---- dequantized tensors --------------------------------------------------------------------- */

/* Returns 1 if the tensor is dequantized, together with its scales in separate tensors. */
static int is_decoded(const quantize_choice *choice, const quantize_tensor *tensor) {
    return !tensor->owner && tensor->has_codes &&
           scheme_of(tensor, choice)->kind == QUANTIZE_FLOATS && is_chosen(tensor, choice);
}

/* Returns -1 if there are more than 2^63 - 1 elements. */
static int64_t elements_of(const int64_t *shape, int rank) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, shape[i], &count))
            return -1;
    return count;
}

/* Restores the shape that the tensor had before it was flattened. */
static int shape_decoded(const quantize_layout *layout, quantize_tensor *tensor,
                         file_error *error) {
    const int flattened = layout->original_rank > 0;
    const int64_t *const shape = flattened ? layout->original_shape : layout->shape;
    tensor->rank = flattened ? layout->original_rank : layout->rank;
    memcpy(tensor->shape, shape, sizeof tensor->shape);
    return elements_of(shape, tensor->rank) == elements_of(layout->shape, layout->rank)
               ? 0
               : file_fail(error,
                           "the metadata of tensor \"%s\": its original shape has a different "
                           "number of elements",
                           file_printable(tensor->name).text);
}

static int decode(const quantize_source *source, quantize_item *item, file_error *error) {
    const quantize_tensor *const codes = item->tensor;
    quantize_decoded *const decoded = calloc(1, sizeof *decoded);
    quantize_layout layout;
    if (!decoded)
        return -1;
    item->decoded = decoded;
    item->tensor = &decoded->tensor;
    const safetensors_file *const file = quantize_file_of(source, codes);
    quantize_tensor *const tensor = &decoded->tensor;
    quantized_weight *const weight = &decoded->weight;
    *tensor = (quantize_tensor){.name = codes->name,
                                .storage = QUANTIZE_CODED,
                                .data = codes->data,
                                .floor = codes->floor,
                                .weight = weight};
    if (quantize_layout_find(file, codes->name, &layout, error) < 0 ||
        quantized_weight_read(file, codes->name, weight, error) ||
        shape_decoded(&layout, tensor, error))
        return -1;
    tensor->bytes = weight->code_bytes + weight->scale_bytes + weight->zero_point_bytes;
    weight->floor = tensor->floor;
    quantized_weight_release_parameters(weight);
    return 0;
}

/* ---- entries ---- */

/* Adds a tensor of plain storage named `name` and `suffix`. Returns -1 if memory is short. */
static int add_entry(quantize_plan *plan, const char *name, const char *suffix,
                     safetensors_dtype dtype, int rank, const int64_t *shape, int *position) {
    quantize_entry *const entry = &plan->entries[plan->entry_count];
    *entry = (quantize_entry){.dtype = dtype, .rank = rank};
    entry->bytes = safetensors_dtype_bytes(dtype);
    for (int i = 0; i < rank; i++)
        entry->bytes *= (size_t)(entry->shape[i] = shape[i]);
    entry->name = quantize_join(name, suffix);
    if (!entry->name)
        return -1;
    *position = (int)plan->entry_count++;
    return 0;
}

/* Adds an entry with the tensor's name and shape, in the given storage. */
static int add_alike(quantize_plan *plan, quantize_item *item, quantize_storage storage,
                     safetensors_dtype dtype, size_t bytes) {
    const quantize_tensor *const tensor = item->tensor;
    if (add_entry(plan, tensor->name, "", dtype, tensor->rank, tensor->shape, &item->data))
        return -1;
    quantize_entry *const entry = &plan->entries[item->data];
    entry->storage = storage;
    entry->bytes = bytes;
    return 0;
}

static int add_floats(quantize_plan *plan, quantize_item *item) {
    const tdm_dtype dtype = item->scheme->dtype;
    const safetensors_dtype stored = dtype == TDM_F32   ? SAFETENSORS_F32
                                     : dtype == TDM_F16 ? SAFETENSORS_F16
                                                        : SAFETENSORS_BF16;
    return add_alike(plan, item, QUANTIZE_PLAIN, stored,
                     (size_t)quantize_element_count(item->tensor) *
                         safetensors_dtype_bytes(stored));
}

static int add_blocks(quantize_plan *plan, quantize_item *item) {
    const quantize_tensor blocks = {.storage = item->scheme->storage};
    return add_alike(plan, item, blocks.storage, SAFETENSORS_U8,
                     quantize_storage_bytes(&blocks, quantize_element_count(item->tensor)));
}

static int add_parameters(quantize_plan *plan, const quantize_item *item, const char *suffix,
                          safetensors_dtype dtype, int *position) {
    const quantize_layout *const layout = &item->layout;
    int64_t shape[SAFETENSORS_MAX_RANK];
    for (int i = 0; i < layout->rank; i++) {
        const int64_t block = layout->block[i];
        shape[i] = block == 0 ? 1 : (layout->shape[i] + block - 1) / block;
    }
    return add_entry(plan, item->tensor->name, suffix, dtype, layout->rank, shape, position);
}

/* An s4 entry holds two values per byte. If rows have an odd length, it is one row of bytes. */
static int add_codes(quantize_plan *plan, quantize_item *item) {
    const quantize_layout *const layout = &item->layout;
    const int last = layout->rank - 1;
    const safetensors_dtype dtype = layout->dtype == TDM_S8 ? SAFETENSORS_I8 : SAFETENSORS_U8;
    const int64_t bytes =
        (int64_t)quantize_code_bytes(layout->dtype, elements_of(layout->shape, layout->rank));
    int64_t shape[SAFETENSORS_MAX_RANK];
    int rank = layout->rank;
    memcpy(shape, layout->shape, sizeof shape);
    if (layout->dtype == TDM_S4 && shape[last] % 2 == 0) {
        shape[last] /= 2;
    } else if (layout->dtype == TDM_S4) {
        rank = 1;
        shape[0] = bytes;
    }
    if (add_entry(plan, item->tensor->name, "", dtype, rank, shape, &item->data) ||
        add_parameters(plan, item, QUANTIZE_SCALE_SUFFIX, SAFETENSORS_F32, &item->scale))
        return -1;
    return layout->asymmetric
               ? add_parameters(plan, item, QUANTIZE_ZERO_SUFFIX,
                                layout->dtype == TDM_U8 ? SAFETENSORS_U8 : SAFETENSORS_I8,
                                &item->zero_point)
               : 0;
}

static int add_input(quantize_plan *plan, quantize_item *item) {
    return add_entry(plan, item->layer, ".input" QUANTIZE_SCALE_SUFFIX, SAFETENSORS_F32, 0, NULL,
                     &item->input_scale) ||
                   add_entry(plan, item->layer, ".input" QUANTIZE_ZERO_SUFFIX, SAFETENSORS_U8, 0,
                             NULL, &item->input_zero_point)
               ? -1
               : 0;
}

/* ---- layouts ---- */

/*
 * Computes the tensor's shape as a matrix with a row for each channel, and returns the number of
 * channel dimensions. These are the first two for a stack of matrices (mixture of experts),
 * otherwise the first one.
 */
static int matrix_of(const quantize_tensor *tensor, int64_t shape[2]) {
    const int is_stack = tensor->rank == 3 && tensor->shape[2] >= QUANTIZE_MIN_ROW;
    const int leading = is_stack ? 2 : 1;
    shape[0] = shape[1] = 1;
    for (int i = 0; i < tensor->rank; i++)
        shape[i < leading ? 0 : 1] *= tensor->shape[i];
    return leading;
}

static int plan_codes(const quantize_choice *choice, quantize_item *item, file_error *error) {
    const quantize_tensor *const tensor = item->tensor;
    const tdm_quant_scheme *const rules = tdm_quant_scheme_info(item->scheme->rules);
    const int is_grouped = rules->granularity == TDM_QUANT_PER_GROUP;
    const int64_t group = choice->group > 0 ? choice->group : rules->group;
    quantize_layout *const layout = &item->layout;
    tdm_quant_reason reason;
    int64_t shape[2];
    const int leading = matrix_of(tensor, shape);
    layout->dtype = rules->dtype;
    layout->asymmetric = rules->symmetry == TDM_QUANT_ASYMMETRIC;
    layout->rank = tensor->rank;
    memcpy(layout->shape, tensor->shape, sizeof layout->shape);
    if (is_grouped && tensor->rank > 2) {
        layout->original_rank = tensor->rank;
        memcpy(layout->original_shape, tensor->shape, sizeof layout->original_shape);
        layout->rank = 2;
        memcpy(layout->shape, shape, sizeof shape);
    }
    if (is_grouped) {
        layout->block[0] = 1;
        layout->block[1] = group;
    } else if (rules->granularity == TDM_QUANT_PER_AXIS) {
        for (int i = 0; i < leading; i++)
            layout->block[i] = 1;
    }
    if (tdm_quant_spec_make(rules, 2, shape, is_grouped, group, &item->spec, &reason) != TDM_OK)
        return file_fail(error, "tensor \"%s\": %s", file_printable(tensor->name).text,
                         reason.text);
    const quantize_pass pass = {.tensor = tensor, .scheme = item->scheme, .spec = item->spec};
    return quantize_pass_can_write(&pass)
               ? 0
               : file_fail(error,
                           "tensor \"%s\" has long rows with an odd number of 4-bit values: "
                           "exclude it with --skip",
                           file_printable(tensor->name).text);
}

static void plan_blocks(const quantize_tensor *tensor, quantize_storage storage,
                        quantize_layout *layout) {
    const int is_q8_0 = storage == QUANTIZE_Q8_0;
    snprintf(layout->scheme, sizeof layout->scheme, "%s", is_q8_0 ? "q8_0" : "q4_0");
    layout->storage = storage;
    layout->dtype = is_q8_0 ? TDM_S8 : TDM_S4;
    layout->rank = tensor->rank;
    memcpy(layout->shape, tensor->shape, sizeof layout->shape);
    for (int i = 0; i < tensor->rank; i++)
        layout->block[i] = i == tensor->rank - 1 ? 32 : 1;
}

/* ---- items ---- */

static int plan_scheme(const quantize_choice *choice, quantize_plan *plan, quantize_item *item,
                       file_error *error) {
    snprintf(item->layout.scheme, sizeof item->layout.scheme, "%s", item->scheme->name);
    switch (item->scheme->kind) {
    case QUANTIZE_FLOATS:
        return add_floats(plan, item);
    case QUANTIZE_BLOCKS:
        plan_blocks(item->tensor, item->scheme->storage, &item->layout);
        return add_blocks(plan, item);
    default:
        return plan_codes(choice, item, error) || add_codes(plan, item) ? -1 : 0;
    }
}

static int plan_copy(quantize_plan *plan, quantize_item *item) {
    const quantize_tensor *const tensor = item->tensor;
    if (quantize_is_blocks(tensor))
        plan_blocks(tensor, tensor->storage, &item->layout);
    return add_alike(plan, item, tensor->storage, tensor->dtype, tensor->bytes);
}

static int plan_item(const quantize_choice *choice, quantize_plan *plan, quantize_item *item,
                     file_error *error) {
    const quantize_tensor *const tensor = item->tensor;
    item->data = item->scale = item->zero_point = QUANTIZE_NO_ENTRY;
    item->input_scale = item->input_zero_point = QUANTIZE_NO_ENTRY;
    item->layer = quantize_layer_name(tensor->name);
    if (!item->layer)
        return -1;
    if (!tensor->owner)
        item->scheme = scheme_taken(tensor, choice, &item->note);
    if (!item->scheme)
        return plan_copy(plan, item);
    plan->quantized++;
    if (plan_scheme(choice, plan, item, error))
        return -1;
    if (!choice->activations || item->scheme->kind == QUANTIZE_FLOATS || choice->to_gguf)
        return 0;
    if (quantize_input_exists(choice->activations, item->layer))
        return add_input(plan, item);
    item->note = "no activations: no scale for its input";
    return 0;
}

/*
 * Plans one tensor. Scales and zero points are copied or dequantized together with their quantized
 * values.
 */
static int plan_tensor(const quantize_source *source, const quantize_choice *choice,
                       const quantize_tensor *tensor, quantize_plan *plan, file_error *error) {
    if (tensor->owner && is_decoded(choice, tensor->owner))
        return 0;
    quantize_item *const item = &plan->items[plan->item_count++];
    item->tensor = tensor;
    if (is_decoded(choice, tensor) && decode(source, item, error))
        return -1;
    return plan_item(choice, plan, item, error);
}

int quantize_plan_make(const quantize_source *source, const quantize_choice *choice,
                       quantize_plan *plan, file_error *error) {
    enum {
        ENTRIES_EACH = 5
    };
    memset(plan, 0, sizeof *plan);
    file_error_set(error, "out of memory for a plan of %zu tensors", source->count);
    plan->items = calloc(source->count + 1, sizeof *plan->items);
    plan->entries = calloc(source->count * ENTRIES_EACH + 1, sizeof *plan->entries);
    int result = plan->items && plan->entries ? 0 : -1;
    for (size_t i = 0; result == 0 && i < source->count; i++)
        result = plan_tensor(source, choice, &source->tensors[i], plan, error);
    if (result != 0)
        quantize_plan_release(plan);
    return result;
}

void quantize_plan_release(quantize_plan *plan) {
    for (size_t i = 0; plan->items && i < plan->item_count; i++) {
        quantize_item *const item = &plan->items[i];
        if (item->decoded)
            quantized_weight_release(&item->decoded->weight);
        free(item->decoded);
        free(item->layer);
    }
    for (size_t i = 0; plan->entries && i < plan->entry_count; i++)
        free(plan->entries[i].name);
    free(plan->items);
    free(plan->entries);
    memset(plan, 0, sizeof *plan);
}
