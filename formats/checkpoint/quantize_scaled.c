#include "formats/checkpoint/quantize_scaled.h"

#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"

enum {
    BLOCK = 128,     /* the only one that checkpoints have */
    ZERO_POINTS = 6, /* of codes that this program wrote */
    NAMES
};

/* ---- what stands beside ---- */

static const struct {
    int of_layer; /* behind the layer's name, else the tensor's */
    const char *suffix;
    int of_input; /* a scale of the layer's input */
} names[NAMES] = {{0, QUANTIZE_SCALE_SUFFIX, 0}, {0, QUANTIZE_SCALE_SUFFIX "_inv", 0},
                  {1, ".scale_weight", 0},       {1, ".input" QUANTIZE_SCALE_SUFFIX, 1},
                  {1, ".scale_input", 1},        {1, ".activation" QUANTIZE_SCALE_SUFFIX, 1},
                  {0, QUANTIZE_ZERO_SUFFIX, 0}};

/* The tensors that have these names, or NULL each. */
static int find_beside(const quantize_source *source, const quantize_tensor *tensor,
                       const quantize_tensor *found[NAMES], file_error *error) {
    char *const layer = quantize_layer_name(tensor->name);
    int result = layer ? 0 : -1;
    for (int i = 0; result == 0 && i < NAMES; i++) {
        char *const name = quantize_join(names[i].of_layer ? layer : tensor->name, names[i].suffix);
        result = name ? 0 : -1;
        found[i] = name ? quantize_source_find(source, name) : NULL;
        free(name);
    }
    free(layer);
    return result == 0 ? 0 : file_fail(error, "out of memory for a name");
}

/* Whether scales beside it would be those of its codes. */
static int is_narrow(const quantize_tensor *tensor) {
    return tensor->storage == QUANTIZE_PLAIN && !tensor->has_codes &&
           tensor->dtype != SAFETENSORS_BOOL && safetensors_dtype_bits(tensor->dtype) <= 8;
}

int quantize_scaled_mark(quantize_source *source, file_error *error) {
    const quantize_tensor *found[NAMES];
    for (size_t i = 0; i < source->count; i++) {
        quantize_tensor *const tensor = &source->tensors[i];
        if (!tensor->has_codes && !is_narrow(tensor))
            continue;
        if (find_beside(source, tensor, found, error))
            return -1;
        for (int j = 0; j < NAMES; j++) {
            const int is_own = !tensor->has_codes
                                   ? j != ZERO_POINTS
                                   : j == 0 || (j == ZERO_POINTS && tensor->has_zero_points);
            if (!found[j] || !is_own)
                continue;
            source->tensors[found[j] - source->tensors].owner = tensor;
            tensor->is_scaled = quantize_is_small_float(tensor);
        }
    }
    return 0;
}

/* ---- the scales ---- */

/* The one tensor that has them. */
static const quantize_tensor *choose(const quantize_tensor *tensor,
                                     const quantize_tensor *const found[NAMES], file_error *error) {
    const quantize_tensor *scales = NULL;
    int count = 0;
    for (int i = 0; i < ZERO_POINTS; i++)
        if (found[i] && !names[i].of_input) {
            scales = found[i];
            count++;
        }
    if (count == 1)
        return scales;
    file_error_set(error,
                   "tensor \"%s\" of 8-bit floats has scales in %d tensors beside it; --skip "
                   "leaves all of them as they are",
                   file_printable(tensor->name).text, count);
    return NULL;
}

/* Entries per dimension of the tensor: those of the scales, behind which there may be dimensions of 1. 0, or -1. */
static int entries_of(const quantize_tensor *tensor, const quantize_tensor *scales,
                      int64_t entries[SAFETENSORS_MAX_RANK]) {
    for (int i = 0; i < tensor->rank; i++)
        entries[i] = i < scales->rank ? scales->shape[i] : 1;
    for (int i = tensor->rank; i < scales->rank; i++)
        if (scales->shape[i] != 1)
            return -1;
    return 0;
}

/* How many elements share an entry: all, none, or 128, of the scales that have the tensor's rank; 0 where that fits nothing. */
static int64_t block_of(int64_t extent, int64_t entries, int has_blocks) {
    if (entries == extent)
        return 1;
    if (entries == 1)
        return extent;
    return has_blocks && entries == (extent + BLOCK - 1) / BLOCK ? BLOCK : 0;
}

static int fit(const quantize_tensor *tensor, const quantize_tensor *scales,
               quantized_weight *weight, file_error *error) {
    int64_t entries[SAFETENSORS_MAX_RANK];
    int fits = entries_of(tensor, scales, entries) == 0;
    for (int i = 0; fits && i < tensor->rank; i++) {
        weight->block[i] = block_of(tensor->shape[i], entries[i], scales->rank >= tensor->rank);
        fits = weight->block[i] > 0;
    }
    return fits ? 0
                : file_fail(error,
                            "the scales \"%s\" of tensor \"%s\" are not one for all, nor for "
                            "each index or every 128 of its dimensions; --skip leaves both as they "
                            "are",
                            file_printable(scales->name).text, file_printable(tensor->name).text);
}

int quantize_scaled_read(const quantize_source *source, const quantize_tensor *tensor,
                         quantized_weight *weight, file_error *error) {
    const quantize_tensor *found[NAMES];
    memset(weight, 0, sizeof *weight);
    if (find_beside(source, tensor, found, error))
        return -1;
    const quantize_tensor *const scales = choose(tensor, found, error);
    if (!scales)
        return -1;
    weight->scale_dtype =
        scales->storage == QUANTIZE_PLAIN ? quantize_float_dtype(scales) : TDM_DTYPE_NONE;
    if (weight->scale_dtype == TDM_DTYPE_NONE || weight->scale_dtype == TDM_F64)
        return file_fail(
            error,
            "tensor \"%s\", the scales of \"%s\", is of type %s, not F32, F16 or BF16; "
            "--skip leaves both as they are",
            file_printable(scales->name).text, file_printable(tensor->name).text,
            quantize_storage_name(scales));
    weight->scales = scales->data;
    weight->scale_bytes = scales->bytes;
    weight->floor = scales->floor;
    weight->rank = tensor->rank;
    memcpy(weight->shape, tensor->shape, sizeof weight->shape);
    for (int i = 0; i < ZERO_POINTS; i++)
        weight->bytes_beside += found[i] ? found[i]->bytes : 0;
    return fit(tensor, scales, weight, error);
}
