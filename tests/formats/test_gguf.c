/* Tests the GGUF reader on valid, hostile and damaged files, and the writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/gguf.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_folder.h"
#include "tests/vectors/gguf_by_python.h"

/* ---- handmade files ---- */

typedef struct byte_list {
    unsigned char bytes[8192];
    size_t size;
} byte_list;

static void put(byte_list *list, const void *bytes, size_t size) {
    assert_true(list->size + size <= sizeof list->bytes);
    memcpy(list->bytes + list->size, bytes, size);
    list->size += size;
}

static void put_u32(byte_list *list, uint32_t value) {
    put(list, &value, sizeof value);
}

static void put_u64(byte_list *list, uint64_t value) {
    put(list, &value, sizeof value);
}

static void put_text(byte_list *list, const char *text) {
    put_u64(list, strlen(text));
    put(list, text, strlen(text));
}

static void put_head(byte_list *list, uint64_t tensors, uint64_t values) {
    put(list, "GGUF", 4);
    put_u32(list, 3);
    put_u64(list, tensors);
    put_u64(list, values);
}

/*
 * Writes a tensor record. The dimensions are in the order of the file, with the contiguous one
 * first. A 0 ends the list.
 */
static void put_tensor(byte_list *list, const char *name, const uint64_t *dimensions, uint32_t type,
                       uint64_t offset) {
    uint32_t rank = 0;
    while (dimensions[rank] != 0)
        rank++;
    put_text(list, name);
    put_u32(list, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(list, dimensions[i]);
    put_u32(list, type);
    put_u64(list, offset);
}

/* Writes zeros up to a multiple of the alignment, then `count` bytes 0, 1, 2, … */
static void put_data(byte_list *list, size_t alignment, size_t count) {
    while (list->size % alignment != 0)
        put(list, "", 1);
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)i;
        put(list, &byte, 1);
    }
}

/*
 * Parses a copy in memory of exactly its size, so that a sanitizer detects the first byte read
 * beyond it.
 */
static int parse(const byte_list *list, size_t size, gguf_file **file, file_error *error,
                 unsigned char **copy) {
    *copy = malloc(size > 0 ? size : 1);
    assert_non_null(*copy);
    memcpy(*copy, list->bytes, size);
    *file = (gguf_file *)(uintptr_t)1;
    error->text[0] = '\0';
    return gguf_parse(*copy, size, file, error);
}

static void expect_refused(const byte_list *list, size_t size, const char *sentence) {
    gguf_file *file;
    file_error error;
    unsigned char *copy;
    const int result = parse(list, size, &file, &error, &copy);
    if (result != -1 || file)
        fail_msg("accepted, not refused with \"%s\"", sentence);
    if (!strstr(error.text, sentence) || !error.text[0])
        fail_msg("refused with \"%s\", not with \"%s\"", error.text, sentence);
    free(copy);
}

/* Makes two tensors, Q8_0 of 2x64 and F32 of 3, and values of every type. */
static void make_good(byte_list *list) {
    static const uint64_t matrix[] = {64, 2, 0};
    static const uint64_t vector[] = {3, 0};
    static const double number = 0.1;
    list->size = 0;
    put_head(list, 2, 5);
    put_text(list, "general.architecture");
    put_u32(list, GGUF_VALUE_STRING);
    put_text(list, "mlp");
    put_text(list, "wide");
    put_u32(list, GGUF_VALUE_F64);
    put(list, &number, sizeof number);
    put_text(list, "flag");
    put_u32(list, GGUF_VALUE_BOOL);
    put(list, "\1", 1);
    put_text(list, "words");
    put_u32(list, GGUF_VALUE_ARRAY);
    put_u32(list, GGUF_VALUE_STRING);
    put_u64(list, 2);
    put_text(list, "a");
    put_text(list, "");
    put_text(list, "nested");
    put_u32(list, GGUF_VALUE_ARRAY);
    put_u32(list, GGUF_VALUE_ARRAY);
    put_u64(list, 1);
    put_u32(list, GGUF_VALUE_U16);
    put_u64(list, 1);
    put(list, "\7\0", 2);
    put_tensor(list, "weight", matrix, GGUF_Q8_0, 0);
    put_tensor(list, "bias", vector, GGUF_F32, 160);
    put_data(list, 32, 160 + 12); /* four blocks of 34 bytes, padded */
}

TEST(test_good_file) {
    byte_list list;
    gguf_file *file;
    file_error error;
    unsigned char *copy;
    make_good(&list);
    list.bytes[4] = 2; /* versions 2 and 3 have the same layout */
    if (parse(&list, list.size, &file, &error, &copy))
        fail_msg("refused: %s", error.text);
    assert_int_equal(gguf_count(file), 2);
    assert_int_equal(gguf_value_count(file), 5);
    const gguf_tensor *const weight = gguf_find(file, "weight");
    assert_ptr_equal(weight, gguf_at(file, 0));
    assert_int_equal(weight->type, GGUF_Q8_0);
    assert_int_equal(weight->rank, 2);
    assert_int_equal(weight->shape[0], 2);
    assert_int_equal(weight->shape[1], 64);
    assert_int_equal(weight->bytes, 4 * 34);
    assert_int_equal(((const unsigned char *)weight->data)[5], 5);
    const gguf_tensor *const bias = gguf_find(file, "bias");
    assert_int_equal(bias->bytes, 12);
    assert_int_equal(((const unsigned char *)bias->data)[0], 160);
    assert_null(gguf_find(file, "none"));
    assert_null(gguf_at(file, 2));
    const gguf_value *const text = gguf_value_find(file, "general.architecture");
    assert_int_equal(text->bytes, 8 + 3);
    assert_memory_equal((const char *)text->data + 8, "mlp", 3);
    assert_int_equal(gguf_value_find(file, "words")->bytes, 4 + 8 + 8 + 1 + 8);
    assert_int_equal(gguf_value_find(file, "nested")->bytes, 4 + 8 + 4 + 8 + 2);
    assert_null(gguf_value_find(file, "none"));
    assert_int_equal(gguf_alignment(file), 32);
    gguf_close(file);
    gguf_close(NULL);
    free(copy);
}

/* Another program made this file. */
TEST(test_file_of_python) {
    gguf_file *file = NULL;
    file_error error = {""};
    if (gguf_parse(gguf_by_python, sizeof gguf_by_python, &file, &error))
        fail_msg("refused: %s", error.text);
    assert_int_equal(gguf_count(file), 3);
    const gguf_tensor *const plain = gguf_find(file, "plain");
    assert_int_equal(plain->type, GGUF_F32);
    assert_int_equal(plain->shape[0], GGUF_VECTOR_ROWS);
    assert_int_equal(plain->shape[1], GGUF_VECTOR_COLUMNS);
    for (int i = 0; i < GGUF_VECTOR_ROWS * GGUF_VECTOR_COLUMNS; i++) {
        float number;
        memcpy(&number, (const char *)plain->data + i * sizeof number, sizeof number);
        assert_true(number == (float)(i * 37 % 101 - 50) / 16);
    }
    assert_int_equal(gguf_find(file, "q8_0")->type, GGUF_Q8_0);
    assert_int_equal(gguf_find(file, "q4_0")->type, GGUF_Q4_0);
    assert_int_equal(gguf_find(file, "q4_0")->bytes,
                     GGUF_VECTOR_ROWS * GGUF_VECTOR_COLUMNS / 32 * 18);
    assert_int_equal(gguf_value_find(file, "tokenizer.ggml.tokens")->type, GGUF_VALUE_ARRAY);
    assert_int_equal(gguf_value_find(file, "llama.block_count")->type, GGUF_VALUE_U32);
    gguf_close(file);
}

/* The good file ends without padding after its last tensor, as many files do. */
TEST(test_every_truncation_is_refused) {
    byte_list list;
    make_good(&list);
    for (size_t size = 0; size < list.size; size++)
        expect_refused(&list, size, "");
}

TEST(test_hostile_heads) {
    static const struct {
        const char *magic;
        uint32_t version;
        uint64_t tensors, values;
        const char *sentence;
    } rows[] = {
        {"GGML", 3, 0, 0, "does not begin with \"GGUF\""},
        {"GGUF", 1, 0, 0, "has GGUF version 1"},
        {"GGUF", 4, 0, 0, "has GGUF version 4"},
        {"GGUF", 0x03000000, 0, 0, "big-endian"},
        {"GGUF", 3, 1, 0, "too small for 1 tensors and 0 values"},
        {"GGUF", 3, UINT64_MAX, 0, "the file is too small for"},
        {"GGUF", 2, 0, UINT64_MAX / 13 + 1, "the file is too small for"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        byte_list list = {.size = 0};
        put(&list, rows[i].magic, 4);
        put_u32(&list, rows[i].version);
        put_u64(&list, rows[i].tensors);
        put_u64(&list, rows[i].values);
        expect_refused(&list, list.size, rows[i].sentence);
    }
}

TEST(test_hostile_values) {
    static const struct {
        const char *key;
        uint32_t type;
        const char *value;
        size_t bytes;
        const char *sentence;
    } rows[] = {
        {"k", 13, "", 0, "\"k\" has the unknown type 13"},
        {"k", GGUF_VALUE_BOOL, "\2", 1, "\"k\" is a bool with the value 2"},
        {"", GGUF_VALUE_U8, "\0", 1, "has 0 bytes, not 1 to"},
        {"k\033[2J", GGUF_VALUE_U8, "\0", 1, "not UTF-8 text without control"},
        {"\xff", GGUF_VALUE_U8, "\0", 1, "not UTF-8 text"},
        {"k", GGUF_VALUE_STRING, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "truncated in value \"k\""},
        {"k", GGUF_VALUE_ARRAY, "\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f", 12,
         "claims 9223372036854775807 elements"},
        {"k", GGUF_VALUE_ARRAY, "\x0d\0\0\0\1\0\0\0\0\0\0\0", 12, "have the unknown type 13"},
        {"general.alignment", GGUF_VALUE_U8, "\40", 1, "general.alignment has the type 0"},
        {"general.alignment", GGUF_VALUE_U32, "\0\0\0\0", 4, "general.alignment is 0"},
        {"general.alignment", GGUF_VALUE_U32, "\60\0\0\0", 4, "general.alignment is 48"},
        {"general.alignment", GGUF_VALUE_U32, "\0\0\0\x80", 4, "general.alignment is 2147483648"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        byte_list list = {.size = 0};
        put_head(&list, 0, 1);
        put_text(&list, rows[i].key);
        put_u32(&list, rows[i].type);
        put(&list, rows[i].value, rows[i].bytes);
        if (strcmp(rows[i].sentence, "truncated in value \"k\"") != 0)
            put(&list, "\0\0\0\0\0\0\0\0", 8); /* so that the file is not refused as truncated */
        expect_refused(&list, list.size, rows[i].sentence);
    }
}

TEST(test_values_that_stand_twice) {
    byte_list list = {.size = 0};
    put_head(&list, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&list, "k");
        put_u32(&list, GGUF_VALUE_U8);
        put(&list, "\1", 1);
    }
    expect_refused(&list, list.size, "the key \"k\" appears twice");
}

TEST(test_deep_arrays_are_refused) {
    byte_list list = {.size = 0};
    put_head(&list, 0, 1);
    put_text(&list, "k");
    put_u32(&list, GGUF_VALUE_ARRAY);
    for (int i = 0; i < 300; i++) {
        put_u32(&list, GGUF_VALUE_ARRAY);
        put_u64(&list, 1);
    }
    expect_refused(&list, list.size, "arrays in arrays beyond depth 4");
}

/* Each file has tensor "a", and a second tensor "b" unless `second` is UINT64_MAX. */
TEST(test_hostile_tensors) {
    static const struct {
        uint64_t dimensions[6];
        uint32_t type;
        uint64_t offset;
        uint64_t second; /* offset of "b" with 8 F32 values, or UINT64_MAX */
        size_t data;
        const char *sentence;
    } rows[] = {
        {{1, 1, 1, 1, 1}, GGUF_F32, 0, UINT64_MAX, 32, "has 5 dimensions, not 0 to 4"},
        {{0}, GGUF_F32, 0, UINT64_MAX, 3, "of 4 bytes at byte 0 ends beyond the 3 bytes"},
        {{0}, GGUF_Q8_0, 0, UINT64_MAX, 64, "is 1, not a multiple of the 32 of a Q8_0 block"},
        {{8}, 1000, 0, UINT64_MAX, 32, "tensor \"a\" has the type 1000, which Tandem does not"},
        {{256}, 14, 0, UINT64_MAX, 210, "tensor \"a\" has the type 14"},
        {{33}, GGUF_Q8_0, 0, UINT64_MAX, 64, "not a multiple of the 32 of a Q8_0 block"},
        {{16, 2}, GGUF_Q4_0, 0, UINT64_MAX, 64, "not a multiple of the 32 of a Q4_0 block"},
        {{UINT64_MAX}, GGUF_I8, 0, UINT64_MAX, 32, "dimension 0 of tensor \"a\" is 1844674"},
        {{1ull << 62, 4}, GGUF_F32, 0, UINT64_MAX, 32, "overflows 64 bits"},
        {{1ull << 32, 1ull << 31}, GGUF_I8, 0, UINT64_MAX, 32, "overflows 64 bits"},
        {{8}, GGUF_F32, 8, UINT64_MAX, 64, "at byte 8, not a multiple of the alignment 32"},
        {{8}, GGUF_F32, 32, UINT64_MAX, 64, "there is a gap of 32 bytes before tensor \"a\""},
        {{8}, GGUF_F32, 0, UINT64_MAX, 31, "ends beyond the 31 bytes"},
        {{1ull << 40}, GGUF_F32, 0, UINT64_MAX, 32, "ends beyond the 32 bytes"},
        {{8}, GGUF_F32, UINT64_MAX - 31, UINT64_MAX, 32, "there is a gap of"},
        {{8}, GGUF_F32, 0, 0, 64, "overlaps the previous tensor"},
        {{16}, GGUF_F32, 0, 32, 64, "tensor \"b\" at byte 32 overlaps the previous tensor"},
        {{8}, GGUF_F32, 0, 64, 96, "there is a gap of 32 bytes before tensor \"b\""},
    };
    static const uint64_t vector[] = {8, 0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        byte_list list = {.size = 0};
        const int two = rows[i].second != UINT64_MAX;
        put_head(&list, two ? 2 : 1, 0);
        put_tensor(&list, "a", rows[i].dimensions, rows[i].type, rows[i].offset);
        if (two)
            put_tensor(&list, "b", vector, GGUF_F32, rows[i].second);
        put_data(&list, 32, rows[i].data);
        expect_refused(&list, list.size, rows[i].sentence);
    }
}

/* ---- unusual files ---- */

static gguf_file *expect_good(const byte_list *list, unsigned char **copy) {
    gguf_file *file;
    file_error error;
    if (parse(list, list->size, &file, &error, copy))
        fail_msg("refused: %s", error.text);
    return file;
}

TEST(test_scalars_and_empty_tensors) {
    static const uint64_t none[] = {0};
    static const uint64_t empty[] = {0, 8, 3};
    unsigned char *copy;
    byte_list list = {.size = 0};
    put_head(&list, 3, 0);
    put_tensor(&list, "scalar", none, GGUF_F64, 0);
    for (int i = 0; i < 2; i++) { /* empty tensors; the second one has no padding */
        put_text(&list, i == 0 ? "first" : "last");
        put_u32(&list, 3);
        put(&list, empty, sizeof empty);
        put_u32(&list, GGUF_F32);
        put_u64(&list, i == 0 ? 0 : 32);
    }
    put_data(&list, 32, 8);
    gguf_file *const file = expect_good(&list, &copy);
    assert_int_equal(gguf_find(file, "scalar")->rank, 0);
    assert_int_equal(gguf_find(file, "scalar")->bytes, 8);
    assert_int_equal(((const unsigned char *)gguf_find(file, "scalar")->data)[7], 7);
    assert_int_equal(gguf_find(file, "last")->shape[0], 3);
    assert_int_equal(gguf_find(file, "last")->shape[2], 0);
    assert_int_equal(gguf_find(file, "first")->bytes, 0);
    gguf_close(file);
    free(copy);
}

/* Bytes after the last tensor's padding, or after a header without tensors, belong to no tensor. */
TEST(test_trailing_bytes) {
    static const uint64_t vector[] = {8, 0};
    for (uint64_t tensors = 0; tensors < 2; tensors++)
        for (size_t trailing = 0; trailing < 200; trailing += 33) {
            unsigned char *copy;
            byte_list list = {.size = 0};
            put_head(&list, tensors, 0);
            if (tensors)
                put_tensor(&list, "a", vector, GGUF_F32, 0);
            put_data(&list, 32, 32 * tensors + trailing);
            gguf_file *const file = expect_good(&list, &copy);
            assert_int_equal(gguf_count(file), tensors);
            assert_true(tensors == 0 || gguf_at(file, 0)->bytes == 32);
            gguf_close(file);
            free(copy);
        }
}

/* ggml limits names to 63 bytes unless it is built with a larger limit. */
TEST(test_long_names) {
    static const uint64_t vector[] = {8, 0};
    static char name[GGUF_MAX_NAME + 2];
    static const size_t lengths[] = {64, GGUF_MAX_NAME, GGUF_MAX_NAME + 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t length = lengths[i];
        byte_list list = {.size = 0};
        memset(name, 'n', length);
        name[length] = '\0';
        put_head(&list, 1, 0);
        put_tensor(&list, name, vector, GGUF_F32, 0);
        put_data(&list, 32, 32);
        if (length > GGUF_MAX_NAME) {
            expect_refused(&list, list.size, "has 1024 bytes, not 1 to 1023");
            continue;
        }
        gguf_file *file;
        file_error error;
        unsigned char *copy;
        assert_int_equal(parse(&list, list.size, &file, &error, &copy), 0);
        assert_string_equal(gguf_at(file, 0)->name, name);
        gguf_close(file);
        free(copy);
    }
}

TEST(test_tensors_that_stand_twice) {
    static const uint64_t vector[] = {8, 0};
    byte_list list = {.size = 0};
    put_head(&list, 2, 0);
    put_tensor(&list, "a", vector, GGUF_F32, 0);
    put_tensor(&list, "a", vector, GGUF_F32, 32);
    put_data(&list, 32, 64);
    expect_refused(&list, list.size, "the name \"a\" appears twice");
}

/* ---- damage ---- */

/* Reads every byte that an accepted file exposes, so that a sanitizer detects one outside of the
 * file. */
static unsigned read_everything(const gguf_file *file) {
    unsigned sum = 0;
    for (size_t i = 0; i < gguf_count(file); i++) {
        const gguf_tensor *const tensor = gguf_at(file, i);
        for (size_t j = 0; j < tensor->bytes; j++)
            sum += ((const unsigned char *)tensor->data)[j];
        assert_ptr_equal(gguf_find(file, tensor->name), tensor);
    }
    for (size_t i = 0; i < gguf_value_count(file); i++) {
        const gguf_value *const value = gguf_value_at(file, i);
        for (size_t j = 0; j < value->bytes; j++)
            sum += ((const unsigned char *)value->data)[j];
        assert_ptr_equal(gguf_value_find(file, value->key), value);
    }
    return sum;
}

/*
 * One to four bytes of the header are damaged. Either the file is refused with a reason, or its
 * contents are consistent. The reader never crashes.
 */
TEST(test_random_damage) {
    enum {
        ROUNDS = 20000,
        HEADER = 300
    };
    const uint64_t seed = 0x67677566;
    test_random random = {.state = seed};
    byte_list good;
    int accepted = 0;
    make_good(&good);
    for (int i = 0; i < ROUNDS; i++) {
        byte_list list = good;
        for (uint64_t n = 1 + test_random_bits(&random) % 4; n > 0; n--) {
            const size_t place = test_random_bits(&random) % HEADER;
            const uint64_t value = test_random_bits(&random);
            list.bytes[place] = (unsigned char)(value & 256 ? value & 3 : value);
        }
        gguf_file *file;
        file_error error;
        unsigned char *copy;
        if (parse(&list, list.size, &file, &error, &copy) == 0) {
            accepted++;
            read_everything(file);
        } else if (file || !error.text[0]) {
            fail_msg("round %d of seed %llu: refused without a reason", i,
                     (unsigned long long)seed);
        }
        gguf_close(file);
        free(copy);
    }
    /* A damaged name or value can still be valid, so some files are accepted. */
    assert_in_range(accepted, 1, ROUNDS / 2);
}

/* ---- the writer ---- */

static void write_good(const char *path, uint64_t alignment) {
    static const unsigned char blocks[36] = {1, 2, 3};
    static const float bias[3] = {1, 2, 3};
    static const uint32_t wanted = 64;
    static const uint64_t text[] = {2, 0x6968}; /* "hi" */
    const gguf_tensor tensors[] = {
        {.name = "w", .type = GGUF_Q4_0, .rank = 2, .shape = {1, 64}, .bytes = sizeof blocks},
        {.name = "scalar", .type = GGUF_F32, .rank = 0, .bytes = 4},
        {.name = "b", .type = GGUF_F32, .rank = 1, .shape = {3}, .bytes = sizeof bias},
    };
    const gguf_value values[] = {
        {"greeting", GGUF_VALUE_STRING, text, 10},
        {"general.alignment", GGUF_VALUE_U32, &wanted, sizeof wanted},
    };
    tensor_writer *writer = NULL;
    file_error error = {""};
    if (gguf_writer_open(path, tensors, 3, values, alignment == 64 ? 2 : 1, alignment, &writer,
                         &error) ||
        tensor_writer_put(writer, 2, 0, bias, sizeof bias, &error) ||
        tensor_writer_put(writer, 0, 18, blocks + 18, 18, &error) ||
        tensor_writer_put(writer, 0, 0, blocks, 18, &error) ||
        tensor_writer_put(writer, 1, 0, bias + 1, 4, &error) ||
        tensor_writer_finish(writer, &error))
        fail_msg("not written: %s", error.text);
}

TEST_WITH(test_writer_round_trip, test_folder_make, test_folder_remove_empty) {
    char path[TEST_PATH];
    test_folder_path(path, "written.gguf");
    for (uint64_t alignment = 32; alignment <= 64; alignment += 32) {
        gguf_file *file = NULL;
        file_error error = {""};
        struct stat status;
        write_good(path, alignment);
        if (gguf_open(path, &file, &error))
            fail_msg("refused: %s", error.text);
        assert_int_equal(gguf_count(file), 3);
        assert_int_equal(gguf_alignment(file), alignment);
        const gguf_tensor *const w = gguf_find(file, "w");
        assert_int_equal((uintptr_t)w->data % alignment, 0);
        assert_int_equal(((const unsigned char *)w->data)[2], 3);
        assert_int_equal(w->shape[1], 64);
        float number;
        assert_int_equal(gguf_find(file, "scalar")->rank, 0);
        memcpy(&number, gguf_find(file, "scalar")->data, sizeof number);
        assert_true(number == 2.0f);
        memcpy(&number, (const float *)gguf_find(file, "b")->data + 2, sizeof number);
        assert_true(number == 3.0f);
        assert_memory_equal((const char *)gguf_value_find(file, "greeting")->data + 8, "hi", 2);
        gguf_close(file);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_size % (off_t)alignment, 0);
        unlink(path);
    }
}

TEST_WITH(test_writer_refuses, test_folder_make, test_folder_remove_empty) {
    static const gguf_tensor tensors[] = {
        {.name = "taken", .type = GGUF_I8, .rank = 1, .shape = {4}, .bytes = 4},
        {.name = "taken", .type = GGUF_I8, .rank = 1, .shape = {4}, .bytes = 4}};
    char path[TEST_PATH];
    test_folder_path(path, "refused.gguf");
    tensor_writer *writer = (tensor_writer *)(uintptr_t)1;
    file_error error = {""};
    assert_int_equal(gguf_writer_open(path, tensors, 2, NULL, 0, 32, &writer, &error), -1);
    assert_null(writer);
    assert_non_null(strstr(error.text, "the name \"taken\" is already used"));
    assert_int_equal(gguf_writer_open(path, tensors, 1, NULL, 0, 32, &writer, &error), 0);
    assert_int_equal(tensor_writer_put(writer, 0, 1, "1234", 4, &error), -1);
    assert_non_null(strstr(error.text, "lie beyond"));
    assert_int_equal(tensor_writer_finish(writer, &error), -1);
    assert_non_null(strstr(error.text, "0 bytes were written of tensors that need 4"));
    /* test_folder_remove_empty checks that no file is left. */
}

TEST_MAIN(NULL, NULL)
