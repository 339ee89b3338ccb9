#include "cli/quantize/quantize_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quantize/quantize_pass.h"

enum {
    MOST_COLUMNS = 1 << 19 /* of a matrix that may have any number of them */
};

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

/* Whether its scheme changes the tensor, as far as names say. */
static int is_chosen(const quantize_tensor *tensor, const quantize_choice *choice) {
    return scheme_of(tensor, choice)->kind != QUANTIZE_KEEP &&
           !(choice->skip && matches(choice->skip, tensor->name)) &&
           (!choice->only || matches(choice->only, tensor->name));
}

/* Whether the tensor is asked for; then *note says why it cannot be had, if so. */
static int is_wanted(const quantize_tensor *tensor, const quantize_choice *choice,
                     const char **note) {
    const quantize_scheme *const scheme = scheme_of(tensor, choice);
    *note = NULL;
    if (!is_chosen(tensor, choice))
        return 0;
    if (tensor->storage == QUANTIZE_CODED)
        return 1;
    const int foreign = tensor->storage == QUANTIZE_FOREIGN;
    const int floats = quantize_is_float(tensor);
    const int64_t elements = quantize_element_count(tensor);
    if (foreign)
        *note = "blocks that are only copied";
    if (!choice->only)
        return (floats || foreign) && tensor->rank >= 2 && elements >= QUANTIZE_LEAST_ELEMENTS;
    if (*note)
        return 1;
    if (tensor->has_codes)
        *note = "codes already, of which f32, f16 and bf16 make numbers";
    else if (!floats)
        *note = "no tensor of floats";
    else if (tensor->rank < 2 && scheme->kind != QUANTIZE_FLOATS)
        *note = "no matrix";
    else if (elements == 0)
        *note = "empty";
    return 1;
}

/* Matrices of experts in one tensor. */
static int is_stack(const quantize_tensor *tensor) {
    return tensor->rank == 3 && tensor->shape[2] >= QUANTIZE_LEAST_ROW;
}

/* Why --axis 1 cannot take a tensor, or NULL. */
static const char *obstacle_to_columns(const quantize_tensor *tensor, tdm_dtype dtype) {
    if (tensor->rank != 2 && !is_stack(tensor))
        return "no matrix and no stack of matrices, which --axis 1 takes alone";
    if (tensor->rank == 3 && dtype == TDM_S4 && tensor->shape[1] % 2 != 0 &&
        tensor->shape[2] % 2 != 0)
        return "matrices of an odd number of codes of 4 bits, which --axis 1 does not take";
    return NULL;
}

/* Why the scheme cannot take a tensor that is wanted, or NULL. */
static const char *obstacle(const quantize_tensor *tensor, const quantize_choice *choice) {
    const quantize_scheme *const scheme = scheme_of(tensor, choice);
    if (scheme->kind == QUANTIZE_BLOCKS && tensor->storage == scheme->storage)
        return "already in these blocks";
    if (scheme->kind == QUANTIZE_BLOCKS && tensor->shape[tensor->rank - 1] % 32 != 0)
        return "last dimension no multiple of 32";
    return scheme->kind == QUANTIZE_CODES && choice->axis == 1
               ? obstacle_to_columns(tensor, tdm_quant_scheme_info(scheme->rules)->dtype)
               : NULL;
}

/* The scheme that changes a tensor, or NULL, and then *note says why, where one would expect otherwise. */
static const quantize_scheme *scheme_taken(const quantize_tensor *tensor,
                                           const quantize_choice *choice, const char **note) {
    const int wanted = is_wanted(tensor, choice, note);
    if (wanted && !*note)
        *note = obstacle(tensor, choice);
    return wanted && !*note ? scheme_of(tensor, choice) : NULL;
}

/* ---- codes that become numbers ---- */

/* The tensor whose name is that of another without a suffix, or NULL. 0, or -1 when memory is short. */
static int find_without(const quantize_source *source, const char *name, const char *suffix,
                        const quantize_tensor **found) {
    const size_t length = strlen(name);
    const size_t tail = strlen(suffix);
    *found = NULL;
    if (length < tail || strcmp(name + length - tail, suffix) != 0)
        return 0;
    char *const stem = strndup(name, length - tail);
    if (!stem)
        return -1;
    *found = quantize_source_find(source, stem);
    free(stem);
    return 0;
}

/* The codes that a tensor has the scales or zero points of, or NULL. 0, or -1 when memory is short. */
static int find_owner(const quantize_source *source, const quantize_tensor *tensor,
                      const quantize_tensor **owner) {
    const quantize_tensor *codes;
    *owner = tensor->owner;
    if (*owner)
        return 0;
    if (find_without(source, tensor->name, QUANTIZE_SCALE_SUFFIX, &codes))
        return -1;
    if (codes && codes->has_codes)
        *owner = codes;
    if (*owner)
        return 0;
    if (find_without(source, tensor->name, QUANTIZE_ZERO_SUFFIX, &codes))
        return -1;
    if (codes && codes->has_codes && codes->has_zero_points)
        *owner = codes;
    return 0;
}

/* Together with the scales in tensors of their own: 1, 0, or -1 when memory is short. */
static int is_decoded(const quantize_source *source, const quantize_choice *choice,
                      const quantize_tensor *tensor) {
    const quantize_tensor *owner;
    const char *note;
    const int becomes_numbers = tensor->is_scaled
                                    ? scheme_taken(tensor, choice, &note) != NULL
                                    : tensor->has_codes &&
                                          scheme_of(tensor, choice)->kind == QUANTIZE_FLOATS &&
                                          is_chosen(tensor, choice);
    if (!becomes_numbers)
        return 0;
    return find_owner(source, tensor, &owner) ? -1 : !owner;
}

/* Whether it goes, as its codes take it in: 1, 0, or -1 when memory is short. */
static int is_taken_in(const quantize_source *source, const quantize_choice *choice,
                       const quantize_tensor *tensor) {
    const quantize_tensor *owner;
    if (find_owner(source, tensor, &owner))
        return -1;
    return owner ? is_decoded(source, choice, owner) : 0;
}

/* -1 where it has more than 2^63 - 1. */
static int64_t elements_of(const int64_t *shape, int rank) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, shape[i], &count))
            return -1;
    return count;
}

/* In the shape that the tensor had before it was flattened. */
static int shape_decoded(const quantize_layout *layout, quantize_tensor *tensor,
                         file_error *error) {
    const int flattened = layout->original_rank > 0;
    const int64_t *const shape = flattened ? layout->original_shape : layout->shape;
    tensor->rank = flattened ? layout->original_rank : layout->rank;
    memcpy(tensor->shape, shape, sizeof tensor->shape);
    return elements_of(shape, tensor->rank) == elements_of(layout->shape, layout->rank)
               ? 0
               : file_fail(error,
                           "the metadata of tensor \"%s\": its original shape has another "
                           "number of elements",
                           file_printable(tensor->name).text);
}

static int decode_codes(const quantize_source *source, const quantize_tensor *codes,
                        quantize_decoded *decoded, file_error *error) {
    quantize_layout layout;
    const safetensors_file *const file = quantize_file_of(source, codes);
    quantize_tensor *const tensor = &decoded->tensor;
    quantized_weight *const weight = &decoded->weight;
    *tensor = (quantize_tensor){.name = codes->name,
                                .storage = QUANTIZE_CODED,
                                .data = codes->data,
                                .floor = codes->floor,
                                .shard = codes->shard,
                                .weight = weight};
    if (quantize_layout_find(file, codes->name, &layout, error) < 0 ||
        quantized_weight_read(file, codes->name, weight, error) ||
        shape_decoded(&layout, tensor, error))
        return -1;
    tensor->bytes = weight->code_bytes + weight->scale_bytes + weight->zero_point_bytes;
    quantized_weight_release_parameters(weight, tensor->floor);
    return 0;
}

static int decode_floats(const quantize_source *source, const quantize_tensor *floats,
                         quantize_decoded *decoded, file_error *error) {
    decoded->tensor = *floats;
    decoded->tensor.scaling = &decoded->scaling;
    if (quantize_scaling_make(source, floats, &decoded->scaling, error))
        return -1;
    decoded->tensor.bytes += decoded->scaling.bytes;
    return 0;
}

static int decode(const quantize_source *source, quantize_item *item, file_error *error) {
    const quantize_tensor *const tensor = item->tensor;
    quantize_decoded *const decoded = calloc(1, sizeof *decoded);
    if (!decoded)
        return -1;
    item->decoded = decoded;
    item->tensor = &decoded->tensor;
    return tensor->is_scaled ? decode_floats(source, tensor, decoded, error)
                             : decode_codes(source, tensor, decoded, error);
}

/* ---- entries ---- */

/* One of what becomes of a tensor. */
static quantize_entry *add_entry(quantize_plan *plan, const quantize_tensor *tensor,
                                 const char *name, const char *suffix, int *position) {
    quantize_entry *const entry = &plan->entries[plan->entry_count];
    memset(entry, 0, sizeof *entry);
    entry->shard = tensor->shard;
    entry->name = quantize_join(name, suffix);
    if (!entry->name)
        return NULL;
    *position = (int)plan->entry_count++;
    return entry;
}

static int add_copy(quantize_plan *plan, quantize_item *item) {
    const quantize_tensor *const tensor = item->tensor;
    quantize_entry *const entry = add_entry(plan, tensor, tensor->name, "", &item->data);
    if (!entry)
        return -1;
    entry->storage = tensor->storage;
    entry->dtype = tensor->dtype;
    entry->foreign = tensor->foreign;
    entry->rank = tensor->rank;
    entry->bytes = tensor->bytes;
    memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    return 0;
}

/* Of floats. */
static safetensors_dtype stored_as(tdm_dtype dtype) {
    return dtype == TDM_F32   ? SAFETENSORS_F32
           : dtype == TDM_F16 ? SAFETENSORS_F16
                              : SAFETENSORS_BF16;
}

static int add_floats(quantize_plan *plan, quantize_item *item) {
    if (add_copy(plan, item))
        return -1;
    quantize_entry *const entry = &plan->entries[item->data];
    entry->storage = QUANTIZE_PLAIN;
    entry->dtype = stored_as(item->scheme->dtype);
    entry->bytes =
        (size_t)quantize_element_count(item->tensor) * safetensors_dtype_bytes(entry->dtype);
    return 0;
}

static int add_blocks(quantize_plan *plan, quantize_item *item) {
    if (add_copy(plan, item))
        return -1;
    quantize_entry *const entry = &plan->entries[item->data];
    entry->storage = item->scheme->storage;
    entry->dtype = SAFETENSORS_U8;
    const quantize_tensor blocks = {.storage = entry->storage};
    entry->bytes = quantize_storage_bytes(&blocks, quantize_element_count(item->tensor));
    return 0;
}

/* Codes of s4 stand as bytes of two; where rows are odd, they are one line of bytes. */
static void shape_codes(const quantize_layout *layout, quantize_entry *entry) {
    entry->dtype = layout->dtype == TDM_S8 ? SAFETENSORS_I8 : SAFETENSORS_U8;
    entry->rank = layout->rank;
    int64_t count = 1;
    for (int i = 0; i < layout->rank; i++) {
        entry->shape[i] = layout->shape[i];
        count *= layout->shape[i];
    }
    entry->bytes = quantize_code_bytes(layout->dtype, count);
    if (layout->dtype != TDM_S4)
        return;
    const int last = layout->rank - 1;
    if (layout->shape[last] % 2 == 0) {
        entry->shape[last] /= 2;
    } else {
        entry->rank = 1;
        entry->shape[0] = (int64_t)entry->bytes;
    }
}

static int add_parameters(quantize_plan *plan, quantize_item *item, const char *suffix,
                          safetensors_dtype dtype, int *position) {
    const quantize_layout *const layout = &item->layout;
    quantize_entry *const entry =
        add_entry(plan, item->tensor, item->tensor->name, suffix, position);
    if (!entry)
        return -1;
    entry->dtype = dtype;
    entry->rank = layout->rank;
    entry->bytes = safetensors_dtype_bytes(dtype);
    for (int i = 0; i < layout->rank; i++) {
        const int64_t block = layout->block[i];
        entry->shape[i] = block == 0 ? 1 : (layout->shape[i] + block - 1) / block;
        entry->bytes *= (size_t)entry->shape[i];
    }
    return 0;
}

static int add_codes(quantize_plan *plan, quantize_item *item) {
    quantize_entry *const entry =
        add_entry(plan, item->tensor, item->tensor->name, "", &item->data);
    if (!entry)
        return -1;
    shape_codes(&item->layout, entry);
    const safetensors_dtype zero_point =
        item->layout.dtype == TDM_U8 ? SAFETENSORS_U8 : SAFETENSORS_I8;
    if (add_parameters(plan, item, QUANTIZE_SCALE_SUFFIX, stored_as(item->spec.scale_dtype),
                       &item->scale))
        return -1;
    return item->layout.asymmetric
               ? add_parameters(plan, item, QUANTIZE_ZERO_SUFFIX, zero_point, &item->zero_point)
               : 0;
}

static int add_scalar(quantize_plan *plan, const quantize_item *item, const char *suffix,
                      safetensors_dtype dtype, int *position) {
    quantize_entry *const entry = add_entry(plan, item->tensor, item->layer, suffix, position);
    if (!entry)
        return -1;
    entry->dtype = dtype;
    entry->bytes = safetensors_dtype_bytes(dtype);
    return 0;
}

static int add_input(quantize_plan *plan, quantize_item *item, const quantize_choice *choice) {
    const safetensors_dtype zero_point =
        choice->activation_dtype == TDM_U8 ? SAFETENSORS_U8 : SAFETENSORS_I8;
    return add_scalar(plan, item, ".input" QUANTIZE_SCALE_SUFFIX, SAFETENSORS_F32,
                      &item->input_scale) ||
                   add_scalar(plan, item, ".input" QUANTIZE_ZERO_SUFFIX, zero_point,
                              &item->input_zero_point)
               ? -1
               : 0;
}

/* ---- layouts ---- */

static void copy_shape(int64_t *to, const int64_t *from, int rank) {
    memcpy(to, from, (size_t)rank * sizeof *to);
}

/* Columns of the matrix that a tensor is worked at as, where the scheme leaves the choice: whole blocks, if
 * the tensor comes in blocks. */
static int64_t free_columns(int64_t columns) {
    while (columns > MOST_COLUMNS && columns % 64 == 0)
        columns /= 2;
    return columns;
}

/* Dimensions whose indices are channels: all of experts' matrices but the last, of convolutions and matrices the first. */
static int leading_of(const quantize_tensor *tensor) {
    return is_stack(tensor) ? 2 : 1;
}

/* The tensor as a matrix: channels, and what each has. */
static void matrix_of(const quantize_tensor *tensor, int leading, int64_t shape[2]) {
    shape[0] = shape[1] = 1;
    for (int i = 0; i < tensor->rank; i++)
        shape[i < leading ? 0 : 1] *= tensor->shape[i];
}

/* Dimensions that only count matrices, each of which is quantized by itself. */
static int outer_of(const quantize_tensor *tensor, const quantize_choice *choice) {
    return choice->axis == 1 && tensor->rank == 3;
}

static int64_t group_of(const quantize_choice *choice, const tdm_quant_scheme *rules) {
    return choice->group > 0 ? choice->group : rules->group;
}

/* Blocks of the tensor as it is stored; `shape` is that of the matrix that it is worked at as. */
static void plan_layout(const quantize_choice *choice, const quantize_tensor *tensor,
                        const tdm_quant_scheme *rules, const int64_t shape[2],
                        quantize_layout *layout) {
    const int outer = outer_of(tensor, choice);
    const int channel = outer + choice->axis;
    layout->dtype = rules->dtype;
    layout->asymmetric = rules->symmetry == TDM_QUANT_ASYMMETRIC;
    layout->rank = tensor->rank;
    copy_shape(layout->shape, tensor->shape, tensor->rank);
    if (outer > 0)
        layout->block[0] = 1;
    if (rules->granularity == TDM_QUANT_PER_AXIS) {
        const int channels = choice->axis == 0 ? leading_of(tensor) : 1;
        for (int i = channel; i < channel + channels; i++)
            layout->block[i] = 1;
    } else if (rules->granularity == TDM_QUANT_PER_GROUP) {
        if (tensor->rank > 2 && outer == 0) {
            layout->original_rank = tensor->rank;
            copy_shape(layout->original_shape, tensor->shape, tensor->rank);
            layout->rank = 2;
            copy_shape(layout->shape, shape, 2);
        }
        layout->block[channel] = 1;
        layout->block[outer + 1 - choice->axis] = group_of(choice, rules);
    }
}

/* The layout, and a spec that has the same scales in the same order for a matrix of the same elements, or for each of a stack, with
 * rows as short as the blocks allow, so that a slab can be small. */
static int plan_codes(const quantize_choice *choice, quantize_item *item, file_error *error) {
    const quantize_tensor *const tensor = item->tensor;
    const tdm_quant_scheme *const rules = tdm_quant_scheme_info(item->scheme->rules);
    const int64_t group = group_of(choice, rules);
    const int outer = outer_of(tensor, choice);
    const int is_grouped = rules->granularity == TDM_QUANT_PER_GROUP;
    const int axis = is_grouped ? 1 - choice->axis : choice->axis; /* of groups: what is cut */
    int64_t shape[2];
    tdm_quant_reason reason;
    if (outer > 0) {
        item->matrices = tensor->shape[0];
        copy_shape(shape, tensor->shape + outer, 2);
    } else {
        matrix_of(tensor, leading_of(tensor), shape);
    }
    plan_layout(choice, tensor, rules, shape, &item->layout);
    const int64_t columns = shape[1];
    if (rules->granularity == TDM_QUANT_PER_TENSOR)
        shape[1] = free_columns(columns);
    else if (is_grouped && axis == 1 && columns % group == 0)
        shape[1] = group;
    shape[0] *= columns / shape[1];
    if (tdm_quant_spec_make(rules, 2, shape, axis, group, &item->spec, &reason) != TDM_OK)
        return file_fail(error, "tensor \"%s\": %s", file_printable(tensor->name).text,
                         reason.text);
    item->spec.scale_dtype = choice->scale_dtype;
    const quantize_pass pass = {.tensor = tensor, .scheme = item->scheme, .spec = item->spec};
    if (!quantize_pass_can_write(&pass))
        return file_fail(
            error,
            "tensor \"%s\" has long rows of an odd number of codes of 4 bits: leave it "
            "with --skip",
            file_printable(tensor->name).text);
    return 0;
}

static void plan_blocks(const quantize_tensor *tensor, const char *name, quantize_storage storage,
                        quantize_layout *layout) {
    snprintf(layout->scheme, sizeof layout->scheme, "%s", name);
    layout->storage = storage;
    layout->dtype = storage == QUANTIZE_Q8_0 ? TDM_S8 : TDM_S4;
    layout->rank = tensor->rank;
    copy_shape(layout->shape, tensor->shape, tensor->rank);
    for (int i = 0; i < tensor->rank; i++)
        layout->block[i] = i == tensor->rank - 1 ? 32 : 1;
}

/* ---- items ---- */

static int has_activations(const quantize_choice *choice, const char *layer) {
    size_t count;
    quantize_activations_of(choice->activations, layer, &count);
    return count > 0;
}

static int plan_scheme(const quantize_choice *choice, quantize_plan *plan, quantize_item *item,
                       file_error *error) {
    snprintf(item->layout.scheme, sizeof item->layout.scheme, "%s", item->scheme->name);
    switch (item->scheme->kind) {
    case QUANTIZE_FLOATS:
        return add_floats(plan, item);
    case QUANTIZE_BLOCKS:
        plan_blocks(item->tensor, item->scheme->name, item->scheme->storage, &item->layout);
        return add_blocks(plan, item);
    default:
        return plan_codes(choice, item, error) || add_codes(plan, item) ? -1 : 0;
    }
}

static int plan_item(const quantize_choice *choice, int is_parameter, quantize_plan *plan,
                     quantize_item *item, file_error *error) {
    const quantize_tensor *const tensor = item->tensor;
    item->data = item->scale = item->zero_point = QUANTIZE_NO_ENTRY;
    item->input_scale = item->input_zero_point = QUANTIZE_NO_ENTRY;
    item->layer = quantize_layer_name(tensor->name);
    if (!item->layer)
        return -1;
    if (!is_parameter)
        item->scheme = scheme_taken(tensor, choice, &item->note);
    if (!item->scheme) {
        if (tensor->storage == QUANTIZE_FOREIGN && !choice->to_gguf)
            return file_fail(error,
                             "tensor \"%s\" is of type %s, which can only be copied to a GGUF file",
                             file_printable(tensor->name).text, quantize_storage_name(tensor));
        if (quantize_is_blocks(tensor))
            plan_blocks(tensor, tensor->storage == QUANTIZE_Q8_0 ? "q8_0" : "q4_0", tensor->storage,
                        &item->layout);
        return add_copy(plan, item);
    }
    plan->quantized++;
    if (quantize_is_small_float(tensor) && !tensor->scaling)
        item->note = "8-bit floats without scales beside them: taken as they are";
    if (plan_scheme(choice, plan, item, error))
        return -1;
    if (!choice->activations || item->scheme->kind == QUANTIZE_FLOATS || choice->to_gguf)
        return 0;
    if (has_activations(choice, item->layer))
        return add_input(plan, item, choice);
    item->note = "no activations: its input has no scale";
    return 0;
}

/* What is added to a weight must not have the name of a tensor that is there. */
static int check_added(const quantize_source *source, const quantize_choice *choice,
                       const quantize_plan *plan, const quantize_item *item, file_error *error) {
    const int added[] = {item->scale, item->zero_point, item->input_scale, item->input_zero_point};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        if (added[i] == QUANTIZE_NO_ENTRY)
            continue;
        const char *const name = plan->entries[added[i]].name;
        const quantize_tensor *const taken = quantize_source_find(source, name);
        const int goes = taken ? is_taken_in(source, choice, taken) : 1;
        if (goes < 0)
            return -1;
        if (!goes)
            return file_fail(
                error,
                "the name \"%s\" is taken by a tensor of the input, and \"%s\" needs it for "
                "%s: leave that weight with --skip, or %s",
                file_printable(name).text, file_printable(item->tensor->name).text,
                i < 2 ? "its scales" : "the scale of its input",
                i < 2 ? "choose q8_0, q4_0, f16 or bf16, which add no tensor"
                      : "leave --calibrate out");
    }
    return 0;
}

/* Scales and zero points stay with their codes, as they are or in what the codes become. */
static int plan_tensor(const quantize_source *source, const quantize_choice *choice,
                       const quantize_tensor *tensor, quantize_plan *plan, file_error *error) {
    const quantize_tensor *owner;
    if (find_owner(source, tensor, &owner))
        return -1;
    const int goes = is_taken_in(source, choice, tensor);
    const int decoded = is_decoded(source, choice, tensor);
    if (goes < 0 || decoded < 0)
        return -1;
    if (goes)
        return 0;
    quantize_item *const item = &plan->items[plan->item_count++];
    item->tensor = tensor;
    if (decoded && decode(source, item, error))
        return -1;
    return plan_item(choice, owner != NULL, plan, item, error) ||
                   check_added(source, choice, plan, item, error)
               ? -1
               : 0;
}

static int compare_names(const void *left, const void *right) {
    const quantize_item *const *a = left;
    const quantize_item *const *b = right;
    return strcmp((*a)->tensor->name, (*b)->tensor->name);
}

static void sort_names(quantize_plan *plan) {
    for (size_t i = 0; i < plan->item_count; i++)
        plan->by_name[i] = &plan->items[i];
    qsort(plan->by_name, plan->item_count, sizeof *plan->by_name, compare_names);
}

const quantize_item *quantize_plan_find(const quantize_plan *plan, const char *name) {
    const quantize_tensor tensor = {.name = name};
    const quantize_item key = {.tensor = &tensor};
    const quantize_item *const key_pointer = &key;
    const quantize_item *const *const found = bsearch(&key_pointer, plan->by_name, plan->item_count,
                                                      sizeof *plan->by_name, compare_names);
    return found ? *found : NULL;
}

int quantize_plan_make(const quantize_source *source, const quantize_choice *choice,
                       quantize_plan *plan, file_error *error) {
    enum {
        ENTRIES_EACH = 5
    };
    memset(plan, 0, sizeof *plan);
    file_error_set(error, "out of memory for a plan of %zu tensors", source->count);
    plan->items = calloc(source->count + 1, sizeof *plan->items);
    plan->by_name = calloc(source->count + 1, sizeof *plan->by_name);
    plan->entries = calloc(source->count * ENTRIES_EACH + 1, sizeof *plan->entries);
    int result = plan->items && plan->by_name && plan->entries ? 0 : -1;
    for (size_t i = 0; result == 0 && i < source->count; i++)
        result = plan_tensor(source, choice, &source->tensors[i], plan, error);
    if (result == 0)
        sort_names(plan);
    else
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
    free(plan->by_name);
    free(plan->entries);
    memset(plan, 0, sizeof *plan);
}
