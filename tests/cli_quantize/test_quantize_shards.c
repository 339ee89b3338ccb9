// ctest: threads
/* `tandem quantize` on checkpoints in several files: to as many, to one, with an index that
 * lies, and on parts of GGUF models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "formats/checkpoint/quantize_read.h"
#include "formats/gguf_parts.h"
#include "tests/support/quant/test_checkpoint.h"

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
    for (int i = 0; i < TENSORS; i++)
        test_tensor_release(&tensors[i]);
}

static void remove_shards(void) {
    test_checkpoint_remove(first_shard);
    test_checkpoint_remove(second_shard);
    test_checkpoint_remove("whole.safetensors");
    test_checkpoint_remove(index_name);
}

/* Every tensor of one file is in the other, byte for byte. */
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

static const char *shard_in(const cJSON *map, const char *tensor) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(map, tensor));
}

static void check_index_file(const char *path, double bytes) {
    size_t size;
    unsigned char *const text = test_file_read(path, &size);
    cJSON *const json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    const cJSON *const metadata = cJSON_GetObjectItem(json, "metadata");
    const cJSON *const map = cJSON_GetObjectItem(json, "weight_map");
    assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(metadata, "total_size")) == bytes);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "note")), "kept");
    assert_int_equal(cJSON_GetArraySize(map), 5);
    assert_string_equal(shard_in(map, "a.weight"), first_shard);
    assert_string_equal(shard_in(map, "a.weight_scale"), first_shard);
    assert_string_equal(shard_in(map, "a.bias"), first_shard);
    assert_string_equal(shard_in(map, "b.weight"), second_shard);
    assert_string_equal(shard_in(map, "b.weight_scale"), second_shard);
    cJSON_Delete(json);
}

/* Shards hold what one file would, each the scales of its own, and are read back like any other. */
static void shards_become_shards(void **state) {
    (void)state;
    write_shards();
    assert_int_equal(mkdir("out", 0700), 0);
    test_quantize(0, "2 tensors quantized, 1 copied", NULL,
                  "%s out/q.safetensors.index.json --scheme s8-channel", index_name);
    test_quantize(0, NULL, NULL, "whole.safetensors codes.safetensors --scheme s8-channel");
    assert_int_equal(test_folder_count("out"), 3);
    safetensors_file *const codes = test_checkpoint_open("codes.safetensors");
    safetensors_file *const first = test_checkpoint_open("out/m-00001-of-00002.safetensors");
    safetensors_file *const second = test_checkpoint_open("out/m-00002-of-00002.safetensors");
    assert_int_equal(expect_within(first, codes), 3);
    assert_int_equal(expect_within(second, codes), 2);
    assert_string_equal(safetensors_metadata(first, "note"), "keep me");
    assert_non_null(safetensors_metadata(second, "tandem.quant.b.weight"));
    assert_null(safetensors_metadata(first, "tandem.quant.b.weight"));
    quantized_weight weight = test_weight_read(second, "b.weight");
    assert_string_equal(weight.scheme, "s8-channel");
    quantized_weight_release(&weight);
    check_index_file("out/q.safetensors.index.json", 32 * 64 + 32 * 4 + 32 * 4 + 40 * 32 + 40 * 4);
    test_quantize(0, NULL, NULL, "out/q.safetensors.index.json a.safetensors --scheme f32");
    test_quantize(0, NULL, NULL, "codes.safetensors b.safetensors --scheme f32");
    safetensors_file *const a = test_checkpoint_open("a.safetensors");
    safetensors_file *const b = test_checkpoint_open("b.safetensors");
    assert_int_equal(expect_within(a, b), 3);
    safetensors_file *const files[] = {codes, first, second, a, b};
    for (int i = 0; i < 5; i++)
        safetensors_close(files[i]);
    static const char *const names[] = {"codes.safetensors",
                                        "a.safetensors",
                                        "b.safetensors",
                                        "out/m-00001-of-00002.safetensors",
                                        "out/m-00002-of-00002.safetensors",
                                        "out/q.safetensors.index.json"};
    for (int i = 0; i < 6; i++)
        test_checkpoint_remove(names[i]);
    assert_int_equal(rmdir("out"), 0);
    remove_shards();
}

/* What several have in their metadata stands once. */
static void shards_become_one_file(void **state) {
    (void)state;
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
    safetensors_close(one);
    safetensors_close(other);
    test_quantize(0, NULL, NULL, "%s one.gguf --scheme q8_0", index_name);
    assert_int_equal(gguf_open("one.gguf", &file, &error), 0);
    assert_int_equal(gguf_count(file), 3);
    assert_int_equal(gguf_find(file, "b.weight")->type, GGUF_Q8_0);
    gguf_close(file);
    test_checkpoint_remove("one.gguf");
    test_checkpoint_remove("one.safetensors");
    test_checkpoint_remove("other.safetensors");
    remove_shards();
}

/* Nothing is written, and what is wrong is named. */
static void an_index_that_lies_is_refused(void **state) {
    (void)state;
    static const char a[] = "\"a.weight\":\"m-00001-of-00002.safetensors\","
                            "\"a.bias\":\"m-00001-of-00002.safetensors\"";
    static const struct {
        const char *before; /* of what stands in the map beside those of the first shard */
        const char *map;
        const char *sentence;
    } rows[] = {
        {"{\"weight_map\":{", ",\"b\":\"m-00002-of-00002.safetensors\"}}",
         "tensor \"b\" is not in m-00002-of-00002.safetensors"},
        {"{\"weight_map\":{", ",\"b.weight\":\"../m.safetensors\"}}",
         "\"b.weight\" is to be in \"../m.safetensors\", which is no safetensors file in the "
         "folder"},
        {"{\"weight_map\":{", ",\"b.weight\":\"/etc/passwd\"}}", "which is no safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":\".safetensors\"}}", "which is no safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":\"\"}}", "which is no safetensors file"},
        {"{\"weight_map\":{", ",\"b.weight\":7}}", "the shard of tensor \"b.weight\" is no text"},
        {"{\"weight_map\":{", ",\"b.weight\":\"none.safetensors\"}}", "none.safetensors: No such"},
        {"{\"weight_map\":{",
         ",\"b.weight\":\"m-00002-of-00002.safetensors\",\"c\":\"m-00001-of-00002.safetensors\"}}",
         "tensor \"c\" is not in m-00001-of-00002.safetensors"},
        {"{\"weight_map\":{", ",\"b.weight\":\"m-00001-of-00002.safetensors\"}}",
         "tensor \"b.weight\" is not in m-00001-of-00002.safetensors"},
        {"{\"weight_map\":{",
         ",\"b.weight\":\"m-00002-of-00002.safetensors\","
         "\"a.bias\":\"m-00002-of-00002.safetensors\"}}",
         "tensor \"a.bias\" stands twice in the index"},
        {"{\"weight_map\":{", ",\"b.weight\":\"m-00002-of-00002.safetensors\"}} x",
         "the index goes on after its JSON object"},
        {"{\"weight_map\":{", "", "the index is no JSON object"},
        {"{\"metadata\":7,\"weight_map\":{", "}}", "the metadata of the index is no object"},
        {"{\"weight_map\":{\"b.weight\":\"m-00002-of-00002.safetensors\"},\"weight_map\":{", "}}",
         "\"weight_map\" stands twice in the index"},
        {"{\"metadata\":{},\"metadata\":{},\"weight_map\":{", "}}",
         "\"metadata\" stands twice in the index"},
        {"{\"metadata\":{\"total_size\":1,\"total_size\":2},\"weight_map\":{", "}}",
         "\"total_size\" stands twice in the index"},
        {"{\"weight_map\":{", ",\"b.weight\":\"\\u001b[2J.safetensors\"}}",
         "\"?[2J.safetensors\", which is no safetensors file"},
        {"{\"weights\":{", "}}", "the index has no weight_map"},
        {"[{", "}]", "the index does not begin with '{'"},
        {"{\"weight_map\":{\"w\":{\"x\":{\"y\":{}}},", "}}",
         "the shard of tensor \"w\" is no text"},
        {"{\"weight_map\":{\"\xff\":\"m.safetensors\",", "}}", "the index is no UTF-8"},
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

/* A tensor that the index leaves out, or has in another shard. */
static void a_shard_with_more_is_refused(void **state) {
    (void)state;
    safetensors_tensor tensors[TENSORS];
    make_tensors(tensors);
    write_shards();
    test_checkpoint_write(second_shard, tensors + 1, 2);
    test_quantize(1, NULL,
                  "tensor \"a.bias\" of m-00002-of-00002.safetensors is in another shard by the "
                  "index",
                  "%s out.safetensors --scheme keep", index_name);
    tensors[1].name = "more";
    test_checkpoint_write(second_shard, tensors + 1, 2);
    test_quantize(1, NULL, "tensor \"more\" of m-00002-of-00002.safetensors is not in the index",
                  "%s out.safetensors --scheme keep", index_name);
    assert_int_equal(test_checkpoint_files(), 4);
    for (int i = 0; i < TENSORS; i++)
        test_tensor_release(&tensors[i]);
    remove_shards();
}

/* Nothing takes the place of a file that is read, and a run that fails in the second shard leaves none of the first. */
static void shards_do_not_replace_what_is_read(void **state) {
    (void)state;
    write_shards();
    test_quantize(1, NULL, "'m-00001-of-00002.safetensors' is a file of the input",
                  "%s new.safetensors.index.json --scheme s8-channel", index_name);
    test_quantize(1, NULL, "'m-00002-of-00002.safetensors' is a file of the input",
                  "%s %s --scheme s8-channel", index_name, second_shard);
    test_quantize(1, NULL, "--json does not take './m-00002-of-00002.safetensors'",
                  "%s new.safetensors --scheme s8-channel --json ./%s", index_name, second_shard);
    test_quantize(2, NULL, "is an index, so the input has to be one, too",
                  "whole.safetensors new.safetensors.index.json --scheme s8-channel");
    assert_int_equal(mkdir("out", 0700), 0);
    test_quantize(1, NULL, "--json does not take 'out/m-00002-of-00002.safetensors'",
                  "%s out/q.index.json --scheme s8-channel --json out/%s", index_name,
                  second_shard);
    safetensors_tensor bad = test_tensor_make("b.weight", SAFETENSORS_F32, 3, 40, 32, 0);
    ((float *)(uintptr_t)bad.data)[9] = 1.0f / 0.0f;
    test_checkpoint_write(second_shard, &bad, 1);
    test_quantize(1, NULL, "element 9 of tensor \"b.weight\" is inf",
                  "%s out/q.index.json --scheme s8-channel", index_name);
    assert_int_equal(test_folder_count("out"), 0);
    assert_int_equal(rmdir("out"), 0);
    assert_int_equal(test_checkpoint_files(), 4);
    test_tensor_release(&bad);
    remove_shards();
}

/* Activations are read, too: in a file that is called like a shard of the checkpoint, or in shards of their own. */
static void shards_do_not_replace_activations(void **state) {
    (void)state;
    static const char others[] = "{\"weight_map\":{\"a.input\":\"x.safetensors\"}}";
    safetensors_tensor input = test_tensor_make("a.input", SAFETENSORS_F32, 4, 8, 64, 0);
    write_shards();
    assert_int_equal(mkdir("out", 0700), 0);
    test_checkpoint_write("out/m-00002-of-00002.safetensors", &input, 1);
    test_quantize(1, NULL, "'out/m-00002-of-00002.safetensors' has activations",
                  "%s out/q.index.json --scheme s8-channel --calibrate out/%s", index_name,
                  second_shard);
    assert_int_equal(test_folder_count("out"), 1);
    test_checkpoint_remove("out/m-00002-of-00002.safetensors");
    test_checkpoint_write("out/x.safetensors", &input, 1);
    test_file_write("out/x.index.json", others, sizeof others - 1);
    test_quantize(1, NULL, "--json does not take 'out/x.safetensors': it has activations",
                  "%s out/q.index.json --scheme s8-channel --calibrate out/x.index.json "
                  "--json out/x.safetensors",
                  index_name);
    test_quantize(1, NULL, "'out/x.safetensors' has activations",
                  "%s out/x.safetensors --scheme s8-channel --calibrate out/x.index.json",
                  index_name);
    test_quantize(0, "2 tensors quantized", NULL,
                  "%s out/q.index.json --scheme s8-channel --calibrate out/x.index.json",
                  index_name);
    assert_int_equal(test_folder_count("out"), 5);
    static const char *const names[] = {"out/x.safetensors", "out/x.index.json", "out/q.index.json",
                                        "out/m-00001-of-00002.safetensors",
                                        "out/m-00002-of-00002.safetensors"};
    for (int i = 0; i < 5; i++)
        test_checkpoint_remove(names[i]);
    assert_int_equal(rmdir("out"), 0);
    test_tensor_release(&input);
    remove_shards();
}

/* ---- parts of GGUF models ---- */

static const char first_part[] = "m-00001-of-00002.gguf";
static const char second_part[] = "m-00002-of-00002.gguf";

/* The values of a part: numbers of so many bytes, 0 for a value that is not there. */
typedef struct part_text {
    uint64_t number, count, tensors;
    size_t number_bytes, count_bytes, tensors_bytes;
    const char *tensor;
} part_text;

static const part_text good_parts[2] = {{0, 2, 3, 2, 2, 4, "a.weight"},
                                        {1, 2, 3, 2, 2, 4, "b.weight"}};

static gguf_value_type whole_type(size_t bytes) {
    return bytes == 1   ? GGUF_VALUE_I8
           : bytes == 2 ? GGUF_VALUE_U16
           : bytes == 4 ? GGUF_VALUE_I32
                        : GGUF_VALUE_U64;
}

/* The first part has the model's values, and one tensor more than the second. */
static void write_part(const char *path, const part_text *part, int is_first) {
    static const uint64_t architecture[] = {4, 0x74736574}; /* "test" */
    gguf_value values[4];
    size_t count = 0;
    const struct {
        const char *key;
        const uint64_t *number;
        size_t bytes;
    } rows[] = {{"split.no", &part->number, part->number_bytes},
                {"split.count", &part->count, part->count_bytes},
                {"split.tensors.count", &part->tensors, part->tensors_bytes}};
    for (size_t i = 0; i < 3; i++)
        if (rows[i].bytes > 0)
            values[count++] =
                (gguf_value){rows[i].key, whole_type(rows[i].bytes), rows[i].number, rows[i].bytes};
    if (is_first)
        values[count++] =
            (gguf_value){"general.architecture", GGUF_VALUE_STRING, architecture, 8 + 4};
    safetensors_tensor w =
        test_tensor_make(part->tensor, SAFETENSORS_F32, is_first ? 1 : 2, 32, 64, 0);
    const gguf_tensor tensors[] = {
        {.name = part->tensor, .type = GGUF_F32, .rank = 2, .shape = {32, 64}, .bytes = w.bytes},
        {.name = "norm", .type = GGUF_F32, .rank = 1, .shape = {5}, .bytes = 20}};
    gguf_writer *writer = NULL;
    file_error error = {""};
    if (gguf_writer_open(path, tensors, is_first ? 2 : 1, values, count, 32, &writer, &error) ||
        gguf_writer_put(writer, 0, 0, w.data, w.bytes, &error) ||
        (is_first && gguf_writer_put(writer, 1, 0, w.data, 20, &error)) ||
        gguf_writer_finish(writer, &error))
        fail_msg("%s", error.text);
    test_tensor_release(&w);
}

static void write_parts(const char *first, const char *second) {
    write_part(first, &good_parts[0], 1);
    write_part(second, &good_parts[1], 0);
}

/* Whichever part is named, all tensors are there, and the values but those of the split. */
static void parts_are_one_model(void **state) {
    (void)state;
    safetensors_tensor b = test_tensor_make("b.weight", SAFETENSORS_F32, 2, 32, 64, 0);
    write_parts(first_part, second_part);
    for (int second = 0; second < 2; second++) {
        gguf_file *file = NULL;
        file_error error = {""};
        const char *const input = second ? second_part : first_part;
        test_quantize(0, "0 tensors quantized, 3 copied", NULL, "%s out.gguf --scheme keep", input);
        assert_int_equal(gguf_open("out.gguf", &file, &error), 0);
        assert_int_equal(gguf_count(file), 3);
        assert_memory_equal(gguf_find(file, "b.weight")->data, b.data, b.bytes);
        assert_non_null(gguf_find(file, "a.weight"));
        assert_non_null(gguf_find(file, "norm"));
        assert_memory_equal((const char *)gguf_value_find(file, "general.architecture")->data + 8,
                            "test", 4);
        assert_null(gguf_value_find(file, "split.no"));
        assert_null(gguf_value_find(file, "split.count"));
        assert_null(gguf_value_find(file, "split.tensors.count"));
        gguf_close(file);
        test_quantize(0, "2 tensors quantized, 1 copied", NULL,
                      "%s out.safetensors --scheme s8-channel", input);
        safetensors_file *const codes = test_checkpoint_open("out.safetensors");
        assert_null(safetensors_metadata(codes, "gguf.split.count"));
        assert_string_equal(safetensors_metadata(codes, "gguf.general.architecture"),
                            "string test");
        quantized_weight weight = test_weight_read(codes, "b.weight");
        test_weight_check(&b, &weight);
        quantized_weight_release(&weight);
        safetensors_close(codes);
    }
    test_quantize(1, NULL, "'m-00002-of-00002.gguf' is a file of the input", "%s %s --scheme q8_0",
                  first_part, second_part);
    test_quantize(1, NULL, "--json does not take './m-00002-of-00002.gguf'",
                  "%s o.gguf --scheme q8_0 --json ./%s", first_part, second_part);
    assert_int_equal(rename(first_part, "renamed.gguf"), 0);
    test_quantize(1, NULL, "renamed-00002-of-00002.gguf: No such file",
                  "renamed.gguf out.gguf --scheme keep");
    assert_int_equal(rename(second_part, "renamed-00002-of-00002.gguf"), 0);
    test_quantize(0, "3 copied", NULL, "renamed.gguf out.gguf --scheme keep");
    test_checkpoint_remove("renamed.gguf");
    test_checkpoint_remove("renamed-00002-of-00002.gguf");
    test_checkpoint_remove("out.gguf");
    test_checkpoint_remove("out.safetensors");
    test_tensor_release(&b);
}

static void parts_that_lie_are_refused(void **state) {
    (void)state;
    static const struct {
        part_text first, second;
        const char *sentence;
    } rows[] = {
        {{0, 2, 3, 2, 2, 4, "a"},
         {0, 2, 3, 2, 2, 4, "b"},
         "m-00002-of-00002.gguf: the file is part 1 of 2 by its values, not 2 of 2"},
        {{0, 2, 3, 2, 2, 4, "a"},
         {1, 3, 3, 2, 2, 4, "b"},
         "m-00002-of-00002.gguf: the file is part 2 of 3 by its values, not 2 of 2"},
        {{0, 2, 3, 2, 2, 4, "a"},
         {0, 0, 0, 0, 0, 0, "b"},
         "m-00002-of-00002.gguf: the file is part 1 of 1 by its values"},
        {{0, 2, 2, 2, 2, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "m-00001-of-00002.gguf: split.tensors.count is 2, but the 2 parts have 3 tensors"},
        {{0, 2, 3, 2, 2, 4, "a"},
         {1, 2, 1ull << 40, 2, 2, 8, "b"},
         "m-00002-of-00002.gguf: split.tensors.count is 1099511627776, but"},
        {{0, 2, 3, 2, 2, 4, "a"}, {1, 2, 255, 2, 2, 1, "b"}, "split.tensors.count is negative"},
        {{0, 2, 3, 2, 2, 4, "a"}, {1, 2, 3, 2, 2, 4, "a"}, "\"a\" is in two parts of the model"},
        {{0, 2, 0, 2, 2, 0, "a"}, {1, 2, 0, 2, 2, 0, "norm"}, "\"norm\" is in two parts"},
        {{1, 2, 3, 2, 2, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "m-00001-of-00002.gguf: the file is part 2 of 2 by its values, not by its name"},
        {{2, 2, 3, 2, 2, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "split.no is 2, not below split.count, which is 2"},
        {{0, 2, 3, 0, 2, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "split.count is 2, but there is no split.no"},
        {{255, 2, 3, 1, 2, 4, "a"}, {1, 2, 3, 2, 2, 4, "b"}, "split.no is negative"},
        {{0, 100000, 3, 2, 4, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "split.count is 100000, above the limit of 99999"},
        {{0, UINT64_MAX, 3, 2, 8, 4, "a"}, {1, 2, 3, 2, 2, 4, "b"}, "above the limit of 99999"},
        {{0, 3, 3, 2, 2, 4, "a"},
         {1, 2, 3, 2, 2, 4, "b"},
         "the file is part 1 of 3 by its values, not by its name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_part(first_part, &rows[i].first, 1);
        write_part(second_part, &rows[i].second, 0);
        test_quantize(1, NULL, rows[i].sentence, "%s out.gguf --scheme keep", first_part);
        assert_int_equal(test_checkpoint_files(), 2);
    }
    /* A part that is there under two names, and one that is none. */
    write_parts(first_part, second_part);
    test_checkpoint_remove(second_part);
    assert_int_equal(symlink(first_part, second_part), 0);
    test_quantize(1, NULL, "is part 1 of 2 by its values, not 2 of 2", "%s out.gguf --scheme keep",
                  first_part);
    test_checkpoint_remove(second_part);
    test_quantize(1, NULL, "part 2 of 2 cannot be read: m-00002-of-00002.gguf: No such file",
                  "%s out.gguf --scheme keep", first_part);
    test_file_write(second_part, "GGUF and nothing more that is of use", 36);
    test_quantize(1, NULL, "part 2 of 2 cannot be read: m-00002-of-00002.gguf: the file is of GGUF",
                  "%s out.gguf --scheme keep", first_part);
    test_checkpoint_remove(first_part);
    test_checkpoint_remove(second_part);
    assert_int_equal(test_checkpoint_files(), 0);
}

/* Any byte of either header damaged: refused with a reason or consistent, never a crash. */
static void damaged_parts_are_refused_or_consistent(void **state) {
    (void)state;
    static const unsigned char damages[] = {0, 1, 0x7f, 0xff};
    for (int part = 0; part < 2; part++) {
        const char *const path = part ? second_part : first_part;
        size_t size;
        int accepted = 0;
        write_parts(first_part, second_part);
        unsigned char *const bytes = test_file_read(path, &size);
        for (size_t at = 0; at < 256; at++)
            for (size_t i = 0; i < sizeof damages; i++) {
                const unsigned char good = bytes[at];
                gguf_parts parts = {NULL, NULL, 7};
                file_error error = {""};
                bytes[at] = damages[i];
                test_file_write(path, bytes, size);
                bytes[at] = good;
                if (gguf_parts_open(first_part, &parts, &error) == 0)
                    accepted += parts.count == 2;
                else if (!error.text[0] || parts.count != 0)
                    fail_msg("byte %zu of part %d: refused without a reason", at, part);
                gguf_parts_close(&parts);
            }
        assert_true(accepted > 0);
        free(bytes);
    }
    test_checkpoint_remove(first_part);
    test_checkpoint_remove(second_part);
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {
        CASE(shards_become_shards),
        CASE(shards_become_one_file),
        CASE(an_index_that_lies_is_refused),
        CASE(a_shard_with_more_is_refused),
        CASE(shards_do_not_replace_what_is_read),
        CASE(shards_do_not_replace_activations),
        CASE(parts_are_one_model),
        CASE(parts_that_lie_are_refused),
        CASE(damaged_parts_are_refused_or_consistent),
    };
#undef CASE
    return cmocka_run_group_tests_name("quantize shards", tests, NULL, NULL);
}
