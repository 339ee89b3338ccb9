/* Runs suites of `tandem bench` on the device under test, and checks their results. */
// ctest: device rusticl_in_ci compiled timeout=300 cost=20
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/elementwise_case.h"
#include "bench/cases/nn_case.h"
#include "bench/cases/quant_case.h"
#include "bench/record/environment_record.h"
#include "common/op_elementwise.h"
#include "quant/number_formats.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

static cJSON *run_json(const char *command) {
    return bench_run_json(command, NULL, 0);
}

/* Checks that every row is measured and verified. Returns how many belong to this suite. */
static int expect_all_measured(const cJSON *root, const char *suite) {
    const cJSON *row;
    int count = 0;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "status"), "ok") != 0)
            fail_msg("%s %s: %s, %s", json_text(row, "impl"), json_text(row, "case"),
                     json_text(row, "status"), json_text(row, "reason"));
        assert_true(cJSON_IsTrue(json_member(row, "verified")));
        assert_true(json_number(row, "median_s") > 0);
        assert_true(json_number(row, "samples") <= 1);
        count += strcmp(json_text(row, "suite"), suite) == 0;
    }
    return count;
}

/* Checks the ratio of two rows' times. Times have fifteen digits in a file. */
static void expect_ratio(double ratio, const cJSON *above, const cJSON *below) {
    const double expected = json_number(above, "median_s") / json_number(below, "median_s");
    assert_true(fabs(ratio / expected - 1) < 1e-12);
}

/* Checks the number of rows of each suite, and the contents of one row. */
TEST(suites_measure_their_cases) {
    static const struct {
        const char *command, *suite;
        int rows, place;
        const char *name, *dtype;
        double flops, bytes; /* 0: not checked */
    } runs[] = {
        {"gemm --shapes 5*9x8x7 --layout nn,nt --packing inside,prepacked --roof none", "gemm", 4,
         0, "f32 5*9x8x7 nn", "f32", 5 * 2.0 * 9 * 8 * 7, 0},
        {"gemv --shapes 1x48x32 --dtype f32,w8 --rotate 20000 --roof none", "gemv", 2, 1,
         "w8 1x48x32 nt, 14 Bs", "w8", 0, 0},
        {"quant --shape 40x66 --quantized s8,s4 --blocks row,band --operation "
         "quantize,mask,requantize,convert",
         "quant", 2 * 2 * (2 * 3 + 1), 0, "quantize f32 s8 row 40x66", "f32s8", 0,
         5.0 * 40 * 66 + 4 * 40},
        /* A row has three groups, each with 4 bytes for the scale and one for the zero point. */
        {"quant --shape 6x266 --quantized u8 --blocks group --group 32,128 --operation dynamic",
         "quant", 2 * 2, 2, "dynamic f32 u8 group128 6x266", "f32u8", 0, 5.0 * (6 * 266 + 6 * 3)},
        {"quant --shape 40x66 --quantized s8,s4 --float f32,f16 --operation pack,unpack", "quant",
         2 * 2, 2, "unpack s8 s4 40x66", "s8s4", 0, 1.5 * 40 * 66},
        {"elementwise --count 70003 --operation sqrt,div,convert --dtype f32,f16 --to f32,f16",
         "elementwise", 2 * 2 * (2 + 1), 2 * 3, "div f16 70003", "f16", 0, 6.0 * 70003},
        /* All rows but prefill have streams. The scale of 32 elements has four bytes. */
        {"nn --queries 70 --keys 130 --shape 6x64", "nn", 2 + 2 * 3 + 2 * 2 * 10, 6,
         "decode f32 s8 32/8x1x128 130 keys", "f32s8", 0, 2.0 * 8 * 130 * 128 * 36 / 32},
        {"nn --queries 70 --operation prefill --dtype bf16", "nn", 1, 0, "prefill bf16 12x70x64",
         "bf16", 2.0 * 70 * 70 * 64 * 12, 0},
        {"nn --shape 6x64 --operation where,compare --dtype f16", "nn", 2 * 2, 2,
         "compare f16 6x64", "f16", 0, 5.0 * 6 * 64},
        {"outofcore --shapes 40x50x30,2*40x50x60 --dtype f32,s8 --budget 0.4", "outofcore",
         2 * 2 * 2, 2, "f32 2*40x50x60 nn in 0.4", "f32", 0, 0},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char command[256];
        snprintf(command, sizeof command, "bench %s --quick --samples 1", runs[i].command);
        cJSON *const root = run_json(command);
        const cJSON *const results = json_member(root, "results");
        const cJSON *const row = cJSON_GetArrayItem(results, runs[i].place);
        assert_int_equal(expect_all_measured(root, runs[i].suite), runs[i].rows);
        assert_string_equal(json_text(row, "case"), runs[i].name);
        assert_string_equal(json_text(row, "dtype"), runs[i].dtype);
        if (runs[i].flops > 0)
            assert_true(json_number(row, "flops") == runs[i].flops);
        if (runs[i].bytes > 0)
            assert_true(json_number(row, "bytes") == runs[i].bytes);
        if (strcmp(runs[i].suite, "elementwise") == 0 || strncmp(runs[i].name, "comp", 4) == 0)
            expect_ratio(json_number(json_member(row, "metrics"), "of_stream"),
                         cJSON_GetArrayItem(results, runs[i].place + 1), row);
        if (strcmp(runs[i].suite, "outofcore") == 0)
            assert_true(json_number(json_member(row, "metrics"), "device_bytes") <=
                        0.4 * 4 * 2 * (40 * 60 + 60 * 50 + 40 * 50));
        cJSON_Delete(root);
    }
}

TEST(gemv_is_measured_beside_reading) {
    cJSON *const root = run_json("bench gemv --quick --samples 1 --shapes 1x64x48");
    assert_int_equal(expect_all_measured(root, "gemv"), 1);
    assert_int_equal(expect_all_measured(root, "memory"), 1);
    const cJSON *const row = cJSON_GetArrayItem(json_member(root, "results"), 0);
    assert_true(json_number(row, "bytes") == 4.0 * (64 * 48 + 64 + 48));
    assert_true(json_number(json_member(row, "metrics"), "read_gbs") > 0);
    assert_true(json_number(json_member(row, "metrics"), "of_read") > 0);
    cJSON_Delete(root);
}

/* Right outputs pass. An output fails if one element at any position exceeds its tolerance. */
TEST(elementwise_outputs_are_checked) {
    elementwise_case item = {.dtype = TDM_F32, .to = TDM_BF16, .count = 70003, .seed = 3};
    static const char *const names[] = {"gelu", "sub", "convert"};
    worker_text reason = {.length = 0};
    double max_error;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(elementwise_operation_parse(names[i], &item), 0);
        float *const a = elementwise_case_input(&item, 0);
        float *const b = elementwise_case_input(&item, 1);
        uint16_t *const y = malloc((size_t)item.count * sizeof *y);
        for (int64_t e = 0; e < item.count; e++) {
            const double x = (double)a[e];
            tdm_number_set(TDM_BF16, y, (size_t)e,
                           i == 0   ? op_unary_value(TDM_GELU, x)
                           : i == 1 ? x - (double)b[e]
                                    : x);
        }
        const size_t bytes = (size_t)item.count * sizeof *y;
        assert_int_equal(elementwise_case_check(&item, y, bytes, &max_error, &reason), 0);
        assert_true(max_error > 0 && max_error < 0x1p-8);
        assert_int_equal(elementwise_case_check(&item, y, bytes - 2, &max_error, &reason), -1);
        static const int64_t places[] = {7, 40000, 65520, 65521, 70002};
        for (size_t place = 0; place < sizeof places / sizeof places[0]; place++) {
            const int64_t e = places[place];
            const uint16_t kept = y[e];
            y[e] += 2; /* a change of 1 may be the other side of a rounding tie */
            assert_int_equal(elementwise_case_check(&item, y, bytes, &max_error, &reason), -1);
            y[e] = 0x7FC0; /* NaN */
            assert_int_equal(elementwise_case_check(&item, y, bytes, &max_error, &reason), -1);
            y[e] = kept;
        }
        free(a);
        free(b);
        free(y);
    }
}

/* Computes causal attention with one head of keys for each head of queries. */
static void attend(const nn_case *item, const float *q, const float *k, const float *v, float *y) {
    const int64_t width = item->columns;
    for (int64_t row = 0; row < item->heads * item->rows; row++) {
        const int64_t first = row - row % item->rows;
        double sum = 0, means[NN_GROUP] = {0};
        for (int64_t key = first; key <= row; key++) {
            double score = 0;
            for (int64_t d = 0; d < width; d++)
                score += (double)q[row * width + d] * (double)k[key * width + d];
            const double weight = exp(score / sqrt((double)width));
            sum += weight;
            for (int64_t d = 0; d < width; d++)
                means[d] += weight * (double)v[key * width + d];
        }
        for (int64_t d = 0; d < width; d++)
            y[row * width + d] = (float)(means[d] / sum);
    }
}

/* Row 4 of the 80 rows is not compared, and only its range is checked. */
TEST(nn_outputs_are_checked) {
    const nn_case item = {.operation = NN_PREFILL,
                          .dtype = TDM_F32,
                          .stored = TDM_F32,
                          .rows = 40,
                          .columns = NN_GROUP,
                          .heads = 2,
                          .kv_heads = 2,
                          .keys = 40,
                          .seed = 3};
    static const int places[] = {0, 3 * NN_GROUP + 31, 79 * NN_GROUP + 31, 4 * NN_GROUP};
    float *data[NN_MAX_TENSORS];
    worker_text reason = {.length = 0};
    double max_error;
    for (int i = 0; i < NN_MAX_TENSORS; i++)
        data[i] = nn_case_content(&item, i);
    const size_t bytes = 80 * NN_GROUP * sizeof *data[3];
    assert_int_equal(nn_case_check(&item, data[3], bytes, &max_error, &reason), -1);
    attend(&item, data[0], data[1], data[2], data[3]);
    assert_int_equal(nn_case_check(&item, data[3], bytes, &max_error, &reason), 0);
    assert_int_equal(nn_case_check(&item, data[3], bytes - 4, &max_error, &reason), -1);
    for (int i = 0; i < 4; i++) {
        float *const value = &data[3][places[i]];
        const float kept = *value;
        *value += i < 3 ? 1e-5f : 2.0f;
        assert_int_equal(nn_case_check(&item, data[3], bytes, &max_error, &reason), -1);
        *value = NAN;
        assert_int_equal(nn_case_check(&item, data[3], bytes, &max_error, &reason), -1);
        *value = kept;
    }
    for (int i = 0; i < NN_MAX_TENSORS; i++)
        free(data[i]);
}

/* The baseline of a case moves equally many bytes, with the same ratio of reads to writes. */
TEST(traffic_beside_elementwise_is_alike) {
    static const struct {
        const char *name;
        tdm_dtype dtype, to;
        double bytes; /* per element */
        int reads, writes;
    } rows[] = {{"relu", TDM_F16, TDM_F16, 4, 1, 1},
                {"add", TDM_F32, TDM_F32, 12, 2, 1},
                {"convert", TDM_F32, TDM_BF16, 6, 2, 1},
                {"convert", TDM_F16, TDM_F32, 6, 1, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        elementwise_case item = {.dtype = rows[i].dtype, .to = rows[i].to, .count = 1000}, read;
        worker_text line = {.length = 0};
        assert_int_equal(elementwise_operation_parse(rows[i].name, &item), 0);
        elementwise_case_write(&item, &line);
        assert_int_equal(elementwise_case_read(line.text, &read), 0);
        assert_true(elementwise_case_traffic(&read) == 1000 * rows[i].bytes);
        const quant_case stream = elementwise_case_stream(&read);
        assert_int_equal(stream.reads, rows[i].reads);
        assert_int_equal(stream.writes, rows[i].writes);
        assert_true((double)stream.copied == 1000 * rows[i].bytes);
    }
}

TEST(the_stream_moves_as_many_bytes) {
    static const struct {
        quant_operation operation;
        quant_blocks blocks;
        double bytes;      /* moved for a matrix of 64 x 32 */
        int reads, writes; /* ratio of the stream */
    } rows[] = {
        {QUANT_QUANTIZE, QUANT_ROW, 5 * 2048 + 4 * 64, 4, 1},
        {QUANT_DEQUANTIZE, QUANT_GROUP, 5 * 2048 + 4 * 64, 1, 4},
        {QUANT_DYNAMIC, QUANT_ROW, 5 * 2048 + 4 * 64, 4, 1},
        {QUANT_DYNAMIC, QUANT_TENSOR, 9 * 2048 + 4, 8, 1},
        {QUANT_DYNAMIC, QUANT_COLUMN, 9 * 2048 + 4 * 32, 8, 1},
        {QUANT_FAKE, QUANT_BAND, 8 * 2048 + 4 * 64, 1, 1},
        {QUANT_MASK, QUANT_COLUMN, 9 * 2048 + 4 * 32, 4, 5},
        {QUANT_CONVERT, QUANT_TENSOR, 5 * 2048, 4, 1},
        {QUANT_PACK, QUANT_TENSOR, 3 * 1024, 2, 1},
        {QUANT_UNPACK, QUANT_TENSOR, 3 * 1024, 1, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int packed = rows[i].operation == QUANT_PACK || rows[i].operation == QUANT_UNPACK;
        const quant_case item = {.operation = rows[i].operation,
                                 .real = packed ? TDM_S8 : TDM_F32,
                                 .codes = packed ? TDM_S4 : TDM_S8,
                                 .blocks = rows[i].blocks,
                                 .rows = 64,
                                 .columns = 32};
        quant_case read;
        worker_text line = {.length = 0};
        assert_true(quant_case_traffic(&item) == rows[i].bytes);
        const quant_case stream = quant_case_stream(&item);
        quant_case_write(&stream, &line);
        assert_int_equal(quant_case_from_line(line.text, &read), 0);
        assert_int_equal(read.reads, rows[i].reads);
        assert_int_equal(read.writes, rows[i].writes);
        const double step = 4.0 * (read.reads + read.writes);
        assert_true(fabs(step * (double)quant_case_stream_steps(&read, 1) - rows[i].bytes) <= step);
    }
}

/* Integer rows are compared with the device's integer peak, or with nothing if no probe can measure
 * that peak. */
TEST(integers_have_a_roof_of_their_own) {
    cJSON *const root = run_json("bench gemm --quick --samples 1 --shapes 8x8x8 --dtype u8s8,f32 "
                                 "--vs tandem-f32");
    const cJSON *const results = json_member(root, "results");
    const cJSON *const probe = cJSON_GetArrayItem(results, 2);
    const int measured = strcmp(json_text(probe, "status"), "ok") == 0;
    assert_string_equal(json_text(probe, "dtype"), "s8");
    assert_string_equal(json_text(probe, "case"), "dot s8 16 steps");
    if (!measured)
        assert_string_equal(json_text(probe, "status"), "skipped");
    const cJSON *const peak =
        json_member(json_member(cJSON_GetArrayItem(results, 0), "metrics"), "peak_gflops");
    assert_int_equal(cJSON_IsNumber(peak), measured);
    assert_int_equal(cJSON_IsNull(peak), !measured);
    const cJSON *const beside = cJSON_GetArrayItem(results, 1);
    assert_string_equal(json_text(beside, "impl"), "tandem-f32");
    assert_true(cJSON_IsNull(json_member(json_member(beside, "metrics"), "of_peak")));
    const cJSON *const floats = cJSON_GetArrayItem(results, 3);
    assert_string_equal(json_text(floats, "dtype"), "f32");
    assert_true(json_number(json_member(floats, "metrics"), "of_peak") > 0);
    assert_string_equal(json_text(cJSON_GetArrayItem(results, 5), "case"), "fma f32 16 steps");
    cJSON_Delete(root);
}

TEST(products_have_epilogues) {
    static const char *const names[] = {
        "f16 33x17x29 nn +bias+residual+gelu", "s8s8s8 33x17x29 nn +bias+relu",
        "f16w8 33x17x29 nn +bias+residual+gelu", "u8s8u8 33x17x29 nn +bias+relu"};
    for (int i = 0; i < 2; i++) {
        cJSON *const root =
            run_json(i == 0 ? "bench gemm --quick --samples 1 --shapes 33x17x29 --dtype f16,f16w8 "
                              "--epilogue bias,residual,gelu --roof none"
                            : "bench gemm --quick --samples 1 --shapes 33x17x29 --dtype s8,u8s8 "
                              "--epilogue bias,relu --packing prepacked --roof none");
        assert_int_equal(expect_all_measured(root, "gemm"), 2);
        for (int row = 0; row < 2; row++)
            assert_string_equal(
                json_text(cJSON_GetArrayItem(json_member(root, "results"), row), "case"),
                names[2 * row + i]);
        cJSON_Delete(root);
    }
    cJSON *const root =
        bench_run_json("bench gemm --quick --samples 1 --shapes 9x8x7 --dtype s8,f32 "
                       "--epilogue residual --roof none",
                       NULL, 0);
    const cJSON *const refused = cJSON_GetArrayItem(json_member(root, "results"), 0);
    assert_string_equal(json_text(refused, "status"), "skipped");
    cJSON_Delete(root);
}

/* The row of bare OpenCL has no result if its worker was not built, or if the loader does not list
 * the device. The row of bare CUDA always has one. */
TEST(launches_are_measured_beside_bare_ones) {
    cJSON *const root = run_json("bench launch --quick --samples 1 --mode pipelined");
    const cJSON *row;
    int measured = 0;
    assert_int_equal(cJSON_GetArraySize(json_member(root, "results")), 5);
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        assert_string_equal(json_text(row, "suite"), "launch");
        if (strcmp(json_text(row, "impl"), "opencl") == 0 &&
            strcmp(json_text(row, "status"), "ok") != 0)
            continue;
        assert_string_equal(json_text(row, "status"), "ok");
        assert_true(cJSON_IsTrue(json_member(row, "verified")));
        measured++;
    }
    assert_true(measured >= 4);
    row = cJSON_GetArrayItem(json_member(root, "results"), 1);
    if (strcmp(json_text(json_member(root, "device"), "backend"), "cuda") == 0) {
        assert_string_equal(json_text(row, "impl"), "cuda");
        assert_string_equal(json_text(row, "variant"), "cuLaunchKernel");
        assert_int_equal(measured, 5);
    } else {
        assert_string_equal(json_text(row, "impl"), "opencl");
    }
    row = cJSON_GetArrayItem(json_member(root, "results"), 2);
    assert_string_equal(json_text(row, "case"), "command list of 64 kernels");
    assert_true(json_number(json_member(row, "metrics"), "command_s") ==
                json_number(row, "median_s") / 64);
    row = cJSON_GetArrayItem(json_member(root, "results"), 4);
    assert_string_equal(json_text(row, "impl"), "tandem-plan");
    assert_true(json_number(json_member(row, "metrics"), "reference_s") ==
                json_number(row, "median_s"));
    assert_true(isfinite(json_number(json_member(row, "metrics"), "extra_s")));
    cJSON_Delete(root);
}

/* There are three rows for each combination of order, number of live blocks and number of threads.
 * The trace has one row. */
TEST(allocation_is_measured_beside_malloc_and_the_driver) {
    cJSON *const root = run_json(
        "bench pool --quick --samples 1 --live 7 --order lifo,random --threads 1,3 --trace "
        "inference");
    const cJSON *const results = json_member(root, "results");
    const cJSON *row = cJSON_GetArrayItem(results, 0);
    assert_int_equal(expect_all_measured(root, "pool"), 2 * 2 * 3 + 1);
    static const char *const names[] = {"tandem", "malloc", "native"};
    for (int i = 0; i < 3; i++)
        assert_string_equal(json_text(cJSON_GetArrayItem(results, i), "impl"), names[i]);
    assert_string_equal(json_text(row, "case"), "lifo 7 live, 1 thread");
    assert_true(json_number(json_member(row, "shape"), "live") == 7);
    assert_true(json_number(json_member(row, "metrics"), "visited_per_operation") < 8);
    assert_string_equal(json_text(cJSON_GetArrayItem(results, 2), "variant"), "driver");
    /* The median is the time of one operation. A call consists of some hundreds of operations. */
    assert_true(json_number(row, "median_s") < 1e-4);
    row = cJSON_GetArrayItem(results, 3);
    assert_string_equal(json_text(row, "case"), "lifo 7 live, 3 threads");
    row = cJSON_GetArrayItem(results, 2 * 2 * 3);
    assert_string_equal(json_text(row, "case"), "trace inference");
    assert_true(json_number(json_member(row, "metrics"), "lower_bound") > 0);
    assert_true(json_number(json_member(row, "metrics"), "reserved_over_bound") >= 1);
    assert_true(json_number(json_member(row, "shape"), "events") > 100);
    cJSON_Delete(root);
}

/*
 * A case that does not fit in memory is skipped with the reason, and the other cases run. The test
 * does nothing on a machine where the case fits, because it would run for minutes.
 */
TEST(shapes_too_large_are_skipped) {
    const double needed = 2 * (3 * 4e9 + 4e6); /* two processes, each with B twice, D and A */
    if ((double)environment_available_bytes() > needed)
        return;
    cJSON *const root = run_json("bench gemm --quick --samples 1 --roof none --shapes "
                                 "8x8x8,1000x1000000x1000");
    const cJSON *const row = cJSON_GetArrayItem(json_member(root, "results"), 1);
    assert_string_equal(json_text(row, "case"), "f32 1000x1000000x1000 nn");
    assert_string_equal(json_text(row, "status"), "skipped");
    if (strstr(json_text(row, "reason"), " GB") == NULL)
        fail_msg("the reason is '%s'", json_text(row, "reason"));
    cJSON_Delete(root);
}

TEST_MAIN(NULL, NULL)
