#include "bench/quantize_calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "bench/parallel_shares.h"
#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    LANES = 8, /* rows of activations per share */
    MOST_ROWS = LANES * PARALLEL_SHARES
};

/* ---- the input's parameters ---- */

static int compare_batches(const void *left, const void *right) {
    const quantize_tensor *const *a = left;
    const quantize_tensor *const *b = right;
    return strverscmp((*a)->name, (*b)->name);
}

/* Rows of a matrix's inputs; what goes into other weights need only have a dimension. */
static int check_width(const quantize_tensor *batch, const quantize_layer *layer,
                       file_error *error) {
    const file_name name = file_printable(batch->name);
    const quantize_tensor *const weight = layer->weight;
    if (batch->rank == 0)
        return file_fail(error,
                         "activations \"%s\" are a scalar, no rows of inputs of layer \"%s\"",
                         name.text, file_printable(layer->name).text);
    const int64_t width = batch->shape[batch->rank - 1];
    if (weight->rank == 2 && width != weight->shape[1 - layer->axis])
        return file_fail(error,
                         "activations \"%s\" have rows of %lld, but layer \"%s\" has %lld inputs",
                         name.text, (long long)width, file_printable(layer->name).text,
                         (long long)weight->shape[1 - layer->axis]);
    return 0;
}

static int find_batches(const quantize_source *activations, const quantize_layer *layer,
                        quantize_input *input, file_error *error) {
    input->batches = calloc(activations->count + 1, sizeof *input->batches);
    if (!input->batches)
        return file_fail(error, "out of memory for the activations of \"%s\"",
                         file_printable(layer->name).text);
    for (size_t i = 0; i < activations->count; i++) {
        const quantize_tensor *const tensor = &activations->tensors[i];
        if (!quantize_is_activation(tensor->name, layer->name))
            continue;
        const tdm_dtype dtype = quantize_float_dtype(tensor);
        if (tensor->storage != QUANTIZE_PLAIN || dtype == TDM_DTYPE_NONE || dtype == TDM_F64)
            return file_fail(error, "activations \"%s\" are of type %s, not F32, F16 or BF16",
                             file_printable(tensor->name).text, quantize_storage_name(tensor));
        if (check_width(tensor, layer, error))
            return -1;
        input->batches[input->batch_count++] = tensor;
    }
    qsort(input->batches, input->batch_count, sizeof *input->batches, compare_batches);
    return 0;
}

/* A moving average is one of whole batches; the other kinds do not mind how the data is cut. */
static int observe_batch(tdm_quant_observer *observer, const tdm_quant_observer_options *options,
                         const quantize_tensor *batch, file_error *error) {
    const int64_t total = quantize_element_count(batch);
    const int64_t slab = options->kind == TDM_QUANT_OBSERVE_MOVING_AVERAGE ? total : SLAB_ELEMENTS;
    tdm_quant_reason reason;
    for (int64_t first = 0; first < total; first += slab) {
        const int64_t count = total - first < slab ? total - first : slab;
        const unsigned char *const data =
            (const unsigned char *)batch->data + quantize_storage_bytes(batch, first);
        if (tdm_quant_observe(observer, quantize_float_dtype(batch), data, count, &reason))
            return file_fail(error, "activations \"%s\": %s", file_printable(batch->name).text,
                             reason.text);
        quantize_release(batch, first, count);
    }
    const tdm_quant_seen seen = tdm_quant_observer_seen(observer);
    if (seen.nans + seen.infinities > 0)
        return file_fail(error, "activations \"%s\" have %llu numbers that are not finite",
                         file_printable(batch->name).text,
                         (unsigned long long)(seen.nans + seen.infinities));
    return 0;
}

static int check_seen(const tdm_quant_observer *observer, const quantize_layer *layer,
                      file_error *error) {
    if (tdm_quant_observer_seen(observer).numbers > 0)
        return 0;
    return file_fail(error, "the activations of layer \"%s\" hold no number",
                     file_printable(layer->name).text);
}

int quantize_input_observe(const quantize_source *activations, const quantize_layer *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error) {
    const tdm_quant_scheme *const rules =
        tdm_quant_scheme_info(dtype == TDM_U8 ? TDM_QUANT_U8_ACTIVATION : TDM_QUANT_S8_ACTIVATION);
    tdm_quant_reason reason;
    tdm_quant_observer *observer;
    memset(input, 0, sizeof *input);
    input->range = rules->range;
    if (find_batches(activations, layer, input, error))
        return -1;
    const size_t bytes = tdm_quant_observer_bytes(options);
    void *const memory = malloc(bytes + 1);
    if (!memory)
        return file_fail(error, "out of memory for an observer of %zu bytes", bytes);
    int result = 0;
    if (tdm_quant_observer_init(options, memory, bytes, &observer, &reason))
        result = file_fail(error, "%s", reason.text);
    for (size_t i = 0; result == 0 && i < input->batch_count; i++)
        result = observe_batch(observer, options, input->batches[i], error);
    if (result == 0)
        result = check_seen(observer, layer, error);
    if (result == 0)
        input->parameters =
            tdm_quant_observer_parameters(observer, 0, rules->symmetry, rules->range);
    free(memory);
    return result;
}

void quantize_input_release(quantize_input *input) {
    free(input->batches);
    memset(input, 0, sizeof *input);
}

/* ---- the output's error ---- */

/* All arrays have MOST_ROWS numbers per input or output, zeros where there are fewer rows. */
struct quantize_product {
    int axis;
    int64_t columns; /* of the weight */
    int64_t inputs;
    int64_t outputs;
    int rows;
    float *x; /* inputs x rows */
    float *x_quantized;
    double *exact; /* outputs x rows */
    double *approximate;
    const quantize_part *part; /* that is looked at */
};

static int64_t rows_of(const quantize_tensor *batch, int64_t inputs) {
    return quantize_element_count(batch) / inputs;
}

/* Row `row` of all batches after each other, into lane `lane`. */
static void take_row(quantize_product *product, const quantize_input *input, int64_t row, int lane,
                     float *buffer) {
    size_t batch = 0;
    while (row >= rows_of(input->batches[batch], product->inputs))
        row -= rows_of(input->batches[batch++], product->inputs);
    quantize_read_floats(input->batches[batch], row * product->inputs, product->inputs, buffer);
    for (int64_t k = 0; k < product->inputs; k++) {
        const int64_t at = k * MOST_ROWS + lane;
        product->x[at] = buffer[k];
        product->x_quantized[at] = tdm_quant_fake(buffer[k], input->parameters, input->range, NULL);
    }
    quantize_release(input->batches[batch], row * product->inputs, product->inputs);
}

static int take_rows(quantize_product *product, const quantize_input *input, int64_t total) {
    float *const buffer = calloc((size_t)product->inputs, sizeof *buffer);
    if (!buffer)
        return -1;
    for (int lane = 0; lane < product->rows; lane++)
        take_row(product, input, total * lane / product->rows, lane, buffer);
    free(buffer);
    return 0;
}

quantize_product *quantize_product_create(const quantize_layer *layer, const quantize_input *input,
                                          file_error *error) {
    const quantize_tensor *const weight = layer->weight;
    const int axis = layer->axis;
    int64_t total = 0;
    error->text[0] = '\0';
    if (weight->rank != 2)
        return NULL;
    for (size_t i = 0; i < input->batch_count; i++)
        total += rows_of(input->batches[i], weight->shape[1 - axis]);
    quantize_product *const product = calloc(1, sizeof *product);
    if (product) {
        *product = (quantize_product){.axis = axis,
                                      .columns = weight->shape[1],
                                      .inputs = weight->shape[1 - axis],
                                      .outputs = weight->shape[axis],
                                      .rows = total < MOST_ROWS ? (int)total : MOST_ROWS};
        const size_t inputs = (size_t)product->inputs * MOST_ROWS;
        const size_t outputs = (size_t)product->outputs * MOST_ROWS;
        product->x = calloc(inputs, sizeof *product->x);
        product->x_quantized = calloc(inputs, sizeof *product->x_quantized);
        product->exact = calloc(outputs, sizeof *product->exact);
        product->approximate = calloc(outputs, sizeof *product->approximate);
    }
    if (product && product->x && product->x_quantized && product->exact && product->approximate &&
        take_rows(product, input, total) == 0)
        return product;
    quantize_product_destroy(product);
    file_error_set(error, "out of memory for the output of \"%s\"",
                   file_printable(weight->name).text);
    return NULL;
}

/* Row i of a part, in the lanes of a share. */
static void see_row(const quantize_product *product, int64_t i, int64_t lane) {
    const quantize_part *const part = product->part;
    const int64_t first = part->first + i * part->stride;
    int64_t row = first / product->columns;
    int64_t column = first % product->columns;
    for (int64_t at = i * part->columns; at < (i + 1) * part->columns; at++) {
        const int64_t k = product->axis == 0 ? column : row;
        const int64_t n = product->axis == 0 ? row : column;
        const float *const x = product->x + k * MOST_ROWS + lane;
        const float *const x_quantized = product->x_quantized + k * MOST_ROWS + lane;
        double *const exact = product->exact + n * MOST_ROWS + lane;
        double *const approximate = product->approximate + n * MOST_ROWS + lane;
        const double before = (double)part->before[at];
        const double after = (double)part->after[at];
        for (int j = 0; j < LANES; j++) {
            exact[j] += before * (double)x[j];
            approximate[j] += after * (double)x_quantized[j];
        }
        if (++column == product->columns) {
            column = 0;
            row++;
        }
    }
}

/* Each share has lanes of its own, so that none adds where another does. */
static void see_share(void *context, int share) {
    const quantize_product *const product = context;
    const int64_t lane = (int64_t)share * LANES;
    if (lane >= product->rows)
        return;
    for (int64_t i = 0; i < product->part->rows; i++)
        see_row(product, i, lane);
}

void quantize_product_see(void *user, const quantize_part *part) {
    quantize_product *const product = user;
    product->part = part;
    parallel_shares(see_share, product);
}

tdm_quant_error quantize_product_error(const quantize_product *product) {
    tdm_quant_error error;
    memset(&error, 0, sizeof error);
    for (int64_t n = 0; n < product->outputs; n++) {
        float exact[MOST_ROWS];
        float approximate[MOST_ROWS];
        for (int m = 0; m < product->rows; m++) {
            exact[m] = (float)product->exact[n * MOST_ROWS + m];
            approximate[m] = (float)product->approximate[n * MOST_ROWS + m];
        }
        tdm_quant_error_add(&error, exact, approximate, (size_t)product->rows);
    }
    return error;
}

void quantize_product_destroy(quantize_product *product) {
    if (!product)
        return;
    free(product->x);
    free(product->x_quantized);
    free(product->exact);
    free(product->approximate);
    free(product);
}
