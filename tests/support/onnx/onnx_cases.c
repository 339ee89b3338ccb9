#include "tests/support/onnx/onnx_cases.h"

#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_tree.h"
#include "tests/support/unit.h"

typedef struct reader {
    const unsigned char *bytes;
    size_t size, offset;
} reader;

static const unsigned char *read_bytes(reader *r, size_t count) {
    if (count > r->size - r->offset)
        fail_msg("onnx_cases.bin ends at byte %zu", r->size);
    r->offset += count;
    return r->bytes + r->offset - count;
}

static uint64_t read_number(reader *r, int bytes) {
    const unsigned char *const from = read_bytes(r, (size_t)bytes);
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

/* Reads a count and fails if it is above `most`. */
static int read_count(reader *r, int bytes, int most) {
    const uint64_t count = read_number(r, bytes);
    if (count > (uint64_t)most)
        fail_msg("onnx_cases.bin: a count of %llu before byte %zu", (unsigned long long)count,
                 r->offset);
    return (int)count;
}

static void read_text(reader *r, char text[ONNX_TEXT]) {
    const int length = read_count(r, 2, ONNX_TEXT - 1);
    memcpy(text, read_bytes(r, (size_t)length), (size_t)length);
    text[length] = '\0';
}

static void read_attribute(reader *r, onnx_attribute *a) {
    read_text(r, a->name);
    const int kind = read_count(r, 1, 3);
    if (kind == 3) {
        read_text(r, a->text);
        return;
    }
    a->count = read_count(r, 2, ONNX_NUMBERS);
    for (int i = 0; i < a->count; i++) {
        const uint64_t bits = read_number(r, 8);
        if (kind == 1)
            memcpy(&a->numbers[i], &bits, sizeof bits);
        else
            a->numbers[i] = (double)(int64_t)bits;
    }
}

/* Returns the dtype of a data type of ONNX's TensorProto. */
static tdm_dtype dtype_of(int type) {
    static const tdm_dtype dtypes[] = {
        [1] = TDM_F32,  [2] = TDM_U8,   [3] = TDM_S8,    [6] = TDM_S32, [7] = TDM_S64,
        [9] = TDM_BOOL, [10] = TDM_F16, [16] = TDM_BF16, [22] = TDM_S4};
    return type < (int)(sizeof dtypes / sizeof dtypes[0]) ? dtypes[type] : TDM_DTYPE_NONE;
}

static void read_tensor(reader *r, onnx_tensor *t) {
    const int type = read_count(r, 1, 255);
    if (type == 0)
        return;
    t->dtype = dtype_of(type);
    if (t->dtype == TDM_DTYPE_NONE)
        fail_msg("onnx_cases.bin: data type %d", type);
    t->rank = read_count(r, 1, TDM_MAX_RANK);
    for (int d = 0; d < t->rank; d++)
        t->shape[d] = (int64_t)read_number(r, 4);
    t->bytes = (size_t)read_number(r, 4);
    size_t expected;
    assert_int_equal(tdm_dtype_bytes(t->dtype, onnx_elements(t), &expected), TDM_OK);
    assert_int_equal(t->bytes, expected);
    t->data = malloc(t->bytes + 1); /* some are empty */
    assert_non_null(t->data);
    memcpy(t->data, read_bytes(r, t->bytes), t->bytes);
}

static void read_case(reader *r, onnx_case *c) {
    read_text(r, c->name);
    read_text(r, c->op);
    read_text(r, c->reason);
    if (c->reason[0] != '\0')
        return;
    read_number(r, 2); /* the version of the operator set */
    c->attribute_count = read_count(r, 1, ONNX_ATTRIBUTES);
    for (int i = 0; i < c->attribute_count; i++)
        read_attribute(r, &c->attributes[i]);
    c->input_count = read_count(r, 1, ONNX_OPERANDS);
    for (int i = 0; i < c->input_count; i++)
        read_tensor(r, &c->inputs[i]);
    c->output_count = read_count(r, 1, ONNX_OPERANDS);
    for (int i = 0; i < c->output_count; i++)
        read_tensor(r, &c->outputs[i]);
}

void onnx_file_read(onnx_file *file) {
    char path[TEST_TREE_PATH];
    reader r = {0};
    unsigned char *const bytes =
        test_file_read(test_tree_source(path, "tests/vectors/onnx_cases.bin"), &r.size);
    r.bytes = bytes;
    assert_memory_equal(read_bytes(&r, 8), "ONNXTDM1", 8);
    read_text(&r, file->version);
    file->package_cases = read_count(&r, 4, 100000);
    file->single_cases = read_count(&r, 4, 100000);
    file->count = read_count(&r, 4, 100000);
    file->cases = calloc((size_t)file->count, sizeof *file->cases);
    assert_non_null(file->cases);
    for (int i = 0; i < file->count; i++)
        read_case(&r, &file->cases[i]);
    assert_int_equal(r.offset, r.size);
    free(bytes);
}

void onnx_file_release(onnx_file *file) {
    for (int i = 0; i < file->count; i++)
        for (int k = 0; k < ONNX_OPERANDS; k++) {
            free(file->cases[i].inputs[k].data);
            free(file->cases[i].outputs[k].data);
        }
    free(file->cases);
}

const onnx_attribute *onnx_attribute_find(const onnx_case *c, const char *name) {
    for (int i = 0; i < c->attribute_count; i++)
        if (strcmp(c->attributes[i].name, name) == 0)
            return &c->attributes[i];
    return NULL;
}

double onnx_number(const onnx_case *c, const char *name, double otherwise) {
    const onnx_attribute *const a = onnx_attribute_find(c, name);
    return a != NULL && a->count > 0 ? a->numbers[0] : otherwise;
}

int onnx_int(const onnx_case *c, const char *name, int otherwise) {
    return (int)onnx_number(c, name, otherwise);
}

bool onnx_is_present(const onnx_tensor *tensor) {
    return tensor->dtype != TDM_DTYPE_NONE;
}

int64_t onnx_elements(const onnx_tensor *tensor) {
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++)
        elements *= tensor->shape[d];
    return elements;
}

double onnx_element(const onnx_tensor *tensor, int64_t index) {
    return tdm_number_get(tensor->dtype, tensor->data, (size_t)index);
}
