/*
 * Tests `tandem infer` as scripts see it, on the devices of this run: exit codes, messages, the
 * results file.
 */
// ctest: device rusticl_in_ci timeout=300 cost=45
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "api/device/core.h"
#include "bench/bench_commands.h"
#include "cli/infer/infer_measure.h"
#include "formats/safetensors.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_model.h"
#include "tests/support/test_tree.h"

static char digits[TEST_TREE_PATH]; /* set by main */

/* Returns a path in the folder. The last four paths remain valid. */
static const char *in_directory(const char *name) {
    static char paths[4][TEST_PATH];
    static unsigned next;
    return test_folder_path(paths[next++ % 4], name);
}

static char *read_text(const char *path) {
    size_t size;
    return (char *)test_file_read(path, &size);
}

/* Runs the command with stdout and stderr redirected to a file. The caller frees *messages. */
static int run_infer(char **messages, int count, const char *const *arguments) {
    char *argv[16] = {(char *)(uintptr_t) "infer"};
    for (int i = 0; i < count; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    fflush(NULL);
    const int saved_out = dup(STDOUT_FILENO);
    const int saved_err = dup(STDERR_FILENO);
    const int file = open(in_directory("messages"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(saved_out >= 0 && saved_err >= 0 && file >= 0);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    const int code = infer_command(count + 1, argv);
    fflush(NULL);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved_out);
    close(saved_err);
    close(file);
    *messages = read_text(in_directory("messages"));
    return code;
}

#define RUN(messages, ...)                                                                         \
    run_infer(messages, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),             \
              (const char *[]){__VA_ARGS__})

static void expect(int code, const char *sentence, int got, char *messages) {
    if (got != code || !strstr(messages, sentence))
        fail_msg("exit %d with \"%s\", not %d with \"%s\"", got, messages, code, sentence);
    free(messages);
}

/* ---- the results file ---- */

static int is_small(void) {
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    return scale && !strcmp(scale, "small");
}

static double metric_of(const cJSON *row, const char *key) {
    return json_number(json_member(row, "metrics"), key);
}

static const struct {
    const char *name;
    double bytes, points; /* bytes of a weight; allowed loss of accuracy in points */
} precisions[] = {{"f32", 4.0, 0.0},          {"f16", 2.0, 0.3}, {"int8", 1.0, 0.5},
                  {"int8-dynamic", 1.0, 0.5}, {"w8", 1.0, 0.5},  {"w4", 0.5, 1.5}};

enum {
    PRECISIONS = sizeof precisions / sizeof *precisions
};

static double bytes_of_weight(const char *precision) {
    for (int i = 0; i < PRECISIONS; i++)
        if (!strcmp(precision, precisions[i].name))
            return precisions[i].bytes;
    fail_msg("unknown precision %s", precision);
    return 0.0;
}

static void check_row(const cJSON *row) {
    const char *const name = json_text(row, "case");
    if (strcmp(json_text(row, "status"), "ok"))
        fail_msg("%s is %s: %s", name, json_text(row, "status"), json_text(row, "reason"));
    assert_true(cJSON_IsTrue(json_member(row, "verified")));
    assert_true(json_number(row, "median_s") > 0.0);
    assert_true(metric_of(row, "oracle_rows") >= 1.0);
    assert_true(metric_of(row, "error_to_tolerance") <= 1.0);
    /* f32 sums are added in another order than the oracle's. A zero error would mean that nothing
     * was compared. */
    assert_true(json_number(row, "max_error") > 0.0);
    const double parameters = json_number(json_member(row, "shape"), "parameters");
    const double weights = metric_of(row, "weight_bytes") / parameters;
    assert_true(weights >= bytes_of_weight(json_text(row, "dtype")));
    /* This limit is for the digits. Kernels pad their small layers. */
    if (!strncmp(name, "digits", 6))
        assert_true(weights <= 1.3 * bytes_of_weight(json_text(row, "dtype")));
    assert_true(metric_of(row, "peak_allocated_bytes") >= metric_of(row, "weight_bytes"));
    assert_true(metric_of(row, "peak_reserved_bytes") >= metric_of(row, "peak_allocated_bytes"));
}

/* Returns the accuracy of the digits on a device in a precision. All rows that ran every image must
 * agree. */
static double accuracy_of(const cJSON *results, const char *device, const char *precision) {
    double accuracy = NAN;
    const cJSON *row;
    cJSON_ArrayForEach(row, results) {
        if (strncmp(json_text(row, "case"), "digits", 6) ||
            strcmp(json_text(row, "dtype"), precision) || strcmp(json_text(row, "device"), device))
            continue;
        const double own = metric_of(row, "accuracy");
        assert_false(isnan(own));
        if (!is_small() && metric_of(row, "images") != 500.0)
            continue; /* cut short on a slow device */
        /* Batch 1 and batch 256 may use different kernels, so one image may change its class. */
        if (!isnan(accuracy))
            assert_true(fabs(own - accuracy) <= 0.003 + 1e-9);
        accuracy = own;
    }
    return accuracy;
}

static void check_accuracy(const cJSON *results, const char *device) {
    const double f32 = accuracy_of(results, device, "f32");
    assert_false(isnan(f32));
    if (is_small())
        return; /* four images are too few */
    assert_true(fabs(f32 - 0.98) <= 0.002 + 1e-9);
    for (int i = 0; i < PRECISIONS; i++)
        assert_true(100.0 * fabs(accuracy_of(results, device, precisions[i].name) - f32) <=
                    precisions[i].points + 1e-9);
    /* Arithmetic on integers up to the logits has no rounding that depends on the device. No class
     * may change. */
    assert_true(fabs(accuracy_of(results, device, "int8") - 0.98) < 1e-9);
}

/* A fifth of the images was used for calibration. The others are compared with the model itself. */
static void check_difference(const cJSON *row) {
    const double images = metric_of(row, "images");
    const double difference = metric_of(row, "difference_to_f32");
    if (strncmp(json_text(row, "case"), "digits", 6) || images < 500.0)
        return;
    assert_true(metric_of(row, "unseen_images") == 400.0);
    assert_true(fabs(difference) <= (strcmp(json_text(row, "dtype"), "w4") ? 0.005 : 0.015));
}

/* Collects the device names of the rows. Returns how many there are. */
static int devices_of(const cJSON *results, const char *names[8]) {
    int count = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, results) {
        const char *const device = json_text(row, "device");
        int known = 0;
        for (int i = 0; i < count; i++)
            known |= !strcmp(names[i], device);
        if (!known) {
            assert_true(count < 8);
            names[count++] = device;
        }
    }
    return count;
}

TEST_WITH(test_digits, test_folder_make, test_folder_remove) {
    const int cases_per_device = PRECISIONS * 2; /* precision, batch */
    char *messages;
    const int code = is_small() ? RUN(&messages, digits, "--images", "4", "--batch", "1,3",
                                      "--seconds", "0", "--json", in_directory("results.json"))
                                : RUN(&messages, digits, "--seconds", "0.2", "--json",
                                      in_directory("results.json"));
    if (code != 0)
        fail_msg("exit %d: %s", code, messages);
    assert_non_null(strstr(messages, "digits"));
    free(messages);
    char *const text = read_text(in_directory("results.json"));
    cJSON *const json = cJSON_Parse(text);
    assert_non_null(json);
    const cJSON *const results = json_member(json, "results");
    const char *names[8];
    const int devices = devices_of(results, names);
    assert_true(devices > 0);
    int waited = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, results) {
        check_row(row);
        check_difference(row);
        waited += !strcmp(json_text(row, "mode"), "waited");
    }
    /* Every case has a row that waits for each batch. A batch that takes longer than --seconds has
     * no pipelined row. */
    assert_int_equal(waited, devices * cases_per_device);
    assert_true(is_small() || cJSON_GetArraySize(results) > waited);
    for (int i = 0; i < devices; i++)
        check_accuracy(results, names[i]);
    cJSON_Delete(json);
    free(text);
}

/* ---- invalid models ---- */

/* Copies the digits model with another recorded accuracy. */
static void copy_digits(const char *accuracy) {
    safetensors_file *file = NULL;
    safetensors_error error;
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", digits);
    if (safetensors_open(path, &file, &error))
        fail_msg("%s", error.text);
    safetensors_tensor tensors[8];
    const size_t count = safetensors_count(file);
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++)
        tensors[i] = *safetensors_at(file, i);
    const safetensors_pair metadata[] = {{"architecture", "mlp"},
                                         {"activation", "relu"},
                                         {"input_scale", "0.0625"},
                                         {"heldout_accuracy", accuracy}};
    if (test_safetensors_write(in_directory("model.safetensors"), tensors, count, metadata, 4,
                               &error))
        fail_msg("%s", error.text);
    safetensors_close(file);
}

/* Copies the first four held-out images, the last of them with a wrong label. */
static void copy_heldout(void) {
    safetensors_file *file = NULL;
    safetensors_error error;
    char path[512];
    int32_t labels[4];
    snprintf(path, sizeof path, "%s/heldout.safetensors", digits);
    if (safetensors_open(path, &file, &error))
        fail_msg("%s", error.text);
    safetensors_tensor tensors[2] = {*safetensors_find(file, "images"),
                                     *safetensors_find(file, "labels")};
    memcpy(labels, tensors[1].data, sizeof labels);
    labels[3] = (labels[3] + 1) % 10;
    tensors[0].shape[0] = tensors[1].shape[0] = 4;
    tensors[0].bytes = 4 * 64;
    tensors[1].bytes = sizeof labels;
    tensors[1].data = labels;
    if (test_safetensors_write(in_directory("heldout.safetensors"), tensors, 2, NULL, 0, &error))
        fail_msg("%s", error.text);
    safetensors_close(file);
}

TEST_WITH(test_lost_accuracy_fails, test_folder_make, test_folder_remove) {
    char *messages;
    copy_digits("0.7535");
    copy_heldout();
    int code = RUN(&messages, test_folder(), "--batch", "3", "--precision", "f32");
    expect(1, "the accuracy is 0.7500, but the recorded accuracy is 0.7535", code, messages);
    copy_digits("0.7525");
    code = RUN(&messages, test_folder(), "--batch", "3", "--precision", "f32", "--seconds", "0");
    expect(0, " ok", code, messages);
}

TEST_WITH(test_broken_folders, test_folder_make, test_folder_remove) {
    char *messages;
    int code = RUN(&messages, test_folder());
    expect(2, "is not a folder with a model.safetensors", code, messages);
    test_file_write(in_directory("model.safetensors"), "\377\0\0\0\0\0\0\0{}", 10);
    code = RUN(&messages, test_folder());
    expect(1, "the file is truncated: its header needs 255 bytes, but only 2 are present", code,
           messages);
    copy_digits("98 %");
    code = RUN(&messages, test_folder());
    expect(1, "\"heldout_accuracy\" is \"98 %\", not a positive number", code, messages);
    copy_digits("0.98");
    test_file_write(in_directory("heldout.safetensors"), "", 0);
    code = RUN(&messages, test_folder());
    expect(1, "heldout.safetensors: the file is truncated", code, messages);
}

TEST_WITH(test_usage, test_folder_make, test_folder_remove) {
    static const struct {
        const char *arguments[3];
        const char *sentence;
    } rows[] = {
        {{digits, "--batch", "0"}, "--batch takes up to"},
        {{digits, "--batch", "9999999999999999999999"}, "--batch takes up to"},
        {{digits, "--precision", "f32,w4,int9"}, "int9"},
    };
    char *messages;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int code = run_infer(&messages, 3, rows[i].arguments);
        expect(2, rows[i].sentence, code, messages);
    }
}

/*
 * The run fails if quantization loses correct answers, even though the logits match the quantized
 * weights. One wrong logit also fails it.
 */
TEST(test_wrong_results_fail) {
    static const int64_t widths[] = {16, 32, 4};
    enum {
        SAMPLES = 50
    };
    mlp_model model;
    mlp_samples samples;
    mlp_quantized quantized;
    mlp_reference exact, reference;
    file_error error;
    infer_result result;
    char verdict[600];
    tdm_context *context = NULL;
    tdm_device *device = NULL;
    const mlp_precision *const w8 = mlp_precision_from_name("w8");
    assert_int_equal(test_model_make("small", widths, 3, 1, &model, &error), 0);
    assert_int_equal(mlp_samples_synthetic(SAMPLES, 16, 2, &samples, &error), 0);
    assert_int_equal(mlp_reference_make(&model, NULL, &samples, TDM_F32, SAMPLES, &exact, &error),
                     0);
    samples.labels = malloc(SAMPLES * sizeof *samples.labels);
    assert_non_null(samples.labels);
    for (int64_t i = 0; i < SAMPLES; i++)
        samples.labels[i] = (int32_t)mlp_reference_class(&exact, i);
    assert_int_equal(mlp_quantized_make(&model, w8, &samples, &quantized, &error), 0);
    assert_int_equal(tdm_context_create(NULL, &context), TDM_OK);
    assert_int_equal(tdm_device_get(context, 0, &device), TDM_OK);
    infer_case given = {.model = &model,
                        .samples = &samples,
                        .precision = w8,
                        .quantized = &quantized,
                        .reference = &reference,
                        .exact = &exact,
                        .calibration = 10,
                        .batch = 25,
                        .all_samples = 1,
                        .seconds = 0.25}; /* batches that take longer have no pipelined row */
    enum {
        RIGHT,
        LOST_ANSWERS,
        WRONG_LOGIT
    };
    static const char *const sentences[] = {"", "points below f32's, 0.5 are allowed",
                                            "times its tolerance"};
    for (int fault = RIGHT; fault <= WRONG_LOGIT; fault++) {
        const float scale = quantized.layers[1].scales[0];
        if (fault == LOST_ANSWERS) /* the first class never wins */
            quantized.layers[1].scales[0] = -100.0f;
        assert_int_equal(
            mlp_reference_make(&model, &quantized, &samples, TDM_F32, SAMPLES, &reference, &error),
            0);
        if (fault == WRONG_LOGIT)
            reference.logits[7] += 100.0 * MLP_ORACLE_DEVIATIONS * reference.deviation[7];
        infer_measure(device, &given, &result);
        infer_verdict(&given, &result, verdict, sizeof verdict);
        assert_int_equal(result.status, TDM_OK);
        assert_int_equal(result.images, SAMPLES);
        assert_int_equal(result.unseen, SAMPLES - 10);
        assert_int_equal(result.passed, fault == RIGHT);
        assert_int_equal(result.pipelined.count > 0, fault == RIGHT); /* wrong ones are not timed */
        assert_int_equal(result.agreement.max_error_ratio > 98.0, fault == WRONG_LOGIT);
        assert_true(result.agreement.max_error_ratio <= (fault == WRONG_LOGIT ? 102.0 : 1.0));
        assert_int_equal(result.difference < -0.005, fault == LOST_ANSWERS);
        assert_non_null(strstr(verdict, sentences[fault]));
        quantized.layers[1].scales[0] = scale;
        infer_result_release(&result);
        mlp_reference_release(&reference);
    }
    tdm_device_release(device);
    tdm_context_destroy(context);
    mlp_reference_release(&exact);
    mlp_quantized_release(&quantized);
    mlp_samples_release(&samples);
    mlp_model_release(&model);
}

/* A precision that does not suit a model is skipped with the reason, and the run succeeds. */
TEST_WITH(test_unsuited_precision, test_folder_make, test_folder_remove) {
    char *messages;
    const int code = RUN(&messages, digits, "--images", "2", "--batch", "2", "--seconds", "0",
                         "--precision", "w4,stored", "--json", in_directory("results.json"));
    expect(0, "stored needs weights that are stored as integers", code, messages);
    char *const text = read_text(in_directory("results.json"));
    cJSON *const json = cJSON_Parse(text);
    int skipped = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(json, "results")) {
        if (!strcmp(json_text(row, "dtype"), "w4")) {
            check_row(row);
            continue;
        }
        assert_string_equal(json_text(row, "status"), "skipped");
        assert_non_null(strstr(json_text(row, "reason"), "these are floats"));
        skipped++;
    }
    assert_true(skipped > 0);
    cJSON_Delete(json);
    free(text);
}

/* A failing launch is reported, and the rows of the device report it too. */
TEST_WITH(test_failing_device, test_folder_make, test_folder_remove) {
    char *messages;
    test_fault_plant("clEnqueueNDRangeKernel", 1, -5, true);
    const int code = RUN(&messages, digits, "--images", "2", "--batch", "1", "--json",
                         in_directory("results.json"));
    assert_true(tdm_fault_clear() > 0);
    expect(1, test_code_name(-5), code, messages);
    char *const text = read_text(in_directory("results.json"));
    cJSON *const json = cJSON_Parse(text);
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(json, "results")) {
        assert_string_equal(json_text(row, "status"), "failed");
        assert_non_null(strstr(json_text(row, "reason"), test_code_name(-5)));
    }
    cJSON_Delete(json);
    free(text);
}

int main(void) {
    test_tree_source(digits, "examples/digits");
    return test_run_all(NULL, NULL);
}
