// ctest: threads timeout=300
/* Tests `tandem quantize` on invalid arguments, input and output. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench_commands.h"
#include "formats/checkpoint/quantize_read.h"
#include "formats/gguf.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_model.h"

/* ---- the command line ---- */

TEST_WITH(misuse_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"in.safetensors out.safetensors", "--scheme is missing: choose one of keep|f32|f16"},
        {"in.safetensors out.safetensors --scheme s3", "--scheme does not take 's3'"},
        {"in.safetensors out.safetensors --scheme s4-group --group 48",
         "--group does not take '48'"},
        {"in.safetensors out.safetensors --scheme s8-channel --except a=f16 --group 32",
         "--group is for group schemes, not for s8-channel"},
        {"in.safetensors out.gguf --scheme s8-channel", "GGUF files have no s8-channel"},
        {"in.safetensors out.gguf --scheme q4_0 --except a=s8-tensor",
         "GGUF files have no s8-tensor"},
        {"in.safetensors out.index.json --scheme s8-channel", "the output is one file"},
        {"in.safetensors out.safetensors --scheme f16 --only (", "--only does not take '('"},
        {"in.safetensors out.safetensors --scheme f16 --skip [", "--skip does not take '['"},
        {"in.safetensors out.safetensors --scheme f16 --except w", "give REGEX=NAME"},
        {"in.safetensors out.safetensors --scheme f16 --except =f16", "give REGEX=NAME"},
        {"in.safetensors out.safetensors --scheme f16 --except a=s5", "give REGEX=NAME"},
        {"in.safetensors out.safetensors --scheme f16 --except (=f16",
         "--except does not take '('"},
        {"in.safetensors out.safetensors --scheme f16 --json ./out.safetensors",
         "it is the output"},
        {"in.safetensors out.safetensors --scheme f16 --calibrate in.safetensors",
         "--calibrate is for integer schemes, not for f16"},
        {"in.safetensors out.gguf --scheme q8_0 --calibrate in.safetensors",
         "GGUF files cannot store"},
        {"in.safetensors out.safetensors --scheme q8_0 --observer kl", "needs --calibrate"},
    };
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(2, NULL, rows[i].sentence, "%s", rows[i].arguments);
        assert_int_equal(test_checkpoint_files(), 1);
    }
}

/* ---- input ---- */

/*
 * Cuts a safetensors file and a GGUF file every 64 bytes in the first 1024, then every 997 bytes.
 */
TEST_WITH(truncated_input_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    test_checkpoint_write_good("in.safetensors");
    test_quantize(0, NULL, NULL, "in.safetensors in.gguf --scheme f16");
    static const char *const names[] = {"in.safetensors", "in.gguf"};
    static const char *const cuts[] = {"cut.safetensors", "cut.gguf"};
    for (int i = 0; i < 2; i++) {
        size_t size;
        unsigned char *const bytes = test_file_read(names[i], &size);
        /* The last 32 bytes of a GGUF file may be padding, which may be cut. */
        for (size_t length = 0; length + 32 < size; length += length < 1024 ? 64 : 997) {
            test_file_write(cuts[i], bytes, length);
            test_quantize(1, NULL, "tandem quantize: cut.", "%s out.safetensors --scheme f32",
                          cuts[i]);
            assert_int_equal(test_checkpoint_files(), 3);
        }
        free(bytes);
        test_checkpoint_remove(cuts[i]);
    }
}

TEST_WITH(paths_that_are_no_files_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"none.safetensors out.safetensors", "none.safetensors: No such file"},
        {"none.gguf out.safetensors", "none.gguf: No such file"},
        {"empty.safetensors out.safetensors", "empty.safetensors: the file is truncated: 0 bytes"},
        {"empty.gguf out.safetensors", "empty.gguf: the file is truncated: 0 bytes"},
        {"/tmp out.safetensors", "/tmp is a folder: name its model.safetensors"},
        {"in.safetensors out.safetensors --calibrate /tmp", "/tmp is a folder"},
        {"pipe out.safetensors", "pipe is not a regular file"},
        {"in.safetensors none/out.safetensors", "No such file or directory"},
        {"in.safetensors in.safetensors/out.safetensors", "Not a directory"},
        {"in.safetensors /tmp", "/tmp cannot be written: it is a directory"},
        {"in.safetensors /dev/full", "/dev/full cannot be written: it is not a regular file"},
        {"in.safetensors pipe", "pipe cannot be written: it is not a regular file"},
        {"in.safetensors /proc/out.safetensors", "cannot be created"},
        {"in.safetensors ./in.safetensors", "the output './in.safetensors' is a file of the input"},
        {"in.safetensors out.safetensors --json ./in.safetensors", "it is a file of the input"},
        {"in.safetensors out.safetensors --json none/r.json", "cannot write 'none/r.json'"},
        {"in.safetensors out.safetensors --calibrate none.safetensors",
         "none.safetensors: No such"},
    };
    test_checkpoint_write_good("in.safetensors");
    test_file_write("empty.safetensors", "", 0);
    test_file_write("empty.gguf", "", 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(1, NULL, rows[i].sentence, "%s --scheme q8_0", rows[i].arguments);
        assert_int_equal(test_checkpoint_files(), 4);
    }
}

/* Only root can write to this folder. So the command succeeds as root and fails otherwise. */
TEST_WITH(a_folder_that_is_read_only, test_checkpoint_enter, test_checkpoint_leave) {
    test_checkpoint_write_good("in.safetensors");
    assert_int_equal(mkdir("locked", 0500), 0);
    const int is_root = geteuid() == 0;
    test_quantize(is_root ? 0 : 1, NULL, is_root ? NULL : "locked/out.safetensors",
                  "in.safetensors locked/out.safetensors --scheme f16");
    assert_int_equal(unlink("locked/out.safetensors"), is_root ? 0 : -1);
    assert_int_equal(rmdir("locked"), 0);
}

/* The message names the tensor and the element in every scheme, and no output is left. */
TEST_WITH(numbers_that_are_not_finite_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const schemes[] = {
        "s8-tensor", "s8-channel-zero", "s4-group", "u8-channel", "f16", "bf16", "q8_0", "q4_0"};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        safetensors_tensor tensors[] = {test_tensor_make("good", SAFETENSORS_F32, 1, 32, 64, 0),
                                        test_tensor_make("bad", SAFETENSORS_F32, 2, 700, 1024, 0)};
        ((float *)(uintptr_t)tensors[1].data)[654321] = values[i % 3];
        test_checkpoint_write("in.safetensors", tensors, 2);
        test_quantize(1, NULL, "element 654321 of tensor \"bad\" is ",
                      "in.safetensors out.safetensors --scheme %s", schemes[i]);
        assert_int_equal(test_checkpoint_files(), 1);
        /* Non-finite values do not matter in a tensor that is skipped. */
        test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme %s --skip bad",
                      schemes[i]);
        test_checkpoint_remove("out.safetensors");
    }
}

TEST_WITH(numbers_too_large_for_blocks_are_refused, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0);
    ((float *)(uintptr_t)tensor.data)[100] = 1e7f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(1, NULL,
                  "elements 96 to 127 of tensor \"w\" are too large for the scale of a q8_0",
                  "in.safetensors out.gguf --scheme q8_0");
    assert_int_equal(test_checkpoint_files(), 1);
}

TEST_WITH(what_a_container_does_not_take_is_named, test_checkpoint_enter, test_checkpoint_leave) {
    static const char long_name[] =
        "a.name.of.sixty.four.bytes.that.no.reader.of.gguf.files.can.take";
    static const unsigned char flags[32] = {0};
    safetensors_tensor tensors[] = {
        test_tensor_make(long_name, SAFETENSORS_F32, 1, 32, 64, 0),
        test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0),
        {.name = "flags",
         .dtype = SAFETENSORS_BOOL,
         .rank = 1,
         .shape = {32},
         .data = flags,
         .bytes = 32},
        {.name = "w_scale",
         .dtype = SAFETENSORS_U8,
         .rank = 5,
         .shape = {1, 1, 1, 1, 32},
         .data = flags,
         .bytes = 32},
    };
    assert_int_equal(strlen(long_name), 64);
    test_checkpoint_write("in.safetensors", tensors, 2);
    test_quantize(1, NULL, "has 64 bytes; GGUF takes 1 to 63",
                  "in.safetensors out.gguf --scheme q8_0");
    test_checkpoint_write("in.safetensors", tensors + 1, 2);
    test_quantize(1, NULL, "\"flags\" has the dtype BOOL, which GGUF does not have",
                  "in.safetensors out.gguf --scheme q8_0");
    tensors[2] = tensors[3];
    test_checkpoint_write("in.safetensors", tensors + 1, 2);
    test_quantize(1, NULL, "5 dimensions; GGUF takes 4", "in.safetensors out.gguf --scheme q8_0");
    test_quantize(1, NULL, "the name \"w_scale\" is already used",
                  "in.safetensors out.safetensors --scheme s8-channel");
    test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme q8_0");
    test_checkpoint_remove("out.safetensors");
    assert_int_equal(test_checkpoint_files(), 1);
}

/* The reader refuses metadata with false claims about tensors, and never reads out of bounds. */
TEST_WITH(lying_metadata_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const struct {
        const char *layout;
        const char *sentence;
    } rows[] = {
        {"", "does not describe"},
        {"{}", "does not describe"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"f32\",\"shape\":[32,64],\"block\":[1,0]}",
         "does not describe"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1]}",
         "does not describe"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,-64],\"block\":[1,0]}",
         "does not describe"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,65],\"block\":[1,0]}",
         "2048 elements, not 2080"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,1]}",
         "32 elements, not 2048"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"u8\",\"shape\":[32,64],\"block\":[1,0]}",
         "dtype I8, not U8"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s4\",\"shape\":[64,64],\"block\":[1,0]}",
         "dtype I8, not U8"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0],\"zero_"
         "points\":true}",
         "no tensor \"w_zero_point\""},
        {"{\"scheme\":\"q8_0\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,32]}",
         "blocks of q8_0"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[4294967296,4294967296],\"block\":["
         "1,0]}",
         "metadata of tensor \"w\""},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0]}", NULL},
    };
    static const signed char codes[32 * 64] = {1};
    float scales[32] = {0.5f};
    safetensors_tensor tensors[] = {{.name = "w",
                                     .dtype = SAFETENSORS_I8,
                                     .rank = 2,
                                     .shape = {32, 64},
                                     .data = codes,
                                     .bytes = sizeof codes},
                                    {.name = "w_scale",
                                     .dtype = SAFETENSORS_F32,
                                     .rank = 2,
                                     .shape = {32, 1},
                                     .data = scales,
                                     .bytes = sizeof scales}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const safetensors_pair metadata[] = {{"tandem.quant", "1"},
                                             {"tandem.quant.w", rows[i].layout}};
        quantized_weight weight;
        file_error error = {""};
        assert_int_equal(test_safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error),
                         0);
        safetensors_file *const file = test_checkpoint_open("in.safetensors");
        const int result = quantized_weight_read(file, "w", &weight, &error);
        if (result != (rows[i].sentence ? -1 : 0) ||
            (rows[i].sentence && !strstr(error.text, rows[i].sentence)))
            fail_msg("row %zu gave %d: %s", i, result, error.text);
        quantized_weight_release(&weight);
    }
    scales[3] = NAN;
    const safetensors_pair metadata[] = {
        {"tandem.quant", "1"}, {"tandem.quant.w", rows[sizeof rows / sizeof *rows - 1].layout}};
    file_error error = {""};
    quantized_weight weight;
    assert_int_equal(test_safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error), 0);
    safetensors_file *const file = test_checkpoint_open("in.safetensors");
    assert_int_equal(quantized_weight_read(file, "w", &weight, &error), -1);
    assert_non_null(strstr(error.text, "tensor \"w_scale\": "));
    assert_int_equal(quantized_weight_read(file, "none", &weight, &error), -1);
    assert_string_equal(error.text, "there is no tensor \"none\"");
}

/* ---- damage ---- */

/* Quantizes within this process, so that a sanitizer checks it. Prints nothing. */
static int quantize_quietly(const char *input, const char *output, const char *scheme) {
    char *arguments[] = {"quantize", (char *)input,  (char *)output,
                         "--scheme", (char *)scheme, NULL};
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fflush(stdout);
    fflush(stderr);
    const int kept_output = dup(STDOUT_FILENO);
    const int kept_errors = dup(STDERR_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    const int code = quantize_command(5, arguments);
    fflush(stdout);
    fflush(stderr);
    dup2(kept_output, STDOUT_FILENO);
    dup2(kept_errors, STDERR_FILENO);
    close(kept_output);
    close(kept_errors);
    close(null);
    return code;
}

/*
 * One to four bytes are damaged, most of them in the header. Either the file is refused without
 * output, or the output can be read.
 */
TEST_WITH(damage_is_refused_or_harmless, test_checkpoint_enter, test_checkpoint_leave) {
    enum {
        ROUNDS = 450
    };
    static const char *const schemes[] = {"s8-channel", "s4-group-zero", "q4_0", "f16", "keep"};
    static const char *const inputs[] = {"in.safetensors", "in.gguf", "blocks.safetensors"};
    test_random random = {.state = 0x71756164};
    int done = 0;
    test_checkpoint_write_good("in.safetensors");
    test_quantize(0, NULL, NULL, "in.safetensors in.gguf --scheme q8_0");
    test_quantize(0, NULL, NULL, "in.safetensors blocks.safetensors --scheme q8_0");
    for (int i = 0; i < ROUNDS; i++) {
        const char *const damaged = i % 3 == 1 ? "bad.gguf" : "bad.safetensors";
        size_t size;
        unsigned char *const bytes = test_file_read(inputs[i % 3], &size);
        for (int64_t n = test_random_int(&random, 1, 4); n > 0; n--) {
            const int64_t end = test_random_int(&random, 0, 9) == 0 ? (int64_t)size - 1 : 500;
            bytes[test_random_int(&random, 0, end)] =
                (unsigned char)test_random_int(&random, 0, 255);
        }
        test_file_write(damaged, bytes, size);
        free(bytes);
        const char *const output = i % 2 == 0 ? "out.safetensors" : "out.gguf";
        const int code = quantize_quietly(damaged, output, schemes[i % 5]);
        unlink(damaged);
        if (code == 0) {
            safetensors_file *file = NULL;
            gguf_file *other = NULL;
            file_error error = {""};
            done++;
            if (i % 2 == 0 ? safetensors_open(output, &file, &error)
                           : gguf_open(output, &other, &error))
                fail_msg("round %d: the output cannot be read: %s", i, error.text);
            safetensors_close(file);
            gguf_close(other);
            test_checkpoint_remove(output);
        }
        assert_in_range(code, 0, 2);
        if (test_checkpoint_files() != 3)
            fail_msg("round %d: something is left behind", i);
    }
    assert_in_range(done, 1, ROUNDS - 1);
}

TEST_MAIN(NULL, NULL)
