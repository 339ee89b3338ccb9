/*
 * Tests models whose weights are stored as integers, without a device. They are read as stored. A
 * file that contradicts itself is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "models/mlp/mlp_oracle.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_model.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";
static const char digits[] = TANDEM_SOURCE_DIR "/examples/digits/model.safetensors";

enum {
    PATIENCE_S = 60
};

/* Quantizes the digits with a scheme into the file `name` of the folder. */
static void quantize_digits(const char *scheme, const char *name, const char *more) {
    char arguments[1024], path[TEST_PATH];
    snprintf(arguments, sizeof arguments, "quantize %s %s --scheme %s %s", digits,
             test_folder_path(path, name), scheme, more);
    test_program_result result = test_program_run(program, arguments, NULL, PATIENCE_S);
    if (result.exit_code != 0)
        fail_msg("%s: %s", arguments, result.errors);
    test_program_release(&result);
}

static void remove_file(const char *name) {
    char path[TEST_PATH];
    remove(test_folder_path(path, name));
}

static void load(mlp_model *model) {
    file_error error;
    if (mlp_model_load(test_folder(), model, &error))
        fail_msg("%s", error.text);
}

/* ---- reading ---- */

/*
 * The quantized values of a layer equal those of the file, bit for bit. Only u8 values are stored
 * minus 128.
 */
static void expect_codes(const safetensors_file *file, const mlp_model *model, int index) {
    char name[32];
    const mlp_quantized_layer *const own = &model->layers[index].stored;
    snprintf(name, sizeof name, "layers.%d.weight", index);
    quantized_weight weight;
    file_error error;
    if (quantized_weight_read(file, name, &weight, &error))
        fail_msg("%s", error.text);
    assert_int_equal(own->code_bytes, weight.code_bytes);
    for (size_t i = 0; i < own->code_bytes; i++)
        assert_int_equal(((const unsigned char *)own->codes)[i],
                         ((const unsigned char *)weight.codes)[i] ^
                             (weight.dtype == TDM_U8 ? 128 : 0));
    quantized_weight_release(&weight);
}

typedef struct scheme_row {
    const char *name;
    tdm_dtype dtype;
    int64_t blocks[2];
    int has_zero_points;
} scheme_row;

static const scheme_row schemes[] = {
    {"s8-tensor", TDM_S8, {0, 0}, 0},       {"s8-channel", TDM_S8, {1, 0}, 0},
    {"s8-group", TDM_S8, {1, 32}, 0},       {"u8-tensor", TDM_S8, {0, 0}, 1},
    {"s4-channel", TDM_S4, {1, 0}, 0},      {"s4-group", TDM_S4, {1, 32}, 0},
    {"q8_0", TDM_S8, {1, 32}, 0},           {"q4_0", TDM_S4, {1, 32}, 0},
    {"s4-group-zero", TDM_S4, {1, 32}, 1},  {"s8-tensor-zero", TDM_S8, {0, 0}, 1},
    {"s8-channel-zero", TDM_S8, {1, 0}, 1}, {"u8-channel", TDM_S8, {1, 0}, 1},
    {"u8-group", TDM_S8, {1, 32}, 1},       {"s4-tensor", TDM_S4, {0, 0}, 0},
    {"s8-group-zero", TDM_S8, {1, 32}, 1},  {"s4-tensor-zero", TDM_S4, {0, 0}, 1},
    {"s4-channel-zero", TDM_S4, {1, 0}, 1},
};

/* Dequantizes a weight by the definition of quantized values, scales and zero points. */
static double weight_at(const mlp_quantized_layer *own, int64_t n, int64_t k) {
    const int64_t inputs = own->spec.shape[1];
    const int64_t groups = own->spec.blocks[1] == 0 ? 1 : inputs / own->spec.blocks[1];
    const int64_t place = (own->spec.blocks[0] == 0 ? 0 : n) * groups +
                          (own->spec.blocks[1] == 0 ? 0 : k / own->spec.blocks[1]);
    const unsigned char *const bytes = own->codes;
    const int64_t at = n * inputs + k;
    int code;
    if (own->spec.dtype == TDM_S8) {
        code = bytes[at] > 127 ? bytes[at] - 256 : bytes[at];
    } else {
        code = at % 2 ? bytes[at / 2] >> 4 : bytes[at / 2] & 15;
        code = code > 7 ? code - 16 : code;
    }
    return (double)own->scales[place] * (code - (own->zero_points ? own->zero_points[place] : 0));
}

TEST(stored_integers_are_read_as_they_are) {
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const scheme_row *const row = &schemes[i];
        char path[TEST_PATH];
        mlp_model model;
        safetensors_file *file;
        file_error error;
        quantize_digits(row->name, "model.safetensors", "");
        load(&model);
        assert_int_equal(
            safetensors_open(test_folder_path(path, "model.safetensors"), &file, &error), 0);
        assert_string_equal(model.scheme, row->name);
        assert_true(fabs(model.recorded_accuracy - 0.98) < 1e-9);
        for (int l = 0; l < model.layer_count; l++) {
            const mlp_quantized_layer *const own = &model.layers[l].stored;
            assert_int_equal(own->spec.dtype, row->dtype);
            assert_int_equal(own->spec.blocks[0], row->blocks[0]);
            assert_int_equal(own->spec.blocks[1], row->blocks[1]);
            assert_int_equal(own->zero_points != NULL, row->has_zero_points);
            expect_codes(file, &model, l);
            for (int64_t k = 0; k < model.layers[l].inputs; k++)
                assert_true((float)weight_at(own, 7, k) ==
                            model.layers[l].weight[7 * model.layers[l].inputs + k]);
        }
        safetensors_close(file);
        mlp_model_release(&model);
    }
    remove_file("model.safetensors");
}

TEST(blocks_of_gguf_files_are_the_same) {
    static const char *const names[] = {"q8_0", "q4_0"};
    for (int i = 0; i < 2; i++) {
        mlp_model model, same;
        quantize_digits(names[i], "model.gguf", "");
        load(&model);
        quantize_digits(names[i], "model.safetensors", ""); /* preferred over the other file */
        load(&same);
        assert_string_equal(model.scheme, names[i]);
        assert_int_equal(model.activation, TDM_ACT_RELU);
        assert_true(model.input_scale == 0.0625 && model.recorded_accuracy == 0.98);
        assert_int_equal(model.layer_count, same.layer_count);
        for (int l = 0; l < model.layer_count; l++) {
            const mlp_quantized_layer *const own = &model.layers[l].stored;
            assert_int_equal(own->scale_dtype, TDM_F16);
            assert_int_equal(own->code_bytes, same.layers[l].stored.code_bytes);
            assert_memory_equal(own->codes, same.layers[l].stored.codes, own->code_bytes);
            assert_memory_equal(model.layers[l].bias, same.layers[l].bias,
                                (size_t)model.layers[l].outputs * sizeof(float));
        }
        mlp_model_release(&model);
        mlp_model_release(&same);
        remove_file("model.safetensors");
        remove_file("model.gguf");
    }
}

/* Counts the oracle's correct answers. The oracle uses no device, so the numbers are exact. */
TEST(stored_models_keep_their_answers) {
    static const char heldout[] = TANDEM_SOURCE_DIR "/examples/digits/heldout.safetensors";
    static const char *const precisions[] = {"stored", "stored-dynamic"};
    for (size_t i = 0; i < 6; i++) {
        mlp_model model;
        mlp_samples samples;
        file_error error;
        quantize_digits(schemes[i].name, "model.safetensors", "");
        load(&model);
        assert_int_equal(mlp_samples_load(heldout, &model, &samples, &error), 0);
        samples.count = 100;
        for (int p = 0; p < 2; p++) {
            mlp_quantized quantized;
            mlp_reference reference, exact;
            int right = 0;
            const mlp_precision *const precision = mlp_precision_from_name(precisions[p]);
            assert_int_equal(mlp_precision_check(precision, &model, &error), 0);
            assert_int_equal(mlp_quantized_make(&model, precision, NULL, &quantized, &error), 0);
            assert_ptr_equal(quantized.layers[1].codes, model.layers[1].stored.codes);
            assert_int_equal(
                mlp_reference_make(&model, &quantized, &samples, TDM_F32, 100, &reference, &error),
                0);
            assert_int_equal(
                mlp_reference_make(&model, NULL, &samples, TDM_F32, 100, &exact, &error), 0);
            for (int64_t row = 0; row < 100; row++)
                right += mlp_reference_class(&reference, row) == samples.labels[row];
            assert_in_range(right, 98, 100); /* the float model has 99 right answers */
            for (int n = 0; p == 0 && n < 1000; n++)
                assert_true(fabs(reference.logits[n] - exact.logits[n]) <
                            1e-6 * (1 + fabs(exact.logits[n])));
            mlp_reference_release(&exact);
            mlp_reference_release(&reference);
            mlp_quantized_release(&quantized);
        }
        mlp_samples_release(&samples);
        mlp_model_release(&model);
    }
    remove_file("model.safetensors");
}

static void expect_unsuited(const mlp_model *model, const char *name, const char *sentence) {
    file_error reason = {""};
    if (mlp_precision_check(mlp_precision_from_name(name), model, &reason) != -1 ||
        strstr(reason.text, sentence) == NULL)
        fail_msg("%s: '%s' instead of '%s'", name, reason.text, sentence);
}

/* Stored integers are never quantized again, and floats are never used as integers. */
TEST(precisions_suit_what_is_stored) {
    mlp_model model;
    file_error reason;
    quantize_digits("s8-channel", "model.safetensors", "--skip layers.0");
    load(&model);
    assert_null(model.layers[0].stored.codes);
    assert_non_null(model.layers[1].stored.codes);
    expect_unsuited(&model, "w8",
                    "would quantize weights that are already stored as integers (s8-channel)");
    expect_unsuited(&model, "int8", "use stored to run them unchanged");
    expect_unsuited(&model, "stored-int8", "8-bit weights with one scale per output or per tensor");
    assert_int_equal(mlp_precision_check(mlp_precision_from_name("stored"), &model, &reason), 0);
    assert_int_equal(mlp_precision_check(mlp_precision_from_name("f16"), &model, &reason), 0);
    assert_true(mlp_stored_slack(&model) == 0.005);
    mlp_model_release(&model);
    quantize_digits("s4-group", "model.safetensors", "--only layers.1.weight");
    load(&model);
    assert_true(mlp_stored_slack(&model) == 0.015);
    mlp_model_release(&model);
    quantize_digits("f16", "model.safetensors", "");
    load(&model);
    assert_string_equal(model.scheme, "");
    assert_true(mlp_stored_slack(&model) == 0.0);
    expect_unsuited(&model, "stored", "these are floats");
    assert_int_equal(mlp_precision_check(mlp_precision_from_name("w8"), &model, &reason), 0);
    mlp_model_release(&model);
    remove_file("model.safetensors");
}

/* ---- refused files ---- */

enum {
    MAX_TENSORS = 8
};

/* This model has one layer with 3 outputs and 4 inputs, in s8 with one scale per output. Each case
 * breaks it in some way. */
typedef struct small_file {
    safetensors_tensor tensors[MAX_TENSORS];
    size_t count;
    char layout[256];
    const char *version;
    float scales[3];
} small_file;

static const signed char small_codes[12] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, 127};
static const signed char small_zeros[3] = {1, 2, 3};

static small_file small(void) {
    small_file file = {
        .count = 2,
        .layout = "{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[3,4],\"block\":[1,0]}",
        .version = "1",
        .scales = {0.5f, 0.25f, 2.0f},
    };
    file.tensors[0] = (safetensors_tensor){.name = "a.weight",
                                           .dtype = SAFETENSORS_I8,
                                           .rank = 2,
                                           .shape = {3, 4},
                                           .data = small_codes,
                                           .bytes = 12};
    file.tensors[1] = (safetensors_tensor){.name = "a.weight_scale",
                                           .dtype = SAFETENSORS_F32,
                                           .rank = 2,
                                           .shape = {3, 1},
                                           .bytes = 12};
    return file;
}

static int load_small(small_file *file, mlp_model *model, file_error *error) {
    const safetensors_pair metadata[] = {{"architecture", "mlp"},
                                         {"activation", "relu"},
                                         {"tandem.quant", file->version},
                                         {"tandem.quant.a.weight", file->layout}};
    char path[TEST_PATH];
    file_error reason;
    for (size_t i = 0; i < file->count; i++)
        if (!file->tensors[i].data)
            file->tensors[i].data = file->scales;
    if (test_safetensors_write(test_folder_path(path, "model.safetensors"), file->tensors,
                               file->count, metadata, 4, &reason))
        fail_msg("%s", reason.text);
    return mlp_model_load(test_folder(), model, error);
}

static void expect_refused(small_file *file, const char *sentence) {
    mlp_model model;
    file_error error = {""};
    if (!load_small(file, &model, &error) || strstr(error.text, sentence) == NULL)
        fail_msg("'%s' instead of '%s'", error.text, sentence);
    mlp_model_release(&model);
}

TEST(a_small_file_is_read) {
    small_file file = small();
    mlp_model model;
    file_error error = {""};
    file.scales[1] = 0.0f; /* the row is zero, whatever its values are */
    if (load_small(&file, &model, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < 12; i++)
        assert_true(model.layers[0].weight[i] ==
                    (i / 4 == 1 ? 0.0f : (float)small_codes[i] * (i < 4 ? 0.5f : 2.0f)));
    assert_true(model.layers[0].stored.scales[1] == 1.0f);
    mlp_model_release(&model);
}

TEST(files_that_contradict_themselves_are_refused) {
    static const struct {
        size_t count; /* of tensors: weight, scales, zero points that the layout lacks */
        safetensors_dtype weight, scales;
        float last_scale;
        const char *version, *sentence;
    } rows[] = {
        {1, SAFETENSORS_I8, SAFETENSORS_F32, 2, "1", "there is no tensor \"a.weight_scale\""},
        {2, SAFETENSORS_I8, SAFETENSORS_I32, 2, "1",
         "\"a.weight_scale\" has the dtype I32, not F32"},
        {2, SAFETENSORS_I8, SAFETENSORS_F32, NAN, "1", "tensor \"a.weight_scale\""},
        {2, SAFETENSORS_I8, SAFETENSORS_F32, INFINITY, "1", "tensor \"a.weight_scale\""},
        {2, SAFETENSORS_I8, SAFETENSORS_F32, 3e38f, "1",
         "value 8 of tensor \"a.weight\" is not finite"},
        {2, SAFETENSORS_I8, SAFETENSORS_F32, 2, "2", "\"tandem.quant\" is \"2\", not \"1\""},
        {2, SAFETENSORS_U8, SAFETENSORS_F32, 2, "1", "\"a.weight\" has the dtype U8, not I8"},
        {3, SAFETENSORS_I8, SAFETENSORS_F32, 2, "1",
         "1 tensors of the model are neither weight nor bias"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small_file file = small();
        file.count = rows[i].count;
        file.tensors[0].dtype = rows[i].weight;
        file.tensors[1].dtype = rows[i].scales;
        file.tensors[2] = (safetensors_tensor){.name = "a.weight_zero_point",
                                               .dtype = SAFETENSORS_I8,
                                               .rank = 2,
                                               .shape = {3, 1},
                                               .data = small_zeros,
                                               .bytes = 3};
        file.scales[2] = rows[i].last_scale;
        file.version = rows[i].version;
        expect_refused(&file, rows[i].sentence);
    }
}

TEST(layouts_that_are_not_those_of_the_tensor_are_refused) {
#define LAYOUT(scheme, dtype, shape, block)                                                        \
    "{\"scheme\":\"" scheme "\",\"dtype\":\"" dtype "\",\"shape\":" shape ",\"block\":" block "}"
    static const struct {
        const char *layout, *sentence;
    } rows[] = {
        {"", "a.weight"},
        {"[1]", "a.weight"},
        {LAYOUT("s8-channel", "f32", "[3,4]", "[1,0]"), "a.weight"},
        {LAYOUT("s8-channel", "s8", "[3,5]", "[1,0]"), "has 12 elements, not 15"},
        {LAYOUT("s8-channel", "s8", "[12]", "[4]"), "is not a weight matrix"},
        {LAYOUT("s8-channel", "s8", "[3,4]", "[1,1]"), "has 3 elements, not 12"},
        {LAYOUT("s8-channel", "s8", "[0,4]", "[1,0]"), "a.weight"},
        {LAYOUT("s8-channel", "s8", "[3,9007199254740991]", "[1,0]"), "a.weight"},
        {LAYOUT("s4-group", "s4", "[3,4]", "[1,0]"), "has the dtype I8, not U8"},
        {LAYOUT("s8-channel", "s8", "[3,4]", "[1,0],\"zero_points\":true"),
         "there is no tensor \"a.weight_zero_point\""},
        {LAYOUT("q8_0", "s8", "[3,4]", "[1,32]"), "does not contain the blocks of q8_0"},
        {LAYOUT("s8-channel", "s8", "[3,4]", "[1,0],\"original_shape\":[3,2,2]"),
         "was not a matrix before it was quantized"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small_file file = small();
        snprintf(file.layout, sizeof file.layout, "%s", rows[i].layout);
        expect_refused(&file, rows[i].sentence);
    }
}

/*
 * Bytes of a valid file are flipped. The file is read or refused, and the reader never crashes
 * (sanitizers check this).
 */
TEST(damaged_files_are_survived) {
    static const char *const names[] = {"model.safetensors", "model.gguf"};
    for (int kind = 0; kind < 2; kind++) {
        char path[TEST_PATH];
        size_t size;
        uint32_t seed = 99;
        quantize_digits(kind == 0 ? "s4-group-zero" : "q4_0", names[kind], "");
        unsigned char *const bytes = test_file_read(test_folder_path(path, names[kind]), &size);
        for (int round = 0; round < 60; round++) {
            mlp_model model;
            file_error error = {""};
            unsigned char *const copy = malloc(size);
            memcpy(copy, bytes, size);
            for (int i = 0; i < 1 + round % 3; i++) {
                seed = seed * 1664525u + 1013904223u;
                copy[(seed >> 8) % 2048] = (unsigned char)(seed >> 3);
            }
            test_file_write(path, copy, round % 6 == 5 ? (seed >> 4) % size : size);
            if (mlp_model_load(test_folder(), &model, &error))
                assert_string_not_equal(error.text, "");
            mlp_model_release(&model);
            free(copy);
        }
        free(bytes);
        remove_file(names[kind]);
    }
}

TEST_MAIN(test_folder_make, test_folder_remove)
