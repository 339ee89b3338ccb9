/* Tests the safetensors reader on valid, hostile and damaged files, and the writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_model.h"

/*
 * This is a file in memory of exactly its size, so that a sanitizer detects the first byte read
 * beyond it.
 */
typedef struct file_bytes {
    unsigned char *bytes;
    size_t size;
} file_bytes;

static file_bytes make_file(const char *header, size_t header_bytes, uint64_t claimed_length,
                            size_t data_bytes) {
    file_bytes file = {.size = 8 + header_bytes + data_bytes};
    file.bytes = malloc(file.size);
    assert_non_null(file.bytes);
    memcpy(file.bytes, &claimed_length, 8);
    memcpy(file.bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        file.bytes[8 + header_bytes + i] = (unsigned char)i;
    return file;
}

static void expect_refused(const char *what, const file_bytes *file, const char *sentence) {
    safetensors_file *parsed = (safetensors_file *)(uintptr_t)1;
    safetensors_error error = {""};
    const int result = safetensors_parse(file->bytes, file->size, &parsed, &error);
    if (result != -1 || parsed)
        fail_msg("%s: accepted", what);
    if (!strstr(error.text, sentence))
        fail_msg("%s: refused with \"%s\", not with \"%s\"", what, error.text, sentence);
}

/* ---- hostile headers: a header, its data bytes, part of the message ---- */

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" ENTRY(dtype, shape, offsets) "}"
#define TWO(first, second) "{\"a\":" first ",\"b\":" second "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *sentence;
} hostile[] = {
    /* no header object */
    {"", 0, "not a JSON object"},
    {"[]", 0, "not a JSON object"},
    {"  ", 0, "not a JSON object"},
    {"\n[{}]", 0, "not a JSON object"},
    {"\xef\xbb\xbf{}", 0, "not a JSON object"},
    {"{", 0, "not a JSON object"},
    {"{]", 0, "not a JSON object"},
    {"{\"a\":", 0, "not a JSON object"},
    {"{\"a", 0, "not a JSON object"},
    {"{\"a\\", 0, "not a JSON object"},
    {"{\"a\":{\"dtype\":\"F32\",}}", 0, "not a JSON object"},
    {"{\"a\":NaN}", 0, "not a JSON object"},
    {"{}{}", 0, "there is data after"},
    {"{}\n{", 0, "there is data after"},
    {"{}\n\f", 0, "control character"},
    {"{\"\xff\":{}}", 0, "not UTF-8 text (byte 2)"},
    {"{\"\xc0\xaf\":{}}", 0, "not UTF-8 text"},
    {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8 text"},
    {"{\"\xe2\x82", 0, "not UTF-8 text"},
    {"{\"a\x1b[2J\":{}}", 0, "control character"},
    {"{\"a\\u0000b\":{}}", 0, "character NUL"},
    {"{\"a\":[[[[0]]]]}", 0, "tensor \"a\" is not an object"},
    {ONE("F32", "[{}]", "[0,4]"), 4, "dimension 0 of tensor \"a\" is not an integer"},
    {ONE("F32", "[1]", "[[0],[4]]"), 4, "data offset of tensor \"a\" is not an integer"},
    /* invalid tensors */
    {"{\"a\":1}", 0, "tensor \"a\" is not an object"},
    {"{\"a\":null}", 0, "tensor \"a\" is not an object"},
    {"{\"a\":{}}", 0, "tensor \"a\" has no dtype"},
    {"{\"a\":{\"dtype\":4}}", 0, "tensor \"a\" has no dtype"},
    {ONE("F31", "[1]", "[0,4]"), 4, "unknown dtype \"F31\""},
    {ONE("F4", "[3]", "[0,2]"), 2, "the 12 bits of tensor \"a\" are not whole bytes"},
    {ONE("F6_E2M3", "[5,3]", "[0,12]"), 12, "are not whole bytes"},
    {ONE("F4", "[4]", "[0,4]"), 4, "claims 4 bytes of data, but its shape needs 2"},
    {ONE("F4", "[4611686018427387904]", "[0,4]"), 4, "not an integer"},
    {ONE("f32", "[1]", "[0,4]"), 4, "unknown dtype \"f32\""},
    {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor \"a\" has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":{}}}", 0, "tensor \"a\" has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "no data_offsets with two"},
    {ONE("F32", "[1]", "[0]"), 4, "no data_offsets with two"},
    {ONE("F32", "[1]", "[0,4,8]"), 4, "no data_offsets with two"},
    {ONE("F32", "[1]", "\"04\""), 4, "no data_offsets with two"},
    {"{\"a\":{\"Dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
     "tensor \"a\" has no dtype"},
    {"{\"a\\u001b[2J\":1}", 0, "tensor \"a?[2J\" is not an object"},
    /* duplicate members */
    {TWO(ENTRY("U8", "[1]", "[0,1]"),
         ENTRY("U8", "[1]", "[1,2]") ",\"a\":" ENTRY("U8", "[0]", "[2,2]")),
     2, "\"a\" appears twice in the header"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "\"dtype\" appears twice in a"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"x\":1,\"data_offsets\":[0,1],\"data_offsets\":[0,1]}"
     "}",
     1, "\"data_offsets\" appears twice in a"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" appears twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "\"k\" appears twice in __metadata__"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "\"k\" of __metadata__ is not a string"},
    /* shapes */
    {ONE("F32", "[-1]", "[0,4]"), 4, "dimension 0 of tensor \"a\" is not an integer"},
    {ONE("F32", "[1,0.5]", "[0,4]"), 4, "dimension 1 of tensor \"a\" is not an integer"},
    {ONE("F32", "[\"1\"]", "[0,4]"), 4, "is not an integer"},
    {ONE("F32", "[1e400]", "[0,4]"), 4, "is not an integer"},
    {ONE("F32", "[9007199254740993]", "[0,4]"), 4, "is not an integer"},
    {ONE("F32", "[18446744073709551616]", "[0,4]"), 4, "is not an integer"},
    {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "more than 8 dimensions"},
    {ONE("U8", "[4294967296,4294967296]", "[0,0]"), 0, "overflows 64 bits"},
    {ONE("F64", "[4503599627370496,512]", "[0,0]"), 0, "overflows 64 bits"},
    {ONE("U8", "[4294967296,2147483648]", "[0,0]"), 0, "overflows 64 bits"},
    /* ranges */
    {ONE("F32", "[1]", "[-4,0]"), 4, "data offset of tensor \"a\" is not an integer"},
    {ONE("F32", "[1]", "[0,4.5]"), 5, "data offset of tensor \"a\" is not an integer"},
    {ONE("F32", "[1]", "[0,\"4\"]"), 4, "data offset of tensor \"a\" is not an integer"},
    {ONE("F32", "[1]", "[4,0]"), 4, "ends at byte 0, before its start at 4"},
    {ONE("F32", "[1]", "[0,4]"), 3, "ends at byte 4, but the file holds 3"},
    {ONE("F32", "[1]", "[9007199254740987,9007199254740991]"), 4, "but the file holds 4"},
    {ONE("F32", "[2]", "[0,4]"), 4, "claims 4 bytes of data, but its shape needs 8"},
    {ONE("F32", "[]", "[0,0]"), 0, "claims 0 bytes of data, but its shape needs 4"},
    {ONE("F16", "[2,0]", "[0,4]"), 4, "claims 4 bytes of data, but its shape needs 0"},
    {TWO(ENTRY("U8", "[4]", "[0,4]"), ENTRY("U8", "[4]", "[2,6]")), 6,
     "\"a\" and \"b\" overlap at byte 2"},
    {TWO(ENTRY("U8", "[4]", "[0,4]"), ENTRY("U8", "[4]", "[0,4]")), 4, "overlap at byte 0"},
    {TWO(ENTRY("U8", "[4]", "[0,4]"), ENTRY("U8", "[4]", "[3,7]")), 7, "overlap at byte 3"},
    {TWO(ENTRY("U8", "[6]", "[0,6]"), ENTRY("U8", "[2]", "[2,4]")), 6, "overlap at byte 2"},
    {TWO(ENTRY("U8", "[4]", "[0,4]"), ENTRY("U8", "[2]", "[6,8]")), 8,
     "gap of 2 bytes before tensor \"b\""},
    {ONE("U8", "[4]", "[1,5]"), 5, "gap of 1 bytes before tensor \"a\""},
    {ONE("U8", "[4]", "[0,4]"), 7, "3 bytes after the last tensor"},
    {"{}", 1, "1 bytes after the last tensor"},
};

TEST(test_hostile_headers) {
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const size_t length = strlen(hostile[i].header);
        file_bytes file = make_file(hostile[i].header, length, length, hostile[i].data_bytes);
        expect_refused(hostile[i].header, &file, hostile[i].sentence);
        free(file.bytes);
    }
}

TEST(test_hostile_lengths) {
    static const struct {
        uint64_t length;
        size_t there;
        const char *sentence;
    } rows[] = {
        {3, 2, "truncated: its header needs 3 bytes, but only 2 are present"},
        {2 + SAFETENSORS_MAX_HEADER, 2, "above the limit"},
        {UINT64_MAX, 2, "above the limit"},
        {UINT64_MAX - 7, 2, "above the limit"},
        {(uint64_t)1 << 63, 2, "above the limit"},
        {0, 0, "not a JSON object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        file_bytes file = make_file("{}", rows[i].there, rows[i].length, 0);
        expect_refused(rows[i].sentence, &file, rows[i].sentence);
        free(file.bytes);
    }
}

/* The reference reader also treats null metadata as absent. */
TEST(test_metadata_of_null) {
    static const char header[] = "{\"__metadata__\":null,\"a\":" ENTRY("U8", "[2]", "[0,2]") "}";
    file_bytes bytes = make_file(header, sizeof header - 1, sizeof header - 1, 2);
    safetensors_file *file = NULL;
    safetensors_error error = {""};
    assert_int_equal(safetensors_parse(bytes.bytes, bytes.size, &file, &error), 0);
    assert_int_equal(safetensors_count(file), 1);
    assert_null(safetensors_metadata_at(file, 0).key);
    assert_null(safetensors_metadata(file, "k"));
    safetensors_close(file);
    free(bytes.bytes);
}

/* A NUL in the raw header would end names early. */
TEST(test_raw_nul) {
    static const char header[] = "{\"a\0b\":{}}";
    file_bytes file = make_file(header, sizeof header - 1, sizeof header - 1, 0);
    expect_refused("raw NUL", &file, "control character");
    free(file.bytes);
}

TEST(test_deep_nesting_is_no_recursion) {
    const size_t depth = 1 << 20;
    char *const header = malloc(depth);
    assert_non_null(header);
    memset(header, '[', depth);
    header[0] = '{';
    file_bytes file = make_file(header, depth, depth, 0);
    expect_refused("deep nesting", &file, "nests deeper");
    free(file.bytes);
    free(header);
}

/* ---- valid files ---- */

/*
 * The reference reader accepts these headers, though the specification does not define all of them.
 */
TEST(test_good_but_unusual_headers) {
    static const struct {
        const char *header;
        size_t bytes; /* of the data, all of which belongs to tensor "a" */
    } rows[] = {
        {ONE("F32", "[1]", "[0,4]") "\n", 4},
        {ONE("F32", "[1]", "[0,4]") " \t\r\n \n", 4},
        {"\n \t\r" ONE("F32", "[1]", "[0,4]"), 4},
        {"{ \"a\" :\n\t" ENTRY("F32", "[ 1 ]", "[0,\r\n4]") "}", 4},
        {"{\"a\":{\"note\":\"x\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"x\":1,\"dtype\":\"F32\",\"x\":2,\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
         "\"x\":{\"dtype\":[[[[[]]],{\"shape\":null}]]}}}",
         4},
        {ONE("F32", "[]", "[0,4]"), 4},
        {ONE("F32", "[0]", "[0,0]"), 0},
        {ONE("F4", "[3,2,0,5]", "[0,0]"), 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t length = strlen(rows[i].header);
        file_bytes bytes = make_file(rows[i].header, length, length, rows[i].bytes);
        safetensors_file *file = NULL;
        safetensors_error error = {""};
        if (safetensors_parse(bytes.bytes, bytes.size, &file, &error))
            fail_msg("%s: refused: %s", rows[i].header, error.text);
        assert_int_equal(safetensors_count(file), 1);
        assert_int_equal(safetensors_find(file, "a")->bytes, rows[i].bytes);
        safetensors_close(file);
        free(bytes.bytes);
    }
}

/* The reference reader has this limit. */
TEST(test_depth_of_ignored_members) {
    for (int depth = 125; depth <= 126; depth++) {
        char header[512] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":";
        size_t length = strlen(header);
        memset(header + length, '[', (size_t)depth);
        memset(header + length + depth, ']', (size_t)depth);
        length += 2 * (size_t)depth;
        header[length] = header[length + 1] = '}';
        file_bytes bytes = make_file(header, length + 2, length + 2, 1);
        if (depth == 126) {
            expect_refused("depth 126", &bytes, "nests deeper than 127 levels");
        } else {
            safetensors_file *file = NULL;
            safetensors_error error = {""};
            if (safetensors_parse(bytes.bytes, bytes.size, &file, &error))
                fail_msg("refused: %s", error.text);
            safetensors_close(file);
        }
        free(bytes.bytes);
    }
}

TEST(test_header_of_the_greatest_length) {
    enum {
        LIMIT = 100000000 /* of the format */
    };
    static const char begin[] = ONE("U8", "[1]", "[0,1]");
    char *const header = malloc(LIMIT + 1);
    assert_non_null(header);
    memset(header, ' ', LIMIT + 1);
    memcpy(header, begin, sizeof begin - 1);
    file_bytes bytes = make_file(header, LIMIT, LIMIT, 1);
    safetensors_file *file = NULL;
    safetensors_error error = {""};
    if (safetensors_parse(bytes.bytes, bytes.size, &file, &error))
        fail_msg("refused: %s", error.text);
    assert_int_equal(safetensors_count(file), 1);
    safetensors_close(file);
    free(bytes.bytes);
    bytes = make_file(header, LIMIT + 1, LIMIT + 1, 1);
    expect_refused("one byte more", &bytes, "100000001 bytes is above the limit of 100000000");
    free(bytes.bytes);
    free(header);
}

TEST(test_good_header) {
    static const char header[] = "{\"b\":" ENTRY(
        "F16", "[2,3]", "[4,16]") ",\"__metadata__\":{\"k\":\"v\"},"
                                  "\"none\":" ENTRY("F32", "[0,7]", "[4,4]") ",\"a\":" ENTRY(
                                      "I32", "[]", "[0,4]") "}   ";
    file_bytes bytes = make_file(header, sizeof header - 1, sizeof header - 1, 16);
    safetensors_file *file = NULL;
    safetensors_error error = {""};
    if (safetensors_parse(bytes.bytes, bytes.size, &file, &error))
        fail_msg("refused: %s", error.text);
    assert_int_equal(safetensors_count(file), 3);
    assert_string_equal(safetensors_at(file, 0)->name, "a");
    assert_string_equal(safetensors_at(file, 1)->name, "none");
    assert_null(safetensors_at(file, 3));
    const safetensors_tensor *const b = safetensors_find(file, "b");
    assert_non_null(b);
    assert_int_equal(b->dtype, SAFETENSORS_F16);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->bytes, 12);
    assert_int_equal(*(const unsigned char *)b->data, 4);
    assert_int_equal(safetensors_find(file, "a")->rank, 0);
    assert_null(safetensors_find(file, "c"));
    assert_null(safetensors_find(file, "__metadata__"));
    assert_string_equal(safetensors_metadata(file, "k"), "v");
    assert_null(safetensors_metadata(file, "K"));
    safetensors_close(file);
    free(bytes.bytes);
}

TEST(test_empty_file_of_tensors) {
    file_bytes bytes = make_file("{}", 2, 2, 0);
    safetensors_file *file = NULL;
    safetensors_error error = {""};
    assert_int_equal(safetensors_parse(bytes.bytes, bytes.size, &file, &error), 0);
    assert_int_equal(safetensors_count(file), 0);
    assert_null(safetensors_find(file, "a"));
    assert_null(safetensors_metadata(file, "k"));
    safetensors_close(file);
    safetensors_close(NULL);
    free(bytes.bytes);
}

/* Reads every byte that an accepted file exposes, so that a sanitizer detects one outside of the
 * file. */
static unsigned read_everything(const safetensors_file *file) {
    unsigned sum = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const safetensors_tensor *const tensor = safetensors_at(file, i);
        for (size_t j = 0; j < tensor->bytes; j++)
            sum += ((const unsigned char *)tensor->data)[j];
        sum += (unsigned)strlen(tensor->name);
        assert_ptr_equal(safetensors_find(file, tensor->name), tensor);
    }
    return sum;
}

static const char digits_file[] = TANDEM_SOURCE_DIR "/examples/digits/heldout.safetensors";

static file_bytes load_file(const char *path) {
    FILE *const stream = fopen(path, "rb");
    assert_non_null(stream);
    file_bytes file = {.bytes = malloc(1 << 20)};
    assert_non_null(file.bytes);
    file.size = fread(file.bytes, 1, 1 << 20, stream);
    fclose(stream);
    return file;
}

TEST(test_every_truncation_is_refused) {
    const file_bytes whole = load_file(digits_file);
    for (size_t size = 0; size < whole.size; size += size < 700 ? 1 : 997) {
        file_bytes cut = {.bytes = malloc(size + 1), .size = size};
        assert_non_null(cut.bytes);
        memcpy(cut.bytes, whole.bytes, size);
        expect_refused("truncated", &cut, "");
        free(cut.bytes);
    }
    free(whole.bytes);
}

/*
 * One to four bytes of the length and the header are damaged. Either the file is refused, or its
 * contents are consistent. The reader never crashes.
 */
TEST(test_random_damage) {
    enum {
        ROUNDS = 20000
    };
    const uint64_t seed = 0x7461646d;
    test_random random = {.state = seed};
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},\"a\":" ENTRY(
        "I32", "[2]", "[0,8]") ",\"b\":" ENTRY("F16", "[2,3]", "[8,20]") "}";
    static const char letters[] = "0123456789-+.eE[]{},:\"\\ abu\xc3\xff";
    file_bytes bytes = make_file(header, sizeof header - 1, sizeof header - 1, 20);
    unsigned char *const good = malloc(bytes.size);
    assert_non_null(good);
    memcpy(good, bytes.bytes, bytes.size);
    int accepted = 0;
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(bytes.bytes, good, bytes.size);
        for (uint64_t n = 1 + test_random_bits(&random) % 4; n > 0; n--) {
            const size_t place = test_random_bits(&random) % (8 + sizeof header - 1);
            const uint64_t value = test_random_bits(&random);
            bytes.bytes[place] = (unsigned char)(value & 256 ? letters[value % sizeof letters]
                                                             : (char)(value & 255));
        }
        safetensors_file *file = NULL;
        safetensors_error error = {""};
        if (safetensors_parse(bytes.bytes, bytes.size, &file, &error) == 0) {
            accepted++;
            read_everything(file);
        } else if (file || !error.text[0]) {
            fail_msg("round %d of seed %llu: refused without a reason", i,
                     (unsigned long long)seed);
        }
        safetensors_close(file);
    }
    /* A damaged name or metadata text can still be valid, so some files are accepted. */
    assert_in_range(accepted, 1, ROUNDS / 2);
    free(good);
    free(bytes.bytes);
}

/* ---- files ---- */

TEST(test_paths_that_are_no_files) {
    static const struct {
        const char *path;
        const char *sentence;
    } rows[] = {
        {"/nonexistent/a.safetensors", "No such file"},
        {"", "the name of the input file is empty"},
        {"/", "not a regular file"},
        {"/dev/null", "not a regular file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        safetensors_file *file = (safetensors_file *)(uintptr_t)1;
        safetensors_error error = {""};
        assert_int_equal(safetensors_open(rows[i].path, &file, &error), -1);
        assert_null(file);
        if (!strstr(error.text, rows[i].sentence))
            fail_msg("%s: refused with \"%s\"", rows[i].path, error.text);
    }
}

TEST_WITH(test_short_files, test_folder_make, test_folder_remove_empty) {
    char path[TEST_PATH];
    test_folder_path(path, "short.safetensors");
    for (size_t size = 0; size < 8; size++) {
        test_file_write(path, "\2\0\0\0\0\0\0", size);
        safetensors_file *file = NULL;
        safetensors_error error = {""};
        assert_int_equal(safetensors_open(path, &file, &error), -1);
        assert_non_null(strstr(error.text, "truncated"));
    }
    unlink(path);
}

TEST_WITH(test_writer_round_trip, test_folder_make, test_folder_remove_empty) {
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    static const unsigned char one = 7;
    const safetensors_tensor tensors[] = {
        {.name = "w \"quoted\" \xc3\xa9",
         .dtype = SAFETENSORS_F32,
         .rank = 2,
         .shape = {2, 3},
         .data = weights,
         .bytes = sizeof weights},
        {.name = "W", .dtype = SAFETENSORS_U8, .rank = 0, .data = &one, .bytes = 1},
        {.name = "w", .dtype = SAFETENSORS_F64, .rank = 1, .shape = {0}, .data = &one, .bytes = 0},
    };
    const safetensors_pair metadata[] = {{"activation", "relu"}, {"note", "line\nbreak"}};
    char path[TEST_PATH];
    test_folder_path(path, "written.safetensors");
    safetensors_error error = {""};
    for (int again = 0; again < 2; again++) /* the second write replaces the first file */
        if (test_safetensors_write(path, tensors, 3, metadata, 2, &error))
            fail_msg("not written: %s", error.text);
    safetensors_file *file = NULL;
    if (safetensors_open(path, &file, &error))
        fail_msg("refused: %s", error.text);
    assert_int_equal(safetensors_count(file), 3);
    const safetensors_tensor *const read = safetensors_find(file, tensors[0].name);
    assert_non_null(read);
    assert_int_equal((uintptr_t)read->data % 8, 0);
    assert_memory_equal(read->data, weights, sizeof weights);
    assert_string_equal(safetensors_metadata(file, "note"), "line\nbreak");
    safetensors_close(file);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777 & ~0022, 0644 & ~0022);
    unlink(path);
}

TEST_WITH(test_writer_refuses, test_folder_make, test_folder_remove_empty) {
    static const unsigned char data[4] = {0};
    static const safetensors_tensor good = {
        .name = "a", .dtype = SAFETENSORS_U8, .rank = 1, .shape = {4}, .data = data, .bytes = 4};
    static const safetensors_pair metadata[] = {{"k", "1"}, {"j", "2"}, {"k", "3"}};
    safetensors_tensor tensors[2] = {good, good};
    safetensors_error error = {""};
    char path[TEST_PATH];
    test_folder_path(path, "refused.safetensors");
    assert_int_equal(test_safetensors_write(path, tensors, 2, NULL, 0, &error), -1);
    assert_string_equal(error.text, "the name \"a\" is already used");
    tensors[1].name = "__metadata__";
    assert_int_equal(test_safetensors_write(path, tensors, 2, NULL, 0, &error), -1);
    assert_string_equal(error.text, "the name \"__metadata__\" is already used");
    assert_int_equal(test_safetensors_write(path, NULL, 0, metadata, 3, &error), -1);
    assert_string_equal(error.text, "the metadata key \"k\" is already used");
    assert_int_equal(access(path, F_OK), -1);
}

/*
 * Tensors are written in pieces, out of order. Pieces that do not fit or are missing are refused.
 */
TEST_WITH(test_writer_in_pieces, test_folder_make, test_folder_remove_empty) {
    const safetensors_tensor tensors[] = {
        {.name = "a", .dtype = SAFETENSORS_U8, .rank = 1, .shape = {4}, .bytes = 4},
        {.name = "b", .dtype = SAFETENSORS_U8, .rank = 1, .shape = {3}, .bytes = 3}};
    static const safetensors_pair pair = {"k", "v"};
    char path[TEST_PATH];
    test_folder_path(path, "pieces.safetensors");
    safetensors_error error = {""};
    tensor_writer *writer;
    assert_int_equal(safetensors_writer_open(path, tensors, 2, &pair, 1, &writer, &error), 0);
    assert_int_equal(tensor_writer_put(writer, 1, 0, "xyz", 3, &error), 0);
    assert_int_equal(tensor_writer_put(writer, 0, 2, "cd", 2, &error), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tensor_writer_put(writer, 0, 3, "ef", 2, &error), -1);
    assert_non_null(strstr(error.text, "2 bytes at byte 3 of tensor 0 lie beyond its 4"));
    assert_int_equal(tensor_writer_put(writer, 0, 0, "ab", 2, &error), 0);
    assert_int_equal(tensor_writer_finish(writer, &error), 0);
    safetensors_file *file = NULL;
    if (safetensors_open(path, &file, &error))
        fail_msg("refused: %s", error.text);
    assert_memory_equal(safetensors_find(file, "a")->data, "abcd", 4);
    assert_memory_equal(safetensors_find(file, "b")->data, "xyz", 3);
    assert_string_equal(safetensors_metadata_at(file, 0).key, "k");
    assert_null(safetensors_metadata_at(file, 1).key);
    safetensors_close(file);
    unlink(path);
    assert_int_equal(safetensors_writer_open(path, tensors, 2, NULL, 0, &writer, &error), 0);
    assert_int_equal(tensor_writer_put(writer, 0, 0, "abcd", 4, &error), 0);
    assert_int_equal(tensor_writer_finish(writer, &error), -1);
    assert_non_null(strstr(error.text, "4 bytes were written of tensors that need 7"));
    assert_int_equal(access(path, F_OK), -1);
}

/*
 * A failed write keeps the existing file and leaves nothing else (test_folder_remove_empty checks).
 */
TEST_WITH(test_writer_is_atomic, test_folder_make, test_folder_remove_empty) {
    safetensors_error error = {""};
    assert_int_equal(test_safetensors_write("/nonexistent/x.safetensors", NULL, 0, NULL, 0, &error),
                     -1);
    assert_non_null(strstr(error.text, "No such file"));
    char path[TEST_PATH];
    test_folder_path(path, "taken");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(test_safetensors_write(path, NULL, 0, NULL, 0, &error), -1);
    assert_non_null(strstr(error.text, "cannot be written"));
    assert_int_equal(rmdir(path), 0);
}

TEST_MAIN(NULL, NULL)
