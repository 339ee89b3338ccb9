#include "cli/quantize/quantize_calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "common/parallel_shares.h"
#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    LANES = 8, /* rows of activations per share */
    MOST_ROWS = LANES * PARALLEL_SHARES,
    HELD_OUTPUTS = 1 << 13, /* of any tensor, 8 MiB of sums */
    HELD_INPUTS = 1 << 13,  /* of any tensor, 4 MiB */
    OUTPUT_BYTES = 2 * MOST_ROWS * (int)sizeof(double),
    INPUT_BYTES = 2 * MOST_ROWS * (int)sizeof(float)
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- the input's parameters ---- */

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

int quantize_input_check(const quantize_activations *activations, const quantize_layer *layer,
                         file_error *error) {
    size_t count;
    const quantize_batch *const batches = quantize_activations_of(activations, layer->name, &count);
    for (size_t i = 0; i < count; i++) {
        const quantize_tensor *const tensor = batches[i].tensor;
        const tdm_dtype dtype = quantize_float_dtype(tensor);
        if (tensor->storage != QUANTIZE_PLAIN || dtype == TDM_DTYPE_NONE || dtype == TDM_F64)
            return file_fail(error, "activations \"%s\" are of type %s, not F32, F16 or BF16",
                             file_printable(tensor->name).text, quantize_storage_name(tensor));
        if (check_width(tensor, layer, error))
            return -1;
    }
    return 0;
}

/* In parts, of which each leaves memory before the next; a moving average is one of whole batches all the same. */
static int observe_batch(tdm_quant_observer *observer, const quantize_tensor *batch,
                         file_error *error) {
    const int64_t total = quantize_element_count(batch);
    for (int64_t first = 0; first < total; first += SLAB_ELEMENTS) {
        const int64_t count = least(SLAB_ELEMENTS, total - first);
        const unsigned char *const data =
            (const unsigned char *)batch->data + quantize_storage_bytes(batch, first);
        tdm_quant_observe_part(observer, 1, first, quantize_float_dtype(batch), data, count);
        quantize_release(batch, first, count);
    }
    tdm_quant_observe_end(observer);
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

int quantize_input_observe(const quantize_activations *activations, const quantize_layer *layer,
                           const tdm_quant_observer_options *options, tdm_dtype dtype,
                           quantize_input *input, file_error *error) {
    const tdm_quant_scheme *const rules =
        tdm_quant_scheme_info(dtype == TDM_U8 ? TDM_QUANT_U8_ACTIVATION : TDM_QUANT_S8_ACTIVATION);
    tdm_quant_reason reason;
    tdm_quant_observer *observer;
    memset(input, 0, sizeof *input);
    input->range = rules->range;
    input->batches = quantize_activations_of(activations, layer->name, &input->batch_count);
    const size_t bytes = tdm_quant_observer_bytes(options);
    void *const memory = malloc(bytes + 1);
    if (!memory)
        return file_fail(error, "out of memory for an observer of %zu bytes", bytes);
    int result = 0;
    if (tdm_quant_observer_init(options, memory, bytes, &observer, &reason))
        result = file_fail(error, "%s", reason.text);
    for (size_t i = 0; result == 0 && i < input->batch_count; i++)
        result = observe_batch(observer, input->batches[i].tensor, error);
    if (result == 0)
        result = check_seen(observer, layer, error);
    if (result == 0)
        input->parameters =
            tdm_quant_observer_parameters(observer, 0, rules->symmetry, rules->range);
    free(memory);
    return result;
}

/* ---- the output's error ---- */

/*
 * All arrays have MOST_ROWS numbers per input or output, zeros where there are fewer rows. Neither the sums nor the inputs take more than half
 * of the weight's bytes, or a few MiB: of many outputs only some are compared, and of many inputs a window is held, those that
 * the part wants that is looked at.
 */
struct quantize_product {
    const quantize_input *input;
    int axis;
    int64_t columns; /* of the weight */
    int64_t inputs;
    int64_t outputs;
    int64_t step;   /* from one output that is compared to the next */
    int64_t window; /* inputs held at one time */
    int64_t held;   /* the first of them, or -1 */
    int64_t total;  /* rows recorded */
    int rows;       /* that are compared */
    float *row;     /* one row's window */
    float *x;       /* window x rows */
    float *x_quantized;
    double *exact; /* outputs compared x rows */
    double *approximate;
    const quantize_part *part; /* that is looked at */
};

static int64_t rows_of(const quantize_tensor *batch, int64_t inputs) {
    return quantize_element_count(batch) / inputs;
}

static int64_t compared(const quantize_product *product) {
    return (product->outputs + product->step - 1) / product->step;
}

/* ---- inputs ---- */

/* Inputs from `first` on of row `row` of all batches after each other, into lane `lane`. */
static void take_row(quantize_product *product, int64_t row, int64_t first, int lane) {
    const quantize_input *const input = product->input;
    const int64_t count = least(product->window, product->inputs - first);
    size_t batch = 0;
    while (row >= rows_of(input->batches[batch].tensor, product->inputs))
        row -= rows_of(input->batches[batch++].tensor, product->inputs);
    const int64_t at = row * product->inputs + first;
    quantize_read_floats(input->batches[batch].tensor, at, count, product->row);
    quantize_release(input->batches[batch].tensor, at, count);
    for (int64_t k = 0; k < count; k++) {
        const float x = product->row[k];
        product->x[k * MOST_ROWS + lane] = x;
        product->x_quantized[k * MOST_ROWS + lane] =
            tdm_quant_fake(x, input->parameters, input->range, NULL);
    }
}

static void hold(quantize_product *product, int64_t first) {
    if (product->held == first)
        return;
    for (int lane = 0; lane < product->rows; lane++)
        take_row(product, product->total * lane / product->rows, first, lane);
    product->held = first;
}

/* ---- memory ---- */

static void plan_product(quantize_product *product, const quantize_tensor *weight) {
    const int64_t half = (int64_t)(weight->bytes / 2);
    const int64_t outputs = half / OUTPUT_BYTES > HELD_OUTPUTS ? half / OUTPUT_BYTES : HELD_OUTPUTS;
    const int64_t inputs = half / INPUT_BYTES > HELD_INPUTS ? half / INPUT_BYTES : HELD_INPUTS;
    product->step = product->outputs > 0 ? (product->outputs - 1) / outputs + 1 : 1;
    product->window = least(product->inputs, inputs);
    product->rows = (int)least(product->total, MOST_ROWS);
    product->held = -1;
}

static int allocate(quantize_product *product) {
    const size_t inputs = (size_t)product->window * MOST_ROWS;
    const size_t outputs = (size_t)compared(product) * MOST_ROWS;
    product->row = calloc((size_t)product->window, sizeof *product->row);
    product->x = calloc(inputs, sizeof *product->x);
    product->x_quantized = calloc(inputs, sizeof *product->x_quantized);
    product->exact = calloc(outputs, sizeof *product->exact);
    product->approximate = calloc(outputs, sizeof *product->approximate);
    return product->row && product->x && product->x_quantized && product->exact &&
                   product->approximate
               ? 0
               : -1;
}

quantize_product *quantize_product_create(const quantize_layer *layer, const quantize_input *input,
                                          file_error *error) {
    const quantize_tensor *const weight = layer->weight;
    const int axis = layer->axis;
    error->text[0] = '\0';
    if (weight->rank != 2)
        return NULL;
    quantize_product *const product = calloc(1, sizeof *product);
    if (product) {
        *product = (quantize_product){.input = input,
                                      .axis = axis,
                                      .columns = weight->shape[1],
                                      .inputs = weight->shape[1 - axis],
                                      .outputs = weight->shape[axis]};
        for (size_t i = 0; i < input->batch_count; i++)
            product->total += rows_of(input->batches[i].tensor, product->inputs);
        plan_product(product, weight);
        if (allocate(product) == 0)
            return product;
    }
    quantize_product_destroy(product);
    file_error_set(error, "out of memory for the output of \"%s\"",
                   file_printable(weight->name).text);
    return NULL;
}

/* ---- sums ---- */

/* Element `at` of the part, which takes input k to the compared output n, in the lanes of a share. */
static void add(const quantize_product *product, int64_t at, int64_t k, int64_t n, int64_t lane) {
    const int64_t input = (k - product->held) * MOST_ROWS + lane;
    const int64_t output = n * MOST_ROWS + lane;
    const float *const x = product->x + input;
    const float *const x_quantized = product->x_quantized + input;
    double *const exact = product->exact + output;
    double *const approximate = product->approximate + output;
    const double before = (double)product->part->before[at];
    const double after = (double)product->part->after[at];
    for (int j = 0; j < LANES; j++) {
        exact[j] += before * (double)x[j];
        approximate[j] += after * (double)x_quantized[j];
    }
}

/* `count` elements of the part from `at` on, which lie in row `row` of the weight from column `column` on. */
static void add_run(const quantize_product *product, int64_t at, int64_t row, int64_t column,
                    int64_t count, int64_t lane) {
    const int64_t step = product->step;
    if (product->axis == 0) {
        for (int64_t i = 0; i < count && row % step == 0; i++)
            add(product, at + i, column + i, row / step, lane);
        return;
    }
    for (int64_t i = (step - column % step) % step; i < count; i += step)
        add(product, at + i, row, (column + i) / step, lane);
}

/* Row i of a part. */
static void see_row(const quantize_product *product, int64_t i, int64_t lane) {
    const quantize_part *const part = product->part;
    const int64_t first = part->first + i * part->stride;
    int64_t row = first / product->columns;
    int64_t column = first % product->columns;
    for (int64_t done = 0; done < part->columns; column = 0, row++) {
        const int64_t count = least(product->columns - column, part->columns - done);
        add_run(product, i * part->columns + done, row, column, count, lane);
        done += count;
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

static void see_held(quantize_product *product, const quantize_part *part) {
    product->part = part;
    parallel_shares(see_share, product);
}

/* Elements that follow each other, in pieces whose inputs are held. */
static void see_line(quantize_product *product, const quantize_part *line) {
    const int64_t columns = product->columns;
    for (int64_t done = 0; done < line->columns;) {
        const int64_t at = line->first + done;
        const int64_t k = product->axis == 0 ? at % columns : at / columns;
        const int64_t first = k - k % product->window;
        const int64_t end = least(first + product->window, product->inputs);
        const int64_t room = product->axis == 0 ? end - k : end * columns - at;
        const int64_t count = least(room, line->columns - done);
        const quantize_part piece = {.first = at,
                                     .rows = 1,
                                     .columns = count,
                                     .stride = count,
                                     .before = line->before + done,
                                     .after = line->after + done};
        hold(product, first);
        see_held(product, &piece);
        done += count;
    }
}

void quantize_product_see(void *user, const quantize_part *part) {
    quantize_product *const product = user;
    if (product->window == product->inputs) {
        hold(product, 0);
        see_held(product, part);
        return;
    }
    const int is_line = part->stride == part->columns;
    for (int64_t i = 0; i < (is_line ? 1 : part->rows); i++) {
        const quantize_part line = {.first = part->first + i * part->stride,
                                    .rows = 1,
                                    .columns = part->columns * (is_line ? part->rows : 1),
                                    .before = part->before + i * part->columns,
                                    .after = part->after + i * part->columns};
        see_line(product, &line);
    }
}

tdm_quant_error quantize_product_error(const quantize_product *product) {
    tdm_quant_error error;
    memset(&error, 0, sizeof error);
    for (int64_t n = 0; n < compared(product); n++) {
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
    free(product->row);
    free(product->x);
    free(product->x_quantized);
    free(product->exact);
    free(product->approximate);
    free(product);
}
