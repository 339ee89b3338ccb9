// ctest: threads serial timeout=300
/* `tandem quantize` on input that is broken, on output that cannot be written, under signals, and within its memory. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench_commands.h"
#include "bench/gguf.h"
#include "bench/quantize_read.h"
#include "tests/support/test_checkpoint.h"
#include "tests/support/test_data.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* ---- the command line ---- */

static void misuse_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"in.safetensors out.safetensors", "--scheme is missing: choose one of keep|f32|f16"},
        {"in.safetensors --scheme f16", "missing"},
        {"in.safetensors a b --scheme f16", "unexpected argument"},
        {"in.safetensors out.safetensors --scheme s3", "--scheme does not take 's3'"},
        {"in.safetensors out.safetensors --scheme s4-group --group 48",
         "--group does not take '48'"},
        {"in.safetensors out.safetensors --scheme s8-channel --group 32",
         "--group is for schemes of groups, not for s8-channel"},
        {"in.safetensors out.safetensors --scheme u8-channel --group 32",
         "--group is for schemes of groups, not for u8-channel"},
        {"in.safetensors out.safetensors --scheme s4-tensor --axis 1",
         "--axis is for schemes of channels"},
        {"in.safetensors out.safetensors --scheme u8-group --weights-observer kl",
         "--weights-observer kl is for scales of tensors and channels, not for u8-group"},
        {"in.safetensors out.safetensors --scheme q4_0 --group 32",
         "--group is for schemes of groups"},
        {"in.safetensors out.safetensors --scheme s8-channel --axis 2", "--axis does not take '2'"},
        {"in.safetensors out.safetensors --scheme s8-tensor --axis 1",
         "--axis is for schemes of channels"},
        {"in.safetensors out.safetensors --scheme q8_0 --axis 1",
         "--axis is for schemes of channels"},
        {"in.safetensors out.safetensors --scheme s8-channel --scales s8",
         "--scales does not take 's8'"},
        {"in.safetensors out.safetensors --scheme q8_0 --scales bf16",
         "--scales is for codes with scales beside them, not for q8_0"},
        {"in.safetensors out.gguf --scheme s8-channel", "GGUF files have no s8-channel"},
        {"in.safetensors out.safetensors --scheme f16 --only (", "--only does not take '('"},
        {"in.safetensors out.safetensors --scheme f16 --skip [", "--skip does not take '['"},
        {"in.safetensors in.safetensors --scheme f16", "the output 'in.safetensors' is the input"},
        {"in.safetensors ./in.safetensors --scheme f16",
         "the output './in.safetensors' is the input"},
        {"in.safetensors out.safetensors --scheme f16 --json in.safetensors", "it is an input"},
        {"in.safetensors out.safetensors --scheme f16 --json out.safetensors", "it is the output"},
        {"in.safetensors out.safetensors --scheme f16 --json ./out.safetensors",
         "it is the output"},
        {"in.safetensors .//out.safetensors --scheme f16 --json out.safetensors",
         "it is the output"},
        {"in.safetensors out.safetensors --scheme f16 --calibrate in.safetensors",
         "--calibrate is for integers, not for f16"},
        {"in.safetensors out.gguf --scheme q8_0 --calibrate in.safetensors",
         "GGUF files have no place"},
        {"in.safetensors out.safetensors --scheme q8_0 --observer kl", "need --calibrate"},
        {"in.safetensors out.safetensors --scheme q8_0 --calibrate x --percentile 99",
         "--percentile needs --observer percentile"},
        {"in.safetensors out.safetensors --scheme s8-channel --weights-observer moving-average",
         "--weights-observer does not take 'moving-average'"},
        {"in.safetensors out.safetensors --scheme q8_0 --weights-observer mse",
         "--weights-observer is for codes with scales beside them, not for q8_0"},
        {"in.safetensors out.safetensors --scheme f16 --weights-observer minmax",
         "--weights-observer is for codes with scales beside them, not for f16"},
        {"in.safetensors out.safetensors --scheme s4-group --weights-observer kl",
         "--weights-observer kl is for scales of tensors and channels, not for s4-group"},
        {"in.safetensors out.safetensors --scheme s8-group --weights-observer percentile",
         "a group has too few weights for a histogram"},
        {"in.safetensors out.safetensors --scheme s8-channel --weights-percentile 99",
         "--weights-percentile needs --weights-observer percentile"},
        {"in.safetensors out.safetensors --scheme s8-channel --weights-observer percentile "
         "--weights-percentile 10",
         "--weights-percentile does not take '10'"},
    };
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(2, NULL, rows[i].sentence, "%s", rows[i].arguments);
        assert_int_equal(test_checkpoint_files(), 1);
    }
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
}

/* ---- input ---- */

static void write_good(const char *name) {
    safetensors_tensor tensors[] = {test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 64, 0),
                                    test_tensor_make("b.weight", SAFETENSORS_F16, 2, 40, 32, 0)};
    test_checkpoint_write(name, tensors, 2);
    test_tensor_release(&tensors[0]);
    test_tensor_release(&tensors[1]);
}

/* Every 64th byte of a safetensors and of a GGUF file, the whole header in every byte. */
static void truncated_input_is_refused(void **state) {
    (void)state;
    write_good("in.safetensors");
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
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("in.gguf");
}

static void paths_that_are_no_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        const char *sentence;
    } rows[] = {
        {"none.safetensors out.safetensors", "none.safetensors: No such file"},
        {"none.gguf out.safetensors", "none.gguf: No such file"},
        {"empty.safetensors out.safetensors", "empty.safetensors: the file is truncated: 0 bytes"},
        {"empty.gguf out.safetensors", "empty.gguf: the file is truncated: 0 bytes"},
        {"/tmp out.safetensors", "/tmp is no regular file"},
        {"pipe out.safetensors", "pipe is no regular file"},
        {"in.safetensors none/out.safetensors", "No such file or directory"},
        {"in.safetensors in.safetensors/out.safetensors", "Not a directory"},
        {"in.safetensors /tmp", "/tmp cannot be written: it is a directory"},
        {"in.safetensors /dev/full", "/dev/full cannot be written: it is no regular file"},
        {"in.safetensors pipe", "pipe cannot be written: it is no regular file"},
        {"in.safetensors /proc/out.safetensors", "cannot be created"},
        {"in.safetensors out.safetensors --json none/r.json", "cannot write 'none/r.json'"},
        {"in.safetensors out.safetensors --calibrate none.safetensors",
         "none.safetensors: No such"},
    };
    write_good("in.safetensors");
    test_file_write("empty.safetensors", "", 0);
    test_file_write("empty.gguf", "", 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_quantize(1, NULL, rows[i].sentence, "%s --scheme q8_0", rows[i].arguments);
        assert_int_equal(test_checkpoint_files(), 4);
    }
    test_checkpoint_remove("pipe");
    test_checkpoint_remove("empty.gguf");
    test_checkpoint_remove("empty.safetensors");
    test_checkpoint_remove("in.safetensors");
}

/* As no user but root could write to it; root can, so there the command succeeds. */
static void a_folder_that_is_read_only(void **state) {
    (void)state;
    write_good("in.safetensors");
    assert_int_equal(mkdir("locked", 0500), 0);
    const int is_root = geteuid() == 0;
    test_quantize(is_root ? 0 : 1, NULL, is_root ? NULL : "locked/out.safetensors",
                  "in.safetensors locked/out.safetensors --scheme f16");
    assert_int_equal(unlink("locked/out.safetensors"), is_root ? 0 : -1);
    assert_int_equal(rmdir("locked"), 0);
    test_checkpoint_remove("in.safetensors");
}

/* The tensor and the element are named, whatever the scheme, and nothing is left of the output. */
static void numbers_that_are_not_finite_are_refused(void **state) {
    (void)state;
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
        /* Where it is not touched, it is no matter. */
        test_quantize(0, NULL, NULL, "in.safetensors out.safetensors --scheme %s --skip bad",
                      schemes[i]);
        test_checkpoint_remove("out.safetensors");
        test_tensor_release(&tensors[0]);
        test_tensor_release(&tensors[1]);
    }
    test_checkpoint_remove("in.safetensors");
}

static void numbers_too_large_for_blocks_are_refused(void **state) {
    (void)state;
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0);
    ((float *)(uintptr_t)tensor.data)[100] = 1e7f;
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(1, NULL,
                  "elements 96 to 127 of tensor \"w\" are too large for the scale of a q8_0",
                  "in.safetensors out.gguf --scheme q8_0");
    assert_int_equal(test_checkpoint_files(), 1);
    test_tensor_release(&tensor);
    test_checkpoint_remove("in.safetensors");
}

static void what_a_container_does_not_take_is_named(void **state) {
    (void)state;
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
    test_quantize(1, NULL, "the name \"w_scale\" is taken",
                  "in.safetensors out.safetensors --scheme s8-channel");
    assert_int_equal(test_checkpoint_files(), 1);
    test_tensor_release(&tensors[0]);
    test_tensor_release(&tensors[1]);
    test_checkpoint_remove("in.safetensors");
}

/* The codes of two tensors with 32 scales of 16 bits, all alike. */
static void expect_scales(safetensors_tensor *tensors, safetensors_dtype dtype, uint16_t bits,
                          const char *sentence) {
    static const safetensors_pair metadata[] = {
        {"tandem.quant", "1"},
        {"tandem.quant.w",
         "{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0]}"}};
    uint16_t scales[32];
    quantized_weight weight;
    file_error error = {""};
    for (int i = 0; i < 32; i++)
        scales[i] = bits;
    tensors[1].dtype = dtype;
    tensors[1].data = scales;
    tensors[1].bytes = sizeof scales;
    assert_int_equal(safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error), 0);
    safetensors_file *const file = test_checkpoint_open("in.safetensors");
    assert_int_equal(quantized_weight_read(file, "w", &weight, &error), sentence ? -1 : 0);
    if (sentence)
        assert_non_null(strstr(error.text, sentence));
    else
        assert_true(test_weight_scale(&weight, 31) == 1.0f);
    safetensors_close(file);
}

/* Metadata that lies about tensors: the reader refuses, never reads beyond. */
static void lying_metadata_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *layout;
        const char *sentence;
    } rows[] = {
        {"", "no description"},
        {"{}", "no description"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"f32\",\"shape\":[32,64],\"block\":[1,0]}",
         "no description"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1]}",
         "no description"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,-64],\"block\":[1,0]}",
         "no description"},
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
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0],"
         "\"observer\":\"none\"}",
         "no description"},
        {"{\"scheme\":\"s8-channel\",\"dtype\":\"s8\",\"shape\":[32,64],\"block\":[1,0],"
         "\"observer\":\"percentile\",\"percentile\":101}",
         "no description"},
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
        assert_int_equal(safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error), 0);
        safetensors_file *const file = test_checkpoint_open("in.safetensors");
        const int result = quantized_weight_read(file, "w", &weight, &error);
        if (result != (rows[i].sentence ? -1 : 0) ||
            (rows[i].sentence && !strstr(error.text, rows[i].sentence)))
            fail_msg("row %zu gave %d: %s", i, result, error.text);
        quantized_weight_release(&weight);
        safetensors_close(file);
    }
    scales[3] = NAN;
    const safetensors_pair metadata[] = {
        {"tandem.quant", "1"}, {"tandem.quant.w", rows[sizeof rows / sizeof *rows - 1].layout}};
    file_error error = {""};
    quantized_weight weight;
    assert_int_equal(safetensors_write("in.safetensors", tensors, 2, metadata, 2, &error), 0);
    safetensors_file *const file = test_checkpoint_open("in.safetensors");
    assert_int_equal(quantized_weight_read(file, "w", &weight, &error), -1);
    assert_non_null(strstr(error.text, "tensor \"w_scale\": "));
    assert_int_equal(quantized_weight_read(file, "none", &weight, &error), -1);
    assert_string_equal(error.text, "there is no tensor \"none\"");
    safetensors_close(file);
    expect_scales(tensors, SAFETENSORS_BF16, 0x3f80, NULL);
    expect_scales(tensors, SAFETENSORS_BF16, 0x7f80, "tensor \"w_scale\": scale 0 is inf");
    expect_scales(tensors, SAFETENSORS_F16, 0x3c00, NULL);
    expect_scales(tensors, SAFETENSORS_F16, 0xfe00, "tensor \"w_scale\": scale 0 is ");
    expect_scales(tensors, SAFETENSORS_I16, 0, "has the dtype I16, not F32, F16 or BF16");
    test_checkpoint_remove("in.safetensors");
}

/* ---- damage ---- */

/* Quantize within this process, so that a sanitizer watches; nothing is printed. */
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

/* One to four damaged bytes, most of them in the header: refused without a trace, or an output that can be read. */
static void damage_is_refused_or_harmless(void **state) {
    (void)state;
    enum {
        ROUNDS = 450
    };
    static const char *const schemes[] = {"s8-channel", "s4-group-zero", "q4_0", "f16", "keep"};
    static const char *const inputs[] = {"in.safetensors", "in.gguf", "blocks.safetensors"};
    test_random random = {.state = 0x71756164};
    int done = 0;
    write_good("in.safetensors");
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
    for (int i = 0; i < 3; i++)
        test_checkpoint_remove(inputs[i]);
}

/* ---- a process of its own ---- */

/* A scheme may have options behind it. */
static pid_t start(const char *input, const char *output, const char *scheme, rlim_t file_limit) {
    char words[96];
    char *arguments[12] = {"tandem", "quantize", (char *)(uintptr_t)input,
                           (char *)(uintptr_t)output, "--scheme"};
    snprintf(words, sizeof words, "%s", scheme);
    for (int i = 5; i < 11; i++)
        arguments[i] = i > 5 && !arguments[i - 1] ? NULL : strtok(i > 5 ? NULL : words, " ");
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process != 0)
        return process;
    const struct rlimit limit = {file_limit, file_limit};
    if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL ||
        (file_limit != RLIM_INFINITY && setrlimit(RLIMIT_FSIZE, &limit) != 0))
        _exit(126);
    execv(program, arguments);
    _exit(127);
}

/* The system's own disk cannot be filled; a limit on the size of files fails writes in the same place. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    write_good("in.safetensors");
    test_file_write("out.safetensors", "old", 3);
    for (rlim_t limit = 0; limit < 4096; limit += 600) {
        int status;
        size_t size;
        const pid_t process =
            start("in.safetensors", "out.safetensors", "s8-channel", limit > 0 ? limit : 1);
        assert_int_equal(waitpid(process, &status, 0), process);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
            fail_msg("limit %ld: status %x", (long)limit, status);
        assert_int_equal(test_checkpoint_files(), 2);
        unsigned char *const old = test_file_read("out.safetensors", &size);
        assert_int_equal(size, 3);
        assert_memory_equal(old, "old", 3);
        free(old);
    }
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* A file of zeros that takes no room on the disk: `count` tensors of rows x columns f32. */
static void write_zeros(const char *name, int count, int64_t rows, int64_t columns) {
    char header[1024] = "{";
    size_t length = 1;
    const long long bytes = (long long)rows * columns * 4;
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],"
                                   "\"data_offsets\":[%lld,%lld]}",
                                   i > 0 ? "," : "", i, (long long)rows, (long long)columns,
                                   i * bytes, (i + 1) * bytes);
    header[length++] = '}';
    const uint64_t size = length;
    FILE *const file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&size, sizeof size, 1, file), 1);
    assert_int_equal(fwrite(header, length, 1, file), 1);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)sizeof size + (off_t)length + count * bytes),
                     0);
    fclose(file);
}

static int has_partial_file(void) {
    DIR *const entries = opendir(".");
    int found = 0;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        found += strstr(entry->d_name, ".partial") != NULL;
    closedir(entries);
    return found;
}

static void signals_remove_the_unfinished_file(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGBUS};
    const struct timespec pause = {.tv_nsec = 1000000};
    write_zeros("in.safetensors", 8, 64 << 10, 1024); /* 2 GiB: seconds of work */
    for (int i = 0; i < 4; i++) {
        int status = 0;
        const pid_t process =
            start("in.safetensors", "out.safetensors", "s8-channel", RLIM_INFINITY);
        for (int waited = 0; waited < 20000 && !has_partial_file(); waited++)
            nanosleep(&pause, NULL);
        assert_true(has_partial_file());
        if (signals[i] == SIGBUS)
            assert_int_equal(truncate("in.safetensors", 4096), 0);
        else
            kill(process, signals[i]);
        assert_int_equal(waitpid(process, &status, 0), process);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        assert_int_equal(test_checkpoint_files(), 1);
    }
    test_checkpoint_remove("in.safetensors");
}

/* KiB of the largest resident set of a process so far; 0 before it is the program. (What wait4 tells begins with
 * the memory of the process that forked.) */
static long resident_peak(pid_t process) {
    char path[64];
    char line[256];
    long peak = 0;
    int is_program = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        is_program |= strcmp(line, "Name:\ttandem\n") == 0;
        if (strncmp(line, "VmHWM:", 6) == 0)
            peak = strtol(line + 6, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return is_program ? peak : 0;
}

static long peak_of(const char *input, const char *output, const char *scheme) {
    const struct timespec pause = {.tv_nsec = 500000};
    long peak = 0;
    int status;
    const pid_t process = start(input, output, scheme, RLIM_INFINITY);
    while (waitpid(process, &status, WNOHANG) == 0) {
        const long now = resident_peak(process);
        peak = now > peak ? now : peak;
        nanosleep(&pause, NULL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s gave status %x", scheme, status);
    return peak; /* 0 of a run that was over before it was looked at */
}

/* ThreadSanitizer's shadow of what is read is several times as large, and counts. */
#ifdef __SANITIZE_THREAD__
enum {
    PEAKS_COUNT = 0
};
#else
enum {
    PEAKS_COUNT = 1
};
#endif

/* Peaks of a small and of a large input. */
static void expect_growth(const char *scheme, const char *input, const long peaks[2],
                          long largest_kib) {
    const long growth = peaks[1] - peaks[0];
    print_message("%s of %s: %ld KiB more for tensors of %ld KiB\n", scheme, input, growth,
                  largest_kib);
    assert_true(peaks[1] > 0);
    if (PEAKS_COUNT && growth >= 2 * largest_kib)
        fail_msg("%s took %ld KiB more for tensors of %ld KiB", scheme, growth, largest_kib);
}

static void expect_peak(const char *small_input, const char *large_input, const char *scheme,
                        long largest_kib) {
    const long peaks[] = {peak_of(small_input, "out.safetensors", scheme),
                          peak_of(large_input, "out.safetensors", scheme)};
    expect_growth(scheme, large_input, peaks, largest_kib);
}

/* Four tensors of 32 MiB against four of 256 KiB, and 32 MiB of numbers from codes. The contract is twice the largest; slabs
 * take far less. */
static void memory_stays_below_twice_the_largest_tensor(void **state) {
    (void)state;
    static const char *const schemes[] = {"s8-tensor", "s4-group-zero", "q4_0", "keep"};
    enum {
        ROWS = 8 << 10,
        LARGEST_KIB = ROWS * 1024 / 256 /* 4-byte elements */
    };
    write_zeros("small.safetensors", 4, 64, 1024);
    write_zeros("large.safetensors", 4, ROWS, 1024);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        expect_peak("small.safetensors", "large.safetensors", schemes[i], LARGEST_KIB);
    peak_of("small.safetensors", "small-codes.safetensors", "s8-group");
    peak_of("large.safetensors", "large-codes.safetensors", "s8-group");
    expect_peak("small-codes.safetensors", "large-codes.safetensors", "f32", LARGEST_KIB);
    test_checkpoint_remove("small.safetensors");
    test_checkpoint_remove("large.safetensors");
    test_checkpoint_remove("small-codes.safetensors");
    test_checkpoint_remove("large-codes.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* One row of 32 MiB, whose last group is shorter, against one of 256 KiB. */
static void long_rows_are_cut(void **state) {
    (void)state;
    static const char *const schemes[] = {
        "s8-tensor",         "s8-channel",          "s4-channel",
        "s8-group",          "s4-group-zero",       "s8-channel --axis 1",
        "s8-group --axis 1", "s4-channel --axis 1", "s4-group-zero --axis 1"};
    enum {
        COLUMNS = (8 << 20) + 2,
        LARGEST_KIB = COLUMNS / 256
    };
    write_zeros("small.safetensors", 1, 2, 1 << 15);
    write_zeros("large.safetensors", 1, 1, COLUMNS);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        expect_peak("small.safetensors", "large.safetensors", schemes[i], LARGEST_KIB);
    test_checkpoint_remove("small.safetensors");
    test_checkpoint_remove("large.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* Rows of which as many as share scales are the whole tensor, or half of it; odd ones of s4 end within a byte. */
static void groups_of_long_rows_are_cut(void **state) {
    (void)state;
    static const char *const schemes[] = {"s8-group --axis 1",
                                          "s4-group-zero --axis 1",
                                          "s8-channel --axis 1",
                                          "s4-channel --axis 1",
                                          "s4-group",
                                          "s4-group --axis 1 --weights-observer mse",
                                          "s8-channel --weights-observer kl",
                                          "s8-channel --axis 1 --weights-observer percentile",
                                          "s8-tensor --weights-observer mse"};
    enum {
        ROWS = 16,
        COLUMNS = (1 << 19) + 1,
        LARGEST_KIB = COLUMNS / 256 * ROWS
    };
    write_zeros("small.safetensors", 1, ROWS, 2049);
    write_zeros("large.safetensors", 1, ROWS, COLUMNS);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        expect_peak("small.safetensors", "large.safetensors", schemes[i], LARGEST_KIB);
    test_checkpoint_remove("small.safetensors");
    test_checkpoint_remove("large.safetensors");
    test_checkpoint_remove("out.safetensors");
}

/* Layers of 32 MiB with as few inputs or outputs as can be, and a batch of activations that is larger than its layer. */
static void calibration_stays_below_twice_the_largest_tensor(void **state) {
    (void)state;
    enum {
        MANY = 4 << 20,
        LARGEST_KIB = MANY * 2 / 256
    };
    static const struct {
        int64_t rows, columns;             /* of the layer */
        int64_t small_rows, small_columns; /* with as many inputs where there are few */
        int64_t batch;                     /* rows of activations */
        const char *options;
    } rows[] = {
        {MANY, 2, 1024, 2, 3, "s8-channel --calibrate x.safetensors"},
        {2, MANY, 2, 1024, 3, "s8-group --axis 1 --calibrate x.safetensors"},
        {2, MANY, 2, 1024, 1, "s8-tensor --calibrate x.safetensors"},
        {MANY, 2, 1024, 2, 1, "s8-channel --axis 1 --calibrate x.safetensors"},
        {8 << 10, 1024, 64, 1024, 20 << 10,
         "s8-channel --calibrate x.safetensors --observer moving-average"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int by_column = strstr(rows[i].options, "--axis 1") != NULL;
        long peaks[2];
        for (int large = 0; large < 2; large++) {
            const int64_t height = large ? rows[i].rows : rows[i].small_rows;
            const int64_t width = large ? rows[i].columns : rows[i].small_columns;
            write_zeros("in.safetensors", 1, height, width);
            write_zeros("x.safetensors", 1, large ? rows[i].batch : 1, by_column ? height : width);
            peaks[large] = peak_of("in.safetensors", "out.safetensors", rows[i].options);
        }
        expect_growth(rows[i].options, "a layer", peaks, LARGEST_KIB);
    }
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("x.safetensors");
    test_checkpoint_remove("out.safetensors");
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(misuse_is_refused),
        CASE(truncated_input_is_refused),
        CASE(paths_that_are_no_files_are_refused),
        CASE(a_folder_that_is_read_only),
        CASE(numbers_that_are_not_finite_are_refused),
        CASE(numbers_too_large_for_blocks_are_refused),
        CASE(what_a_container_does_not_take_is_named),
        CASE(lying_metadata_is_refused),
        CASE(damage_is_refused_or_harmless),
        CASE(a_full_disk_leaves_nothing),
        CASE(signals_remove_the_unfinished_file),
        CASE(memory_stays_below_twice_the_largest_tensor),
        CASE(calibration_stays_below_twice_the_largest_tensor),
        CASE(long_rows_are_cut),
        CASE(groups_of_long_rows_are_cut),
    };
#undef CASE
    return cmocka_run_group_tests_name("hostile quantize", tests, NULL, NULL);
}
