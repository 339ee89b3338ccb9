#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/mlp/mlp_model.h"
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

/* Returns the values of a plain tensor times `scale`, rounded to f32, or NULL and the reason. */
static float *values_of(const quantize_tensor *tensor, double scale, file_error *error) {
    const tdm_dtype dtype = dtype_of(tensor->dtype);
    if (dtype == TDM_DTYPE_NONE || tensor->storage != QUANTIZE_PLAIN) {
        file_error_set(error, "tensor \"%s\" has the dtype %s, which infer does not support",
                       file_printable(tensor->name).text, quantize_storage_name(tensor));
        return NULL;
    }
    const size_t count = tensor->bytes / safetensors_dtype_bytes(tensor->dtype);
    float *const values = malloc((count + 1) * sizeof *values);
    if (!values) {
        file_error_set(error, "out of memory for %zu values of tensor \"%s\"", count,
                       file_printable(tensor->name).text);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(scale * tdm_number_get(dtype, tensor->data, i));
        if (!isfinite(values[i])) {
            file_error_set(error, "value %zu of tensor \"%s\" is not finite in f32", i,
                           file_printable(tensor->name).text);
            free(values);
            return NULL;
        }
    }
    return values;
}

/* Returns an element of an integer tensor. */
static int64_t label_of(const quantize_tensor *tensor, size_t index) {
    int64_t label;
    if (tensor->dtype != SAFETENSORS_I64)
        return (int64_t)tdm_number_get(dtype_of(tensor->dtype), tensor->data, index);
    memcpy(&label, (const char *)tensor->data + index * sizeof label, sizeof label);
    return label;
}

/* ---- layers ---- */

static int is_weight(const quantize_tensor *tensor) {
    const size_t length = strlen(tensor->name);
    const size_t suffix = sizeof weight_suffix - 1;
    return length > suffix && !strcmp(tensor->name + length - suffix, weight_suffix);
}

static int compare_layers(const void *left, const void *right) {
    const quantize_tensor *const *a = left;
    const quantize_tensor *const *b = right;
    return strverscmp((*a)->name, (*b)->name);
}

/* Returns the bias of a weight's layer, or NULL if it has none. */
static const quantize_tensor *bias_of(const quantize_source *source,
                                      const quantize_tensor *weight) {
    char name[256];
    const int stem = (int)(strlen(weight->name) - (sizeof weight_suffix - 1));
    if (snprintf(name, sizeof name, "%.*s.bias", stem, weight->name) >= (int)sizeof name)
        return NULL;
    return quantize_source_find(source, name);
}

/* Reads weights that the file stores as floats. */
static int read_floats(const quantize_tensor *weight, mlp_layer *layer, size_t *used,
                       file_error *error) {
    if (weight->rank != 2 || weight->shape[0] < 1 || weight->shape[1] < 1)
        return file_fail(error, "tensor \"%s\" is not a weight matrix",
                         file_printable(weight->name).text);
    layer->outputs = weight->shape[0];
    layer->inputs = weight->shape[1];
    layer->weight = values_of(weight, 1.0, error);
    *used += 1;
    return layer->weight ? 0 : -1;
}

static int read_bias(const quantize_source *source, const quantize_tensor *weight, mlp_layer *layer,
                     size_t *used, file_error *error) {
    const quantize_tensor *const bias = bias_of(source, weight);
    if (!bias)
        return 0;
    if (bias->rank != 1 || bias->shape[0] != layer->outputs)
        return file_fail(error, "tensor \"%s\" is not a bias of %lld values",
                         file_printable(bias->name).text, (long long)layer->outputs);
    layer->bias = values_of(bias, 1.0, error);
    *used += 1;
    return layer->bias ? 0 : -1;
}

/* The model's scheme is that of its layers, or "mixed" if they differ. */
static void note_scheme(mlp_model *model, const char *scheme) {
    if (model->scheme[0] && strcmp(model->scheme, scheme) != 0)
        scheme = "mixed";
    snprintf(model->scheme, sizeof model->scheme, "%s", scheme);
}

static int read_layer(const quantize_source *source, const quantize_tensor *weight,
                      mlp_model *model, size_t *used, file_error *error) {
    const int64_t before = model->layer_count > 0 ? mlp_model_outputs(model) : 0;
    mlp_layer *const layer = &model->layers[model->layer_count++];
    const int stored = mlp_stored_read(source, weight, layer, used, error);
    if (stored < 0 || (stored == 0 && read_floats(weight, layer, used, error)))
        return -1;
    if (stored)
        note_scheme(model, layer->scheme);
    if (before > 0 && before != layer->inputs)
        return file_fail(
            error, "tensor \"%s\" has %lld inputs, but the previous layer has %lld outputs",
            file_printable(weight->name).text, (long long)layer->inputs, (long long)before);
    return read_bias(source, weight, layer, used, error);
}

static int read_layers(const quantize_source *source, mlp_model *model, file_error *error) {
    const quantize_tensor *weights[MLP_MAX_LAYERS];
    int count = 0;
    for (size_t i = 0; i < source->count; i++) {
        const quantize_tensor *const tensor = &source->tensors[i];
        if (!is_weight(tensor))
            continue;
        if (count == MLP_MAX_LAYERS)
            return file_fail(error, "the model has more than %d layers", MLP_MAX_LAYERS);
        weights[count++] = tensor;
    }
    if (count == 0)
        return file_fail(error, "the model has no tensor named \"<layer>.weight\"");
    qsort(weights, (size_t)count, sizeof *weights, compare_layers);
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (read_layer(source, weights[i], model, &used, error))
            return -1;
    if (used != source->count)
        return file_fail(error, "%zu tensors of the model are neither weight nor bias of a layer",
                         source->count - used);
    return 0;
}

/* ---- metadata ---- */

enum {
    METADATA_TEXT = 128
};

/* Reads a string of the file's metadata, truncated if too long. Returns 0 if there is none. */
static int metadata_of(const quantize_source *source, const char *key, char text[METADATA_TEXT]) {
    char name[64];
    uint64_t length;
    text[0] = '\0';
    if (!source->gguf) {
        const char *const value = quantize_source_metadata(source, key);
        snprintf(text, METADATA_TEXT, "%s", value ? value : "");
        return value != NULL;
    }
    const int is_architecture = !strcmp(key, "architecture");
    snprintf(name, sizeof name, "%s.%s", is_architecture ? "general" : "safetensors", key);
    const gguf_value *const value = gguf_value_find(source->gguf, name);
    if (!value || value->type != GGUF_VALUE_STRING)
        return 0;
    memcpy(&length, value->data, sizeof length);
    snprintf(text, METADATA_TEXT, "%.*s", (int)(length < METADATA_TEXT ? length : METADATA_TEXT),
             (const char *)value->data + sizeof length);
    return 1;
}

/* Reads an optional positive number. *value is `missing` if the key does not exist. */
static int read_number(const quantize_source *source, const char *key, double missing,
                       double *value, file_error *error) {
    char text[METADATA_TEXT];
    *value = missing;
    if (!metadata_of(source, key, text))
        return 0;
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || *value <= 0.0)
        return file_fail(error, "the metadata \"%s\" is \"%.40s\", not a positive number", key,
                         text);
    return 0;
}

static int read_activation(const quantize_source *source, tdm_activation *activation,
                           file_error *error) {
    static const struct {
        const char *name;
        tdm_activation value;
    } rows[] = {
#define MLP_ACTIVATION_ROW(name, value, text) {text, name},
        TDM_ACTIVATION_LIST(MLP_ACTIVATION_ROW)
#undef MLP_ACTIVATION_ROW
    };
    char text[METADATA_TEXT];
    metadata_of(source, "activation", text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(text, rows[i].name)) {
            *activation = rows[i].value;
            return 0;
        }
    return file_fail(
        error, "the metadata \"activation\" is \"%.40s\", which infer does not support", text);
}

static int read_metadata(const quantize_source *source, mlp_model *model, file_error *error) {
    char architecture[METADATA_TEXT];
    metadata_of(source, "architecture", architecture);
    if (strcmp(architecture, "mlp"))
        return file_fail(error, "the metadata \"architecture\" is \"%.40s\", not \"mlp\"",
                         architecture);
    if (read_activation(source, &model->activation, error) ||
        read_number(source, "input_scale", 1.0, &model->input_scale, error) ||
        read_number(source, "heldout_accuracy", NAN, &model->recorded_accuracy, error))
        return -1;
    if (model->recorded_accuracy > 1.0)
        return file_fail(error, "the metadata \"heldout_accuracy\" is above 1");
    return 0;
}

/* ---- files ---- */

/* Opens the GGUF file if there is no safetensors file. */
static int open_model(const char *directory, quantize_source *source, file_error *error) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/model.safetensors", directory) >= (int)sizeof path)
        return file_fail(error, "the path of the model is too long");
    if (access(path, F_OK) != 0 && errno == ENOENT)
        snprintf(path, sizeof path, "%s/model.gguf", directory);
    return quantize_source_open(path, source, error);
}

/* Names the model after the last part of a path, without trailing slashes. */
static void name_model(const char *directory, mlp_model *model) {
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    snprintf(model->name, sizeof model->name, "%.*s", (int)(end - begin), directory + begin);
}

int mlp_model_load(const char *directory, mlp_model *model, file_error *error) {
    quantize_source source;
    memset(model, 0, sizeof *model);
    name_model(directory, model);
    if (open_model(directory, &source, error))
        return -1;
    const int result =
        read_metadata(&source, model, error) || read_layers(&source, model, error) ? -1 : 0;
    quantize_source_close(&source);
    return result;
}

static int read_labels(const quantize_tensor *tensor, int64_t classes, mlp_samples *samples,
                       file_error *error) {
    if (tensor->rank != 1 || tensor->shape[0] != samples->count)
        return file_fail(error, "\"labels\" is not a list of %lld labels",
                         (long long)samples->count);
    if (tensor->dtype != SAFETENSORS_I64 && tensor->dtype != SAFETENSORS_I32 &&
        tensor->dtype != SAFETENSORS_U8)
        return file_fail(error, "\"labels\" has the dtype %s; infer reads I64, I32 and U8",
                         safetensors_dtype_name(tensor->dtype));
    samples->labels = malloc((size_t)samples->count * sizeof *samples->labels);
    if (!samples->labels)
        return file_fail(error, "out of memory for %lld labels", (long long)samples->count);
    for (int64_t i = 0; i < samples->count; i++) {
        const int64_t label = label_of(tensor, (size_t)i);
        if (label < 0 || label >= classes)
            return file_fail(error, "label %lld is %lld, but the model has %lld outputs",
                             (long long)i, (long long)label, (long long)classes);
        samples->labels[i] = (int32_t)label;
    }
    return 0;
}

static int read_samples(const quantize_source *source, const mlp_model *model, mlp_samples *samples,
                        file_error *error) {
    const quantize_tensor *const images = quantize_source_find(source, "images");
    const quantize_tensor *const labels = quantize_source_find(source, "labels");
    if (!images || images->rank != 2 || images->shape[0] < 1 || !labels ||
        labels->storage != QUANTIZE_PLAIN)
        return file_fail(
            error, "the held-out file must contain \"images\" with two dimensions and \"labels\"");
    if (images->shape[1] != mlp_model_inputs(model))
        return file_fail(error, "\"images\" have %lld values each, but the model has %lld inputs",
                         (long long)images->shape[1], (long long)mlp_model_inputs(model));
    samples->count = images->shape[0];
    samples->width = images->shape[1];
    samples->inputs = values_of(images, model->input_scale, error);
    if (!samples->inputs)
        return -1;
    return read_labels(labels, mlp_model_outputs(model), samples, error);
}

int mlp_samples_load(const char *path, const mlp_model *model, mlp_samples *samples,
                     file_error *error) {
    quantize_source source;
    memset(samples, 0, sizeof *samples);
    if (quantize_source_open(path, &source, error))
        return -1;
    const int result = read_samples(&source, model, samples, error);
    quantize_source_close(&source);
    return result;
}
