// ctest: threads
/* Tests `tandem quantize` on sharded checkpoints: merged into one file, and with a false index. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/gguf.h"
#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"

static const char first_shard[] = "m-00001-of-00002.safetensors";
static const char second_shard[] = "m-00002-of-00002.safetensors";
static const char index_name[] = "m.safetensors.index.json";
static const char good_index[] =
    "{\n  \"metadata\": {\"total_size\": 1, \"note\": \"kept\"},\n  \"weight_map\": {\n"
    "\"a.weight\": \"m-00001-of-00002.safetensors\", \"a.bias\": "
    "\"m-00001-of-00002.safetensors\",\n"
    "\"b.weight\": \"m-00002-of-00002.safetensors\"}\n}\n";

enum {
    TENSORS = 3
};

static void make_tensors(safetensors_tensor *tensors) {
    tensors[0] = test_tensor_make("a.weight", SAFETENSORS_F32, 1, 32, 64, 0);
    tensors[1] = test_tensor_make("a.bias", SAFETENSORS_F32, 2, 32, 0, 0);
    tensors[2] = test_tensor_make("b.weight", SAFETENSORS_F16, 3, 40, 32, 0);
}

static void write_shards(void) {
    safetensors_tensor tensors[TENSORS];
    make_tensors(tensors);
    test_checkpoint_write(first_shard, tensors, 2);
    test_checkpoint_write(second_shard, tensors + 2, 1);
    test_checkpoint_write("whole.safetensors", tensors, TENSORS);
    test_file_write(index_name, good_index, sizeof good_index - 1);
}

static void remove_shards(void) {}

/* Every tensor of one file must be in the other, byte for byte. */
static size_t expect_within(const safetensors_file *part, const safetensors_file *whole) {
    for (size_t i = 0; i < safetensors_count(part); i++) {
        const safetensors_tensor *const tensor = safetensors_at(part, i);
        const safetensors_tensor *const same = safetensors_find(whole, tensor->name);
        assert_non_null(same);
        assert_int_equal(same->bytes, tensor->bytes);
        assert_int_equal(same->rank, tensor->rank);
        assert_memory_equal(same->data, tensor->data, tensor->bytes);
    }
    return safetensors_count(part);
}

/* Metadata that several shards share appears once. */
TEST_WITH(shards_become_one_file, test_checkpoint_enter, test_checkpoint_leave) {
    file_error error = {""};
    gguf_file *file = NULL;
    write_shards();
    test_quantize(0, NULL, NULL, "%s one.safetensors --scheme s4-group", index_name);
    test_quantize(0, NULL, NULL, "whole.safetensors other.safetensors --scheme s4-group");
    safetensors_file *const one = test_checkpoint_open("one.safetensors");
    safetensors_file *const other = test_checkpoint_open("other.safetensors");
    assert_int_equal(expect_within(one, other), 5);
    assert_string_equal(safetensors_metadata(one, "note"), "keep me");
    assert_non_null(safetensors_metadata(one, "tandem.quant.a.weight"));
    assert_non_null(safetensors_metadata(one, "tandem.quant.b.weight"));
    test_quantize(0, NULL, NULL, "%s one.gguf --scheme q8_0", index_name);
    assert_int_equal(gguf_open("one.gguf", &file, &error), 0);
    assert_int_equal(gguf_count(file), 3);
    assert_int_equal(gguf_find(file, "b.weight")->type, GGUF_Q8_0);
    gguf_close(file);
    test_quantize(1, NULL, "'m-00002-of-00002.safetensors' is a file of the input",
                  "%s %s --scheme s8-channel", index_name, second_shard);
    remove_shards();
}

/* The error is named, and no output is written. */
TEST_WITH(an_index_that_lies_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    static const char a[] = "\"a.weight\":\"m-00001-of-00002.safetensors\","
                            "\"a.bias\":\"m-00001-of-00002.safetensors\"";
    static const struct {
        const char *before; /* before the entries of the first shard in the map */
        const char *map;
        const char *sentence;
    } rows[] = {
        {"{\"weight_map\":{", ",\"b\":\"m-00002-of-00002.safetensors\"}}",
         "tensor \"b.weight\" of m-00002-of-00002.safetensors is not in the index"},
        {"{\"weight_map\":{", ",\"b.weight\":\"../m.safetensors\"}}",
         "\"b.weight\" should be in \"../m.safetensors\", which is not a safetensors file in the "
         "folder"},
        {"{\"weight_map\":{", ",\"b.weight\":\"/etc/passwd\"}}", "which is not a safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":\".safetensors\"}}",
         "which is not a safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":\"\"}}", "which is not a safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":7}}",
         "the shard of tensor \"b.weight\" is not a string"},
        {"{\"weight_map\":{", ",\"b.weight\":\"none.safetensors\"}}", "none.safetensors: No such"},
        {"{\"weight_map\":{",
         ",\"b.weight\":\"m-00002-of-00002.safetensors\",\"c\":\"m-00001-of-00002.safetensors\"}}",
         "the index names 4 tensors, but the shards have 3"},
        {"{\"weight_map\":{", ",\"b.weight\":\"m-00001-of-00002.safetensors\"}}",
         "the index names 3 tensors, but the shards have 2"},
        {"{\"weight_map\":{",
         ",\"b.weight\":\"m-00002-of-00002.safetensors\","
         "\"a.bias\":\"m-00002-of-00002.safetensors\"}}",
         "tensor \"a.bias\" appears twice in the index"},
        {"{\"weight_map\":{", ",\"b.weight\":\"m-00002-of-00002.safetensors\"}} x",
         "the index: there is data after"},
        {"{\"weight_map\":{", "", "the index: it is not a JSON object"},
        {"{\"weight_map\":{\"b.weight\":\"m-00002-of-00002.safetensors\"},\"weight_map\":{", "}}",
         "\"weight_map\" appears twice in the index"},
        {"{\"weight_map\":{", ",\"b.weight\":\"\\u001b[2J.safetensors\"}}",
         "\"?[2J.safetensors\", which is not a safetensors file"},
        {"{\"weights\":{", "}}", "the index has no weight_map"},
        {"[{", "}]", "the index: it is not a JSON object"},
        {"{\"weight_map\":{\"w\":{\"x\":{\"y\":{}}},", "}}",
         "the shard of tensor \"w\" is not a string"},
        {"{\"weight_map\":{\"\xff\":\"m.safetensors\",", "}}", "the index: it is not UTF-8"},
    };
    write_shards();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        const int length = snprintf(text, sizeof text, "%s%s%s", rows[i].before, a, rows[i].map);
        test_file_write(index_name, text, (size_t)length);
        test_quantize(1, NULL, rows[i].sentence, "%s out.safetensors --scheme s8-channel",
                      index_name);
        assert_int_equal(test_checkpoint_files(), 4);
    }
    remove_shards();
}

/* A tensor is missing from the index, or the index has it in another shard. */
TEST_WITH(a_shard_with_more_is_refused, test_checkpoint_enter, test_checkpoint_leave) {
    safetensors_tensor tensors[TENSORS];
    make_tensors(tensors);
    write_shards();
    test_checkpoint_write(second_shard, tensors + 1, 2);
    test_quantize(1, NULL,
                  "tensor \"a.bias\" of m-00002-of-00002.safetensors is in another shard according "
                  "to the index",
                  "%s out.safetensors --scheme keep", index_name);
    tensors[1].name = "more";
    test_checkpoint_write(second_shard, tensors + 1, 2);
    test_quantize(1, NULL, "tensor \"more\" of m-00002-of-00002.safetensors is not in the index",
                  "%s out.safetensors --scheme keep", index_name);
    assert_int_equal(test_checkpoint_files(), 4);
    remove_shards();
}

TEST_MAIN(NULL, NULL)
