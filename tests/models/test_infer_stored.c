/*
 * Tests `tandem infer` on the output of `tandem quantize`, on the devices of this run. The digits
 * run in every scheme, as stored.
 */
// ctest: device timeout=300
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/safetensors.h"
#include "models/mlp/mlp_oracle.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_model.h"
#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"

/* These paths are set by main. */
static char program[TEST_TREE_PATH];
static char digits[TEST_TREE_PATH];
static char heldout[TEST_TREE_PATH];

enum {
    PATIENCE_S = 240,
    RECORDED = 60 /* number of images whose activations are used for calibration */
};

static int is_small(void) {
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    return scale && !strcmp(scale, "small");
}

static test_program_result run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static test_program_result run(const char *format, ...) {
    char command[2048];
    va_list arguments;
    va_start(arguments, format);
    assert_true(vsnprintf(command, sizeof command, format, arguments) < (int)sizeof command);
    va_end(arguments);
    return test_program_run(program, command, NULL, PATIENCE_S);
}

/* Quantizes the digits with a scheme into the folder and removes any other model there. */
static void quantize(const char *scheme, const char *name, const char *more) {
    char path[TEST_PATH];
    remove(test_folder_path(path, "model.safetensors"));
    remove(test_folder_path(path, "model.gguf"));
    test_program_result result = run("quantize %s/model.safetensors %s --scheme %s %s", digits,
                                     test_folder_path(path, name), scheme, more);
    if (result.exit_code != 0)
        fail_msg("%s", result.errors);
    test_program_release(&result);
}

/*
 * Runs infer on the folder and returns its results. Only some images are used unless `all` is set,
 * because the oracle is slow.
 */
static cJSON *infer(int exit_code, int all, const char *precisions) {
    const char *const images = is_small() ? "--images 3 --batch 2" // the last batch has one image
                               : all      ? "--batch 250"
                                          : "--images 24 --batch 24";
    test_program_result result = run("infer %s --heldout %s --seconds 0 %s --precision %s --json -",
                                     test_folder(), heldout, images, precisions);
    if (result.exit_code != exit_code)
        fail_msg("exit %d: %s", result.exit_code, result.errors);
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    test_program_release(&result);
    return root;
}

static double metric_of(const cJSON *row, const char *key) {
    return json_number(json_member(row, "metrics"), key);
}

/*
 * Checks the rows of a precision. Errors must stay within the oracle's tolerance, and the answers
 * must be those of the float model.
 */
static int check_rows(const cJSON *root, const char *precision, const char *scheme, double bytes) {
    char name[64];
    int count = 0;
    const cJSON *row;
    snprintf(name, sizeof name, " %s %s batch ", precision, scheme);
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "dtype"), precision) != 0)
            continue;
        if (strcmp(json_text(row, "status"), "ok") != 0)
            fail_msg("%s is %s: %s", json_text(row, "case"), json_text(row, "status"),
                     json_text(row, "reason"));
        assert_non_null(strstr(json_text(row, "case"), name));
        assert_true(metric_of(row, "error_to_tolerance") <= 1.0);
        assert_true(metric_of(row, "images_per_s") > 0.0);
        /* The weights consist of quantized values, scales, biases and kernel padding. */
        assert_true(metric_of(row, "weight_bytes") > 84480 * bytes);
        assert_true(metric_of(row, "weight_bytes") < 84480 * bytes * 1.45);
        if (metric_of(row, "images") == 500.0)
            assert_true(fabs(metric_of(row, "accuracy") - 0.98) <=
                        (bytes < 1 ? 0.015 : 0.005) + 1e-9);
        count++;
    }
    return count;
}

TEST(every_scheme_runs_as_it_is_stored) {
    static const struct {
        const char *scheme, *file;
        double bytes;
        const char *more;
    } rows[] = {
        {"s4-group-zero", "model.safetensors", 0.5, ""},
        {"s8-tensor", "model.safetensors", 1, ""},
        {"q4_0", "model.gguf", 0.5, ""},
        {"s8-channel", "model.safetensors", 1, ""},
        {"s8-group", "model.safetensors", 1, ""},
        {"u8-group", "model.safetensors", 1, ""},
        {"s4-channel", "model.safetensors", 0.5, ""},
        {"q8_0", "model.gguf", 1, ""},
    };
    const size_t count = is_small() ? 3 : sizeof rows / sizeof *rows;
    for (size_t i = 0; i < count; i++) {
        quantize(rows[i].scheme, rows[i].file, rows[i].more);
        cJSON *const root = infer(0, i < 2, "stored,stored-dynamic");
        assert_true(check_rows(root, "stored", rows[i].scheme, rows[i].bytes) > 0);
        assert_true(check_rows(root, "stored-dynamic", rows[i].scheme, rows[i].bytes) > 0);
        cJSON_Delete(root);
    }
}

/* Records the activations of the first images, layer by layer, as another framework would do. */
static void record_activations(const char *path) {
    mlp_model model;
    mlp_samples samples;
    file_error error;
    file_error reason;
    safetensors_tensor tensors[3];
    static const char *const names[] = {"layers.0.input", "layers.1.input", "layers.2.input"};
    assert_int_equal(mlp_model_load(digits, &model, &error), 0);
    assert_int_equal(mlp_samples_load(heldout, &model, &samples, &error), 0);
    float *x = samples.inputs;
    for (int l = 0; l < model.layer_count; l++) {
        const mlp_layer *const layer = &model.layers[l];
        tensors[l] = (safetensors_tensor){.name = names[l],
                                          .dtype = SAFETENSORS_F32,
                                          .rank = 2,
                                          .shape = {RECORDED, layer->inputs},
                                          .data = x,
                                          .bytes = RECORDED * (size_t)layer->inputs * sizeof *x};
        float *const y = calloc(RECORDED * (size_t)layer->outputs, sizeof *y);
        for (int64_t i = 0; i < RECORDED * layer->outputs; i++) {
            float sum = layer->bias[i % layer->outputs];
            for (int64_t k = 0; k < layer->inputs; k++)
                sum += layer->weight[i % layer->outputs * layer->inputs + k] *
                       x[i / layer->outputs * layer->inputs + k];
            y[i] = sum > 0 ? sum : 0;
        }
        x = y;
    }
    assert_int_equal(test_safetensors_write(path, tensors, 3, NULL, 0, &reason), 0);
    free(x);
    for (int l = 1; l < model.layer_count; l++)
        free((void *)(uintptr_t)tensors[l].data);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

TEST(calibrated_models_run_on_integers) {
    static const char *const schemes[] = {"s8-channel", "u8-tensor", "s8-tensor", "s8-channel-zero",
                                          "u8-channel"};
    char path[TEST_PATH], more[512];
    record_activations(test_folder_path(path, "activations.safetensors"));
    for (int i = 0; i < (is_small() ? 2 : 3); i++) {
        snprintf(more, sizeof more, "--calibrate %s", path);
        quantize(schemes[i], "model.safetensors", more);
        cJSON *const root = infer(0, i == 0, "stored-int8,stored");
        assert_true(check_rows(root, "stored-int8", schemes[i], 1) > 0);
        assert_true(check_rows(root, "stored", schemes[i], 1) > 0);
        cJSON_Delete(root);
    }
}

/* Without --precision, the model determines the precisions. */
TEST(nothing_is_quantized_again) {
    quantize("s4-group", "model.safetensors", "--skip layers.2");
    test_program_result result =
        run("infer %s --heldout %s --seconds 0 --images 4 --batch 2", test_folder(), heldout);
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(result.output, "  stored s4-group "));
    assert_non_null(strstr(result.output, "  stored-dynamic s4-group "));
    assert_null(strstr(result.output, "stored-int8"));
    assert_null(strstr(result.output, "synthetic"));
    assert_null(strstr(result.output, " w4 "));
    test_program_release(&result);
}

int main(void) {
    test_tree_build(program, "bin/tandem");
    test_tree_source(digits, "examples/digits");
    test_tree_source(heldout, "examples/digits/heldout.safetensors");
    return test_run_all(test_folder_make, test_folder_remove);
}
