#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mlp_model.h"
#include "bench/safetensors.h"
#include "quant/number_formats.h"

static const char weight_suffix[] = ".weight";

/* ---- values of a tensor ---- */

static tdm_dtype dtype_of(safetensors_dtype dtype) {
    static const struct {
        safetensors_dtype file;
        tdm_dtype library;
    } rows[] = {
        {SAFETENSORS_F32, TDM_F32}, {SAFETENSORS_F16, TDM_F16}, {SAFETENSORS_BF16, TDM_BF16},
        {SAFETENSORS_F64, TDM_F64}, {SAFETENSORS_I32, TDM_S32}, {SAFETENSORS_I8, TDM_S8},
        {SAFETENSORS_U8, TDM_U8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].file == dtype)
            return rows[i].library;
    return TDM_DTYPE_NONE;
}

/* Values times `scale`, rounded to f32; NULL with the reason on failure. */
static float *values_of(const safetensors_tensor *tensor, double scale, mlp_error *error) {
    const tdm_dtype dtype = dtype_of(tensor->dtype);
    if (dtype == TDM_DTYPE_NONE) {
        mlp_set_error(error, "tensor \"%s\" has the dtype %s, which infer does not read",
                      tensor->name, safetensors_dtype_name(tensor->dtype));
        return NULL;
    }
    const size_t count = tensor->bytes / safetensors_dtype_bytes(tensor->dtype);
    float *const values = malloc((count + 1) * sizeof *values);
    if (!values) {
        mlp_set_error(error, "out of memory for %zu values of tensor \"%s\"", count, tensor->name);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(scale * tdm_number_get(dtype, tensor->data, i));
        if (!isfinite(values[i])) {
            mlp_set_error(error, "value %zu of tensor \"%s\" is not finite in f32", i,
                          tensor->name);
            free(values);
            return NULL;
        }
    }
    return values;
}

/* Element of an integer tensor; -1 for what no label can be. */
static int64_t label_of(const safetensors_tensor *tensor, size_t index) {
    int64_t label;
    if (tensor->dtype != SAFETENSORS_I64)
        return (int64_t)tdm_number_get(dtype_of(tensor->dtype), tensor->data, index);
    memcpy(&label, (const char *)tensor->data + index * sizeof label, sizeof label);
    return label;
}

/* ---- layers ---- */

static int is_weight(const safetensors_tensor *tensor) {
    const size_t length = strlen(tensor->name);
    const size_t suffix = sizeof weight_suffix - 1;
    return length > suffix && !strcmp(tensor->name + length - suffix, weight_suffix);
}

static int compare_layers(const void *left, const void *right) {
    const safetensors_tensor *const *a = left;
    const safetensors_tensor *const *b = right;
    return strverscmp((*a)->name, (*b)->name);
}

/* The bias of a weight's layer, NULL when it has none. */
static const safetensors_tensor *bias_of(const safetensors_file *file,
                                         const safetensors_tensor *weight) {
    char name[256];
    const int stem = (int)(strlen(weight->name) - (sizeof weight_suffix - 1));
    if (snprintf(name, sizeof name, "%.*s.bias", stem, weight->name) >= (int)sizeof name)
        return NULL;
    return safetensors_find(file, name);
}

static int read_layer(const safetensors_file *file, const safetensors_tensor *weight,
                      mlp_model *model, size_t *used, mlp_error *error) {
    if (weight->rank != 2 || weight->shape[0] < 1 || weight->shape[1] < 1)
        return mlp_fail(error, "tensor \"%s\" is no matrix of weights", weight->name);
    if (model->layer_count > 0 && mlp_model_outputs(model) != weight->shape[1])
        return mlp_fail(error, "tensor \"%s\" takes %lld inputs, but the layer before gives %lld",
                        weight->name, (long long)weight->shape[1],
                        (long long)mlp_model_outputs(model));
    mlp_layer *const layer = &model->layers[model->layer_count++];
    layer->outputs = weight->shape[0];
    layer->inputs = weight->shape[1];
    layer->weight = values_of(weight, 1.0, error);
    *used += 1;
    const safetensors_tensor *const bias = bias_of(file, weight);
    if (!layer->weight || !bias)
        return layer->weight ? 0 : -1;
    if (bias->rank != 1 || bias->shape[0] != layer->outputs)
        return mlp_fail(error, "tensor \"%s\" is no bias of %lld values", bias->name,
                        (long long)layer->outputs);
    layer->bias = values_of(bias, 1.0, error);
    *used += 1;
    return layer->bias ? 0 : -1;
}

static int read_layers(const safetensors_file *file, mlp_model *model, mlp_error *error) {
    const safetensors_tensor *weights[MLP_MAX_LAYERS];
    int count = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const safetensors_tensor *const tensor = safetensors_at(file, i);
        if (!is_weight(tensor))
            continue;
        if (count == MLP_MAX_LAYERS)
            return mlp_fail(error, "the model has more than %d layers", MLP_MAX_LAYERS);
        weights[count++] = tensor;
    }
    if (count == 0)
        return mlp_fail(error, "the model has no tensor named \"<layer>.weight\"");
    qsort(weights, (size_t)count, sizeof *weights, compare_layers);
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (read_layer(file, weights[i], model, &used, error))
            return -1;
    if (used != safetensors_count(file))
        return mlp_fail(error, "%zu tensors of the model are neither weight nor bias of a layer",
                        safetensors_count(file) - used);
    return 0;
}

/* ---- metadata ---- */

/* An optional positive number; `missing` when the key is not there. */
static int read_number(const safetensors_file *file, const char *key, double missing, double *value,
                       mlp_error *error) {
    const char *const text = safetensors_metadata(file, key);
    *value = missing;
    if (!text)
        return 0;
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || *value <= 0.0)
        return mlp_fail(error, "the metadata \"%s\" is \"%.40s\", not a positive number", key,
                        text);
    return 0;
}

static int read_activation(const safetensors_file *file, tdm_activation *activation,
                           mlp_error *error) {
    static const struct {
        const char *name;
        tdm_activation value;
    } rows[] = {
#define MLP_ACTIVATION_ROW(name, value, text) {text, name},
        TDM_ACTIVATION_LIST(MLP_ACTIVATION_ROW)
#undef MLP_ACTIVATION_ROW
    };
    const char *const text = safetensors_metadata(file, "activation");
    for (size_t i = 0; text && i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(text, rows[i].name)) {
            *activation = rows[i].value;
            return 0;
        }
    return mlp_fail(error, "the metadata \"activation\" is \"%.40s\", which is none that infer has",
                    text ? text : "");
}

static int read_metadata(const safetensors_file *file, mlp_model *model, mlp_error *error) {
    const char *const architecture = safetensors_metadata(file, "architecture");
    if (!architecture || strcmp(architecture, "mlp"))
        return mlp_fail(error, "the metadata \"architecture\" is \"%.40s\", not \"mlp\"",
                        architecture ? architecture : "");
    if (read_activation(file, &model->activation, error) ||
        read_number(file, "input_scale", 1.0, &model->input_scale, error) ||
        read_number(file, "heldout_accuracy", NAN, &model->recorded_accuracy, error))
        return -1;
    if (model->recorded_accuracy > 1.0)
        return mlp_fail(error, "the metadata \"heldout_accuracy\" is above 1");
    return 0;
}

/* ---- files ---- */

static int open_file(const char *directory, const char *name, safetensors_file **file,
                     mlp_error *error) {
    char path[4096];
    safetensors_error reason;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return mlp_fail(error, "the path of %s is too long", name);
    return safetensors_open(path, file, &reason) ? mlp_fail(error, "%s", reason.text) : 0;
}

/* The last part of a path, without slashes behind it. */
static void name_model(const char *directory, mlp_model *model) {
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    snprintf(model->name, sizeof model->name, "%.*s", (int)(end - begin), directory + begin);
}

int mlp_model_load(const char *directory, mlp_model *model, mlp_error *error) {
    safetensors_file *file;
    memset(model, 0, sizeof *model);
    name_model(directory, model);
    if (open_file(directory, "model.safetensors", &file, error))
        return -1;
    const int result =
        read_metadata(file, model, error) || read_layers(file, model, error) ? -1 : 0;
    safetensors_close(file);
    return result;
}

static int read_labels(const safetensors_tensor *tensor, int64_t classes, mlp_samples *samples,
                       mlp_error *error) {
    if (tensor->rank != 1 || tensor->shape[0] != samples->count)
        return mlp_fail(error, "\"labels\" is no list of %lld labels", (long long)samples->count);
    if (tensor->dtype != SAFETENSORS_I64 && tensor->dtype != SAFETENSORS_I32 &&
        tensor->dtype != SAFETENSORS_U8)
        return mlp_fail(error, "\"labels\" has the dtype %s; infer reads I64, I32 and U8",
                        safetensors_dtype_name(tensor->dtype));
    samples->labels = malloc((size_t)samples->count * sizeof *samples->labels);
    if (!samples->labels)
        return mlp_fail(error, "out of memory for %lld labels", (long long)samples->count);
    for (int64_t i = 0; i < samples->count; i++) {
        const int64_t label = label_of(tensor, (size_t)i);
        if (label < 0 || label >= classes)
            return mlp_fail(error, "label %lld is %lld, but the model has %lld outputs",
                            (long long)i, (long long)label, (long long)classes);
        samples->labels[i] = (int32_t)label;
    }
    return 0;
}

static int read_samples(const safetensors_file *file, const mlp_model *model, mlp_samples *samples,
                        mlp_error *error) {
    const safetensors_tensor *const images = safetensors_find(file, "images");
    const safetensors_tensor *const labels = safetensors_find(file, "labels");
    if (!images || images->rank != 2 || images->shape[0] < 1 || !labels)
        return mlp_fail(error,
                        "the held-out file has no \"images\" of two dimensions and \"labels\"");
    if (images->shape[1] != mlp_model_inputs(model))
        return mlp_fail(error, "\"images\" has %lld values each, but the model takes %lld",
                        (long long)images->shape[1], (long long)mlp_model_inputs(model));
    samples->count = images->shape[0];
    samples->width = images->shape[1];
    samples->inputs = values_of(images, model->input_scale, error);
    if (!samples->inputs)
        return -1;
    return read_labels(labels, mlp_model_outputs(model), samples, error);
}

int mlp_samples_load(const char *directory, const mlp_model *model, mlp_samples *samples,
                     mlp_error *error) {
    safetensors_file *file;
    memset(samples, 0, sizeof *samples);
    if (open_file(directory, "heldout.safetensors", &file, error))
        return -1;
    const int result = read_samples(file, model, samples, error);
    safetensors_close(file);
    return result;
}
