#include "bench/predict/predict_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/cases/gemm_case.h"
#include "formats/json_file.h"

#define LARGEST_SIZE 1e15

/* ---- sizes ----------------------------------------------------------------------------------------- */

/* One factor of a product; NaN when it is none. */
static double read_factor(const char *text, size_t length, const predict_workload *workload) {
    char word[32];
    char *end = NULL;
    if (length == 0 || length >= sizeof word)
        return NAN;
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (strcmp(word, "batch") == 0)
        return workload->batch;
    if (strcmp(word, "context") == 0)
        return workload->context;
    if (strspn(word, "0123456789.e") != length)
        return NAN;
    const double value = strtod(word, &end);
    return *end == '\0' ? value : NAN;
}

static double read_product(const char *text, const predict_workload *workload) {
    double product = 1;
    while (!isnan(product)) {
        const size_t length = strcspn(text, "*");
        product *= read_factor(text, length, workload);
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    return product;
}

/* `fallback` where there is no such member; NaN: there must be one. */
static int read_size(const cJSON *object, const char *key, double fallback,
                     const predict_workload *workload, const json_place *place, double *size,
                     file_error *error) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    *size = fallback;
    if (item == NULL || cJSON_IsNull(item))
        return isnan(fallback) ? json_fail(place, error, "member \"%s\" is missing", key) : 0;
    if (cJSON_IsNumber(item))
        *size = item->valuedouble;
    else if (cJSON_IsString(item))
        *size = read_product(item->valuestring, workload);
    else
        *size = NAN;
    if (*size >= 0 && *size <= LARGEST_SIZE)
        return 0;
    return json_fail(place, error,
                     "member \"%s\" is no size: a number up to 1e15, or a product of numbers, "
                     "batch and context",
                     key);
}

/* ---- operations ------------------------------------------------------------------------------------ */

static int read_flag(const cJSON *object, const char *key, const json_place *place, int *flag,
                     file_error *error) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    *flag = cJSON_IsTrue(item);
    if (item == NULL || cJSON_IsBool(item))
        return 0;
    return json_fail(place, error, "member \"%s\" is neither true nor false", key);
}

static int read_dimensions(const cJSON *item, const predict_workload *workload,
                           const json_place *place, gemm_case *product, file_error *error) {
    static const char *const keys[] = {"m", "n", "k", "batch"};
    int64_t *const sides[] = {&product->m, &product->n, &product->k, &product->batch};
    for (int i = 0; i < 4; i++) {
        double size = 0;
        if (read_size(item, keys[i], i == 3 ? 1 : NAN, workload, place, &size, error) != 0)
            return -1;
        if (!(size >= 1 && size <= 1e9) || size != floor(size))
            return json_fail(place, error, "member \"%s\" is %.10g, not a whole number to 1e9",
                             keys[i], size);
        *sides[i] = (int64_t)size;
    }
    return 0;
}

static double bits_of(tdm_dtype dtype) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(dtype);
    return traits == NULL ? 0 : traits->bits;
}

/* Bytes of all matrices of one operand, with the scales of B. */
static double operand_bytes(const gemm_case *item, op_gemm_operand operand) {
    const double rows = (double)(operand == OP_GEMM_B ? item->k : item->m);
    const double columns = (double)(operand == OP_GEMM_A ? item->k : item->n);
    const double group = (double)gemm_types_group(item->types);
    double bits = bits_of(gemm_types_dtype(item->types, operand)) * rows * columns;
    if (operand == OP_GEMM_B)
        bits +=
            bits_of(gemm_types_scale(item->types)) * columns * (group > 0 ? ceil(rows / group) : 1);
    return (double)item->batch * bits / 8;
}

static int read_product_operation(const cJSON *item, const predict_workload *workload,
                                  const json_place *place, workload_operation *operation,
                                  file_error *error) {
    gemm_case product = {.types = GEMM_NO_TYPES};
    const char *dtype = NULL;
    int weights = 0;
    if (read_flag(item, "weights", place, &weights, error) != 0 ||
        json_get_text(item, "dtype", JSON_REQUIRED, place, &dtype, error) != 0 ||
        read_dimensions(item, workload, place, &product, error) != 0)
        return -1;
    if (strcmp(dtype, "weights") == 0)
        dtype = workload->weights;
    product.types = gemm_types_find(dtype);
    if (product.types == GEMM_NO_TYPES)
        return json_fail(place, error, "the dtype '%s' is none of %s", file_printable(dtype).text,
                         gemm_types_choices);
    predict_work *const work = &operation->work;
    const double m = (double)product.m;
    const double n = (double)product.n;
    const double b_bytes = operand_bytes(&product, OP_GEMM_B);
    work->dtype = gemm_types_name(product.types);
    work->m = m;
    work->n = n;
    work->k = (double)product.k;
    work->flops = 2 * m * n * work->k * (double)product.batch;
    work->read_bytes =
        operand_bytes(&product, OP_GEMM_A) + b_bytes + operand_bytes(&product, OP_GEMM_D);
    operation->weight_bytes = weights ? b_bytes : 0;
    predict_product_key(work->key, m, n, work->dtype, weights ? "prepacked" : "inside");
    return 0;
}

static int read_stream_operation(const cJSON *item, const predict_workload *workload,
                                 const json_place *place, workload_operation *operation,
                                 file_error *error) {
    predict_work *const work = &operation->work;
    snprintf(work->key, sizeof work->key, "stream");
    if (read_flag(item, "resident", place, &operation->resident, error) != 0 ||
        read_size(item, "reads", NAN, workload, place, &work->read_bytes, error) != 0 ||
        read_size(item, "writes", NAN, workload, place, &work->write_bytes, error) != 0)
        return -1;
    return work->read_bytes + work->write_bytes > 0
               ? 0
               : json_fail(place, error, "it neither reads nor writes");
}

static int read_operation(const cJSON *item, const char *path, size_t number,
                          const predict_workload *workload, workload_operation *operation,
                          file_error *error) {
    char part[WORKLOAD_MAX_NAME + 32];
    const json_place place = {path, part};
    const char *op = NULL;
    const char *name = NULL;
    snprintf(part, sizeof part, "operation %zu", number);
    *operation = (workload_operation){.count = 1};
    operation->work = (predict_work){.m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    if (!cJSON_IsObject(item))
        return json_fail(&place, error, "it is no object");
    if (json_get_text(item, "op", JSON_REQUIRED, &place, &op, error) != 0 ||
        json_get_text(item, "name", JSON_REQUIRED, &place, &name, error) != 0 ||
        read_size(item, "count", 1, workload, &place, &operation->count, error) != 0)
        return -1;
    if (!(operation->count > 0))
        return json_fail(&place, error, "member \"count\" is 0, which is no number of calls");
    snprintf(operation->name, sizeof operation->name, "%s", name);
    if (strcmp(op, "gemm") == 0)
        return read_product_operation(item, workload, &place, operation, error);
    if (strcmp(op, "stream") == 0)
        return read_stream_operation(item, workload, &place, operation, error);
    return json_fail(&place, error, "the op '%s' is neither gemm nor stream",
                     file_printable(op).text);
}

static int read_operations(const cJSON *root, const char *path, predict_workload *workload,
                           file_error *error) {
    const json_place place = {path, NULL};
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(root, "operations");
    const cJSON *item;
    if (!cJSON_IsArray(list) || list->child == NULL)
        return json_fail(&place, error, "member \"operations\" is no list of operations");
    cJSON_ArrayForEach(item, list) {
        if (workload->operation_count == WORKLOAD_MAX_OPERATIONS)
            return json_fail(&place, error, "it has more than %d operations",
                             WORKLOAD_MAX_OPERATIONS);
        workload_operation *const operation = &workload->operations[workload->operation_count++];
        if (read_operation(item, path, workload->operation_count, workload, operation, error) != 0)
            return -1;
        workload->weight_bytes += operation->count * operation->weight_bytes;
    }
    return 0;
}

/* Weights stand in main memory among all the others, as do keys and values; what is computed was touched just before. */
static void set_working_sets(predict_workload *workload) {
    for (size_t i = 0; i < workload->operation_count; i++) {
        workload_operation *const operation = &workload->operations[i];
        predict_work *const work = &operation->work;
        work->working_set = work->read_bytes + work->write_bytes;
        if (operation->weight_bytes > 0)
            work->working_set = fmax(work->working_set, workload->weight_bytes);
        if (operation->resident)
            work->working_set =
                fmax(work->working_set, workload->weight_bytes + workload->resident_bytes);
    }
}

/* ---- the rest of the file -------------------------------------------------------------------------- */

static int read_resident(const cJSON *root, const char *path, predict_workload *workload,
                         file_error *error) {
    const json_place place = {path, "resident"};
    const cJSON *const list = cJSON_GetObjectItemCaseSensitive(root, "resident");
    const cJSON *item;
    if (list != NULL && !cJSON_IsArray(list))
        return json_fail(&place, error, "it is no list");
    cJSON_ArrayForEach(item, list) {
        const char *what = NULL;
        double bytes = 0;
        if (json_get_text(item, "what", JSON_REQUIRED, &place, &what, error) != 0 ||
            read_size(item, "bytes", NAN, workload, &place, &bytes, error) != 0)
            return -1;
        workload->resident_bytes += bytes;
        if (strcmp(what, "keys and values") == 0)
            workload->kv_bytes += bytes;
    }
    return 0;
}

static int read_header(const cJSON *root, const char *path, const workload_settings *settings,
                       predict_workload *workload, file_error *error) {
    const json_place place = {path, NULL};
    const char *schema = NULL;
    const char *name = NULL;
    const char *weights = NULL;
    if (!cJSON_IsObject(root))
        return json_fail(&place, error, "it is no object");
    if (json_get_text(root, "schema", JSON_REQUIRED, &place, &schema, error) != 0)
        return -1;
    if (strcmp(schema, "tandem-workload/1") != 0)
        return json_fail(&place, error, "its schema is '%s', not tandem-workload/1",
                         file_printable(schema).text);
    if (json_get_text(root, "name", JSON_REQUIRED, &place, &name, error) != 0 ||
        json_get_text(root, "weights", JSON_MAY_BE_NULL, &place, &weights, error) != 0 ||
        read_size(root, "batch", 1, workload, &place, &workload->batch, error) != 0 ||
        read_size(root, "context", 1, workload, &place, &workload->context, error) != 0)
        return -1;
    if (settings->batch > 0)
        workload->batch = (double)settings->batch;
    if (settings->context > 0)
        workload->context = (double)settings->context;
    if (settings->weights != NULL)
        weights = settings->weights;
    snprintf(workload->name, sizeof workload->name, "%s", name);
    snprintf(workload->weights, sizeof workload->weights, "%s", weights == NULL ? "f32" : weights);
    return read_size(root, "tokens", 0, workload, &place, &workload->tokens, error);
}

static cJSON *open_workload(const char *name, file_error *error) {
    for (const workload_text *each = workload_texts; each->name != NULL; each++) {
        if (strcmp(each->name, name) == 0)
            return json_text_read(name, each->text, each->length, error);
    }
    return json_file_read(name, error);
}

int predict_workload_read(const char *name, const workload_settings *settings,
                          predict_workload *workload, file_error *error) {
    cJSON *const root = open_workload(name, error);
    *workload = (predict_workload){.batch = 1, .context = 1};
    if (root == NULL)
        return -1;
    int status = read_header(root, name, settings, workload, error);
    if (status == 0)
        status = read_resident(root, name, workload, error);
    if (status == 0)
        status = read_operations(root, name, workload, error);
    if (status == 0 && !(workload->tokens > 0))
        workload->tokens = NAN;
    set_working_sets(workload);
    cJSON_Delete(root);
    return status;
}
