// ctest: threads
/* `tandem quantize`: several schemes in one run, by the names of tensors; a run that writes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/gguf.h"
#include "tests/support/quant/test_checkpoint.h"

enum {
    TENSORS = 4
};

static const char *const names[TENSORS] = {"embed.weight", "a.weight", "b=1.weight",
                                           "lm_head.weight"};

static void write_model(const char *file) {
    safetensors_tensor tensors[TENSORS];
    for (unsigned i = 0; i < TENSORS; i++)
        tensors[i] =
            test_tensor_make(names[i], i % 2 ? SAFETENSORS_F16 : SAFETENSORS_F32, 3 + i, 48, 96, 0);
    test_checkpoint_write(file, tensors, TENSORS);
    for (int i = 0; i < TENSORS; i++)
        test_tensor_release(&tensors[i]);
}

static void check_same(const quantized_weight *a, const quantized_weight *b) {
    assert_string_equal(a->scheme, b->scheme);
    assert_int_equal(a->code_bytes, b->code_bytes);
    assert_memory_equal(a->codes, b->codes, a->code_bytes);
    assert_int_equal(a->scale_bytes, b->scale_bytes);
    if (a->scale_bytes > 0)
        assert_memory_equal(a->scales, b->scales, a->scale_bytes);
}

/* Each tensor is what a run with its scheme alone makes of it. */
static void names_choose_schemes(void **state) {
    (void)state;
    static const char *const schemes[TENSORS] = {"bf16", "s4-group", "s4-group", "s8-channel"};
    write_model("in.safetensors");
    char *const text = test_quantize_output(
        "in.safetensors out.safetensors --scheme s4-group --group 64 --except lm_head=s8-channel "
        "--except ^embed=bf16 --except em|a\\.=s4-group --except a=s8-tensor --json -");
    assert_non_null(strstr(text, "\"exceptions\""));
    assert_non_null(strstr(text, "\"em|a\\\\.\""));
    free(text);
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    for (int i = 0; i < TENSORS; i++) {
        test_quantize(0, NULL, NULL, "in.safetensors alone.safetensors --scheme %s%s --only ^%s",
                      schemes[i], strcmp(schemes[i], "s4-group") ? "" : " --group 64", names[i]);
        safetensors_file *const alone = test_checkpoint_open("alone.safetensors");
        quantized_weight mixed = test_weight_read(file, names[i]);
        quantized_weight single = test_weight_read(alone, names[i]);
        check_same(&mixed, &single);
        quantized_weight_release(&mixed);
        quantized_weight_release(&single);
        safetensors_close(alone);
    }
    safetensors_close(file);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
    test_checkpoint_remove("alone.safetensors");
}

static void gguf_takes_several_types(void **state) {
    (void)state;
    write_model("in.safetensors");
    test_quantize(0, "3 tensors quantized, 1 copied", NULL,
                  "in.safetensors out.gguf --scheme q4_0 --except lm_head=q8_0 --except embed=keep "
                  "--except b=1=f16");
    gguf_file *file = NULL;
    file_error error;
    assert_int_equal(gguf_open("out.gguf", &file, &error), 0);
    static const gguf_type types[TENSORS] = {GGUF_F32, GGUF_Q4_0, GGUF_F16, GGUF_Q8_0};
    for (int i = 0; i < TENSORS; i++)
        assert_int_equal(gguf_find(file, names[i])->type, types[i]);
    gguf_close(file);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.gguf");
}

/* Codes of some tensors become numbers, their scales go with them; those of others stay. */
static void some_codes_become_numbers(void **state) {
    (void)state;
    write_model("in.safetensors");
    test_quantize(0, NULL, NULL, "in.safetensors codes.safetensors --scheme s8-channel");
    test_quantize(0, "1 tensors quantized, 6 copied", NULL,
                  "codes.safetensors out.safetensors --scheme keep --except ^a=f16");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_find(file, "a.weight")->dtype, SAFETENSORS_F16);
    assert_null(safetensors_find(file, "a.weight_scale"));
    assert_int_equal(safetensors_find(file, "lm_head.weight")->dtype, SAFETENSORS_I8);
    assert_non_null(safetensors_find(file, "lm_head.weight_scale"));
    safetensors_close(file);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("codes.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* Layers that become floats have no input to be quantized. */
static void activations_are_of_integers(void **state) {
    (void)state;
    write_model("in.safetensors");
    safetensors_tensor activations[] = {test_tensor_make("a", SAFETENSORS_F32, 1, 5, 96, 0),
                                        test_tensor_make("lm_head", SAFETENSORS_F32, 2, 5, 96, 0)};
    test_checkpoint_write("rows.safetensors", activations, 2);
    test_quantize(0, "no layer that is quantized: 1, the first \"a\"", NULL,
                  "in.safetensors out.safetensors --scheme s8-channel --except ^a=f16 --calibrate "
                  "rows.safetensors");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    assert_null(safetensors_find(file, "a.input_scale"));
    assert_non_null(safetensors_find(file, "lm_head.input_scale"));
    safetensors_close(file);
    test_tensor_release(&activations[0]);
    test_tensor_release(&activations[1]);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("rows.safetensors");
    test_checkpoint_remove("out.safetensors");
}

static void exceptions_are_checked(void **state) {
    (void)state;
    static const struct {
        int code;
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {2, "out.safetensors --scheme f16 --except lm_head",
         "give REGEX=NAME, with a NAME of keep|"},
        {2, "out.safetensors --scheme f16 --except =f16", "--except does not take '=f16'"},
        {2, "out.safetensors --scheme f16 --except a=s5", "--except does not take 'a=s5'"},
        {2, "out.safetensors --scheme f16 --except (=f16", "--except does not take '('"},
        {2, "out.gguf --scheme q4_0 --except a=s8-channel", "GGUF files have no s8-channel"},
        {2, "out.safetensors --scheme s8-channel --except a=f16 --group 64",
         "--group is for schemes of groups"},
        {2, "out.safetensors --scheme f16 --except a=bf16 --calibrate in.safetensors",
         "--calibrate is for integers"},
        {1, "out.safetensors --scheme keep --except nobody=s8-channel",
         "one that keep, or another scheme of the run, takes"},
    };
    write_model("in.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(rows[i].code, NULL, rows[i].sentence, "in.safetensors %s", rows[i].arguments);
        assert_int_equal(test_checkpoint_files(), 1);
    }
    test_quantize(0, NULL, NULL,
                  "in.safetensors out.safetensors --scheme f16 --except a=s4-group --group 64 "
                  "--scales bf16");
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* The report of a run that writes nothing is that of one that does, but for what only numbers tell. */
static void a_dry_run_writes_nothing(void **state) {
    (void)state;
    static const char *const parts[] = {"\"totals\"", "\"to\":\t\"s8-channel\"",
                                        "\"to\":\t\"s4-group\""};
    write_model("in.safetensors");
    char *const dry =
        test_quantize_output("in.safetensors out.safetensors --scheme s4-group --except "
                             "lm_head=s8-channel --dry-run --json -");
    assert_int_equal(test_checkpoint_files(), 1);
    char *const done = test_quantize_output(
        "in.safetensors out.safetensors --scheme s4-group --except lm_head=s8-channel --json -");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_non_null(strstr(dry, parts[i]));
        assert_non_null(strstr(done, parts[i]));
    }
    assert_string_equal(strstr(dry, parts[0]), strstr(done, parts[0]));
    assert_non_null(strstr(dry, "\"dry_run\":\ttrue"));
    assert_non_null(strstr(done, "\"dry_run\":\tfalse"));
    assert_null(strstr(dry, "sqnr_db"));
    free(dry);
    free(done);
    test_checkpoint_remove("out.safetensors");
    test_quantize(0, "out.safetensors (not written): 4 tensors quantized", NULL,
                  "in.safetensors out.safetensors --scheme q8_0 --dry-run");
    test_quantize(0, NULL, NULL,
                  "in.safetensors out.safetensors --scheme q8_0 --dry-run --json r.json");
    assert_int_equal(test_checkpoint_files(), 2);
    test_checkpoint_remove("r.json");
    test_checkpoint_remove("in.safetensors");
}

/* An output that is there stays, and what a container refuses is refused. */
static void a_dry_run_refuses_as_another(void **state) {
    (void)state;
    static const char name[] =
        "a.name.of.a.tensor.that.is.longer.than.ggml.has.room.for.in.its.own.tensors";
    safetensors_tensor tensor = test_tensor_make(name, SAFETENSORS_F32, 1, 32, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(1, NULL, "GGUF takes 1 to 63", "in.safetensors out.gguf --scheme q8_0 --dry-run");
    test_quantize(1, NULL, "no tensor of",
                  "in.safetensors out.gguf --scheme q8_0 --skip a --dry-run");
    test_quantize(1, NULL, "No such file",
                  "in.safetensors none/out.safetensors --scheme q8_0 --dry-run");
    assert_int_equal(test_checkpoint_files(), 1);
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme s8-channel");
    test_quantize(0, "not written", NULL, "in.safetensors out.safetensors --scheme f16 --dry-run");
    safetensors_file *const file = test_checkpoint_open("out.safetensors");
    assert_int_equal(safetensors_find(file, name)->dtype, SAFETENSORS_I8);
    safetensors_close(file);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* Nor does a run come to what types and shapes of activations forbid layer by layer. */
static void a_dry_run_refuses_activations(void **state) {
    (void)state;
    static const struct {
        int64_t columns;
        safetensors_dtype dtype;
        const char *sentence;
    } rows[] = {
        {63, SAFETENSORS_F32, "activations \"b\" have rows of 63, but layer \"b\" has 64 inputs"},
        {64, SAFETENSORS_I32, "activations \"b\" are of type I32"},
    };
    safetensors_tensor weights[2] = {
        test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 64, 0),
        test_tensor_make("b.weight", SAFETENSORS_F32, 1, 32, 64, 0),
    };
    float *const numbers = (float *)weights[0].data;
    test_checkpoint_write("in.safetensors", weights, 2);
    for (int i = 0; i < 2; i++) {
        safetensors_tensor x = test_tensor_make("b", rows[i].dtype, 1, 4, rows[i].columns, 0);
        test_checkpoint_write("x.safetensors", &x, 1);
        test_tensor_release(&x);
        test_quantize(1, NULL, rows[i].sentence,
                      "in.safetensors out.safetensors --scheme s8-channel --calibrate "
                      "x.safetensors --dry-run");
    }
    /* Before a number of another layer is read. */
    numbers[0] = NAN;
    test_checkpoint_write("in.safetensors", weights, 2);
    test_quantize(1, NULL, rows[1].sentence,
                  "in.safetensors out.safetensors --scheme s8-channel --calibrate x.safetensors");
    for (int i = 0; i < 2; i++)
        test_tensor_release(&weights[i]);
    test_checkpoint_remove("x.safetensors");
    test_checkpoint_remove("in.safetensors");
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(names_choose_schemes),         CASE(gguf_takes_several_types),
        CASE(some_codes_become_numbers),    CASE(activations_are_of_integers),
        CASE(exceptions_are_checked),       CASE(a_dry_run_writes_nothing),
        CASE(a_dry_run_refuses_as_another), CASE(a_dry_run_refuses_activations),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize mixed", tests, NULL, NULL);
}
