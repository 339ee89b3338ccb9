// Tests `tandem quantize` between safetensors and GGUF files: blocks, values, and files of another
// program.
// ctest: threads
/*
 * Tests `tandem quantize` between safetensors and GGUF files: blocks, values, and files of another
 * program.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/vectors/gguf_by_python.h"

static void check_blocks(const safetensors_tensor *tensor, int q8_0, const void *encoded,
                         size_t bytes) {
    const int64_t count = test_tensor_count(tensor);
    const size_t blocks = (size_t)count / 32;
    float *const values = malloc((size_t)count * sizeof *values);
    unsigned char *const expected = malloc(blocks * 34);
    assert_true(values && expected);
    for (int64_t i = 0; i < count; i++)
        values[i] = test_tensor_at(tensor, i);
    if (q8_0)
        tdm_quant_q8_0_encode(values, blocks, expected);
    else
        tdm_quant_q4_0_encode(values, blocks, expected);
    assert_int_equal(bytes, blocks * (q8_0 ? 34 : 18));
    assert_memory_equal(encoded, expected, bytes);
    free(values);
    free(expected);
}

TEST_WITH(blocks_pass_between_the_containers, test_checkpoint_enter, test_checkpoint_leave) {
    for (int q8_0 = 0; q8_0 < 2; q8_0++) {
        const char *const scheme = q8_0 ? "q8_0" : "q4_0";
        safetensors_tensor tensors[] = {
            test_tensor_make("blk.0.weight", SAFETENSORS_F16, 21, 24, 96, 0),
            test_tensor_make("experts", SAFETENSORS_F32, 22, 3, 20, 32),
            test_tensor_make("norm", SAFETENSORS_F32, 23, 7, 0, 0)};
        test_checkpoint_write("in.safetensors", tensors, 3);
        test_quantize(0, scheme, NULL, "in.safetensors direct.safetensors --scheme %s", scheme);
        test_quantize(0, scheme, NULL, "in.safetensors a.gguf --scheme %s", scheme);
        test_quantize(0, "0 tensors quantized, 3 copied", NULL,
                      "a.gguf back.safetensors --scheme keep");
        test_quantize(0, NULL, NULL, "back.safetensors b.gguf --scheme keep");
        gguf_file *first = NULL;
        gguf_file *second = NULL;
        file_error error = {""};
        assert_int_equal(gguf_open("a.gguf", &first, &error), 0);
        assert_int_equal(gguf_open("b.gguf", &second, &error), 0);
        safetensors_file *const direct = test_checkpoint_open("direct.safetensors");
        safetensors_file *const back = test_checkpoint_open("back.safetensors");
        for (int t = 0; t < 2; t++) {
            const gguf_tensor *const blocks = gguf_find(first, tensors[t].name);
            assert_int_equal(blocks->type, q8_0 ? GGUF_Q8_0 : GGUF_Q4_0);
            assert_int_equal(blocks->rank, tensors[t].rank);
            assert_int_equal(blocks->shape[0], tensors[t].shape[0]);
            check_blocks(&tensors[t], q8_0, blocks->data, blocks->bytes);
            assert_memory_equal(gguf_find(second, tensors[t].name)->data, blocks->data,
                                blocks->bytes);
            assert_memory_equal(safetensors_find(back, tensors[t].name)->data, blocks->data,
                                blocks->bytes);
            quantized_weight weight = test_weight_read(back, tensors[t].name);
            quantized_weight other = test_weight_read(direct, tensors[t].name);
            assert_string_equal(weight.scheme, scheme);
            assert_int_equal(weight.rank, tensors[t].rank);
            assert_int_equal(weight.block[weight.rank - 1], 32);
            assert_memory_equal(weight.codes, other.codes, weight.code_bytes);
            assert_memory_equal(weight.scales, other.scales, weight.scale_bytes);
            for (int64_t i = 0; i < test_tensor_count(&tensors[t]); i++) {
                const double scale =
                    (double)test_weight_scale(&weight, test_weight_scale_of(&weight, i));
                const double y = scale * tdm_quant_get(weight.dtype, weight.codes, i);
                const double difference = fabs(y - (double)test_tensor_at(&tensors[t], i));
                /* q4_0 clips values by up to one step at the end of the range that is opposite to
                 * the extreme value. */
                assert_true(difference <= fabs(scale) * (q8_0 ? 0.56 : 1.01));
            }
        }
        assert_memory_equal(gguf_find(second, "norm")->data, tensors[2].data, 28);
        assert_memory_equal((const char *)gguf_value_find(first, "general.architecture")->data + 8,
                            "test", 4);
        assert_non_null(gguf_value_find(first, "safetensors.note"));
        assert_non_null(gguf_value_find(first, "general.quantization_version"));
        const uint32_t type = q8_0 ? 7 : 2;
        assert_memory_equal(gguf_value_find(first, "general.file_type")->data, &type, 4);
        assert_string_equal(safetensors_metadata(back, "note"), "keep me");
        assert_string_equal(safetensors_metadata(back, "gguf.general.architecture"), "test");
        gguf_close(first);
        gguf_close(second);
    }
}

/* The blocks equal those of another program, byte for byte. */
TEST_WITH(blocks_are_those_of_python, test_checkpoint_enter, test_checkpoint_leave) {
    test_file_write("python.gguf", gguf_by_python, sizeof gguf_by_python);
    for (int q8_0 = 0; q8_0 < 2; q8_0++) {
        const char *const scheme = q8_0 ? "q8_0" : "q4_0";
        gguf_file *expected = NULL;
        gguf_file *file = NULL;
        file_error error = {""};
        test_quantize(0, scheme, NULL, "python.gguf own.gguf --scheme %s --only plain", scheme);
        assert_int_equal(gguf_open("python.gguf", &expected, &error), 0);
        assert_int_equal(gguf_open("own.gguf", &file, &error), 0);
        const gguf_tensor *const blocks = gguf_find(file, "plain");
        const gguf_tensor *const wanted = gguf_find(expected, scheme);
        assert_int_equal(blocks->type, wanted->type);
        assert_int_equal(blocks->bytes, wanted->bytes);
        assert_memory_equal(blocks->data, wanted->data, wanted->bytes);
        gguf_close(expected);
        gguf_close(file);
    }
}

/* Strings become metadata of a safetensors file. A GGUF file keeps all values. */
TEST_WITH(values_of_gguf_are_kept, test_checkpoint_enter, test_checkpoint_leave) {
    static const uint32_t alignment = 64;
    static const double precise = 0.1;
    static const unsigned char list[4 + 8 + 2] = {GGUF_VALUE_U8, 0, 0, 0, 2};
    static const unsigned char text[8 + 4] = {4, 0, 0, 0, 0, 0, 0, 0, 'n', ' ', '"', 'x'};
    static const gguf_value values[] = {
        {"general.alignment", GGUF_VALUE_U32, &alignment, 4},
        {"f64", GGUF_VALUE_F64, &precise, 8},
        {"text", GGUF_VALUE_STRING, text, sizeof text},
        {"list", GGUF_VALUE_ARRAY, list, sizeof list},
    };
    enum {
        VALUES = sizeof values / sizeof *values
    };
    safetensors_tensor w = test_tensor_make("w", SAFETENSORS_F32, 61, 5, 13, 0);
    const gguf_tensor tensors[] = {
        {.name = "w", .type = GGUF_F32, .rank = 2, .shape = {5, 13}, .bytes = w.bytes},
        {.name = "v", .type = GGUF_F32, .rank = 2, .shape = {5, 13}, .bytes = w.bytes}};
    tensor_writer *writer = NULL;
    file_error error = {""};
    if (gguf_writer_open("a.gguf", tensors, 2, values, VALUES, 64, &writer, &error) ||
        tensor_writer_put(writer, 0, 0, w.data, w.bytes, &error) ||
        tensor_writer_put(writer, 1, 0, w.data, w.bytes, &error) ||
        tensor_writer_finish(writer, &error))
        fail_msg("%s", error.text);
    test_quantize(0, "and were left out: 3\n", NULL, "a.gguf b.safetensors --scheme keep");
    test_quantize(0, NULL, NULL, "a.gguf c.gguf --scheme f16 --only w");
    safetensors_file *const texts = test_checkpoint_open("b.safetensors");
    assert_string_equal(safetensors_metadata(texts, "gguf.text"), "n \"x");
    assert_null(safetensors_metadata(texts, "gguf.list"));
    gguf_file *file = NULL;
    if (gguf_open("c.gguf", &file, &error))
        fail_msg("%s", error.text);
    assert_int_equal(gguf_alignment(file), 64);
    for (int i = 1; i < VALUES; i++) {
        const gguf_value *const value = gguf_value_find(file, values[i].key);
        assert_non_null(value);
        assert_int_equal(value->type, values[i].type);
        assert_int_equal(value->bytes, values[i].bytes);
        assert_memory_equal(value->data, values[i].data, value->bytes);
    }
    assert_memory_equal(gguf_find(file, "v")->data, w.data, w.bytes);
    assert_int_equal(gguf_find(file, "w")->type, GGUF_F16);
    gguf_close(file);
}

/* A shard of a model holds only some of its tensors. */
TEST_WITH(a_part_of_a_model_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const uint16_t count = 2;
    static const gguf_value value = {"split.count", GGUF_VALUE_U16, &count, sizeof count};
    tensor_writer *writer = NULL;
    file_error error = {""};
    assert_int_equal(gguf_writer_open("a.gguf", NULL, 0, &value, 1, 32, &writer, &error), 0);
    assert_int_equal(tensor_writer_finish(writer, &error), 0);
    test_quantize(1, NULL, "a.gguf is one of several parts: join them first",
                  "a.gguf b.gguf --scheme keep");
}

/*
 * A scalar, an empty tensor and a tensor with a long name are copied unchanged, next to weights
 * that are quantized.
 */
TEST_WITH(unusual_tensors_are_passed_on, test_checkpoint_enter, test_checkpoint_leave) {
    enum {
        COUNT = 4
    };
    static const char long_name[] =
        "a.name.of.sixty.eight.bytes.that.only.some.programs.for.gguf.can.take";
    static const uint32_t alignment = 64;
    static const gguf_value value = {"general.alignment", GGUF_VALUE_U32, &alignment, 4};
    safetensors_tensor w = test_tensor_make("w", SAFETENSORS_F32, 61, 24, 64, 0);
    const gguf_tensor tensors[COUNT] = {
        {.name = "scalar", .type = GGUF_F32, .rank = 0, .bytes = 4},
        {.name = long_name, .type = GGUF_I16, .rank = 1, .shape = {7}, .bytes = 14},
        {.name = "empty", .type = GGUF_F32, .rank = 2, .shape = {0, 64}, .bytes = 0},
        {.name = "w", .type = GGUF_F32, .rank = 2, .shape = {24, 64}, .bytes = w.bytes},
    };
    tensor_writer *writer = NULL;
    file_error error = {""};
    assert_int_equal(gguf_writer_open("a.gguf", tensors, COUNT, &value, 1, 64, &writer, &error), 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(tensor_writer_put(writer, i, 0,
                                           (char *)(uintptr_t)w.data + (i < COUNT - 1 ? i : 0),
                                           tensors[i].bytes, &error),
                         0);
    assert_int_equal(tensor_writer_finish(writer, &error), 0);
    test_quantize(0, "0 tensors quantized, 4 copied", NULL, "a.gguf keep.gguf --scheme keep");
    test_quantize(0, NULL, NULL, "a.gguf q.gguf --scheme q8_0");
    for (int quantized = 0; quantized < 2; quantized++) {
        gguf_file *file = NULL;
        assert_int_equal(gguf_open(quantized ? "q.gguf" : "keep.gguf", &file, &error), 0);
        assert_int_equal(gguf_count(file), COUNT);
        for (size_t i = 0; i < COUNT - 1; i++) {
            const gguf_tensor *const tensor = gguf_find(file, tensors[i].name);
            assert_int_equal(tensor->type, tensors[i].type);
            assert_int_equal(tensor->rank, tensors[i].rank);
            assert_memory_equal(tensor->shape, tensors[i].shape, sizeof tensor->shape);
            assert_int_equal(tensor->bytes, tensors[i].bytes);
            assert_memory_equal(tensor->data, (const char *)w.data + i, tensor->bytes);
        }
        assert_int_equal(gguf_find(file, "w")->type, quantized ? GGUF_Q8_0 : GGUF_F32);
        gguf_close(file);
    }
}

/* Blocks are converted to floats, and to other quantized values. */
TEST_WITH(blocks_are_taken_apart_again, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensor = test_tensor_make("w", SAFETENSORS_F32, 31, 48, 64, 0);
    test_checkpoint_write("in.safetensors", &tensor, 1);
    test_quantize(0, NULL, NULL, "in.safetensors a.gguf --scheme q8_0");
    test_quantize(0, "exact", NULL, "a.gguf f.safetensors --scheme f32");
    test_quantize(0, NULL, NULL, "a.gguf c.safetensors --scheme s8-channel");
    safetensors_file *const floats = test_checkpoint_open("f.safetensors");
    safetensors_file *const codes = test_checkpoint_open("c.safetensors");
    const safetensors_tensor *const wide = safetensors_find(floats, "w");
    gguf_file *blocks = NULL;
    file_error error = {""};
    float expected[48 * 64];
    assert_int_equal(gguf_open("a.gguf", &blocks, &error), 0);
    tdm_quant_q8_0_decode(gguf_find(blocks, "w")->data, 48 * 64 / 32, expected);
    assert_int_equal(wide->dtype, SAFETENSORS_F32);
    assert_memory_equal(wide->data, expected, sizeof expected);
    quantized_weight weight = test_weight_read(codes, "w");
    test_weight_check(wide, &weight);
    gguf_close(blocks);
    test_quantize(1, NULL, "can be converted to q8_0; \"w\": already in this block format",
                  "a.gguf d.gguf --scheme q8_0");
}

TEST_MAIN(NULL, NULL)
