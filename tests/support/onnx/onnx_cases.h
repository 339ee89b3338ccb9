/*
 * Node cases of the ONNX backend tests, read from tests/vectors/onnx_cases.bin. The script
 * make_onnx_cases.py describes the file.
 */
#ifndef TANDEM_TESTS_SUPPORT_ONNX_ONNX_CASES_H
#define TANDEM_TESTS_SUPPORT_ONNX_ONNX_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tandem/tensor.h>

enum {
    ONNX_OPERANDS = 10, /* most inputs or outputs of a node */
    ONNX_ATTRIBUTES = 8,
    ONNX_NUMBERS = 8, /* most numbers of an attribute */
    ONNX_TEXT = 96
};

typedef struct onnx_attribute {
    char name[ONNX_TEXT];
    int count; /* of the numbers */
    double numbers[ONNX_NUMBERS];
    char text[ONNX_TEXT];
} onnx_attribute;

typedef struct onnx_tensor {
    tdm_dtype dtype; /* TDM_DTYPE_NONE: the operand is absent */
    int rank;
    int64_t shape[TDM_MAX_RANK];
    size_t bytes;
    void *data; /* row-major */
} onnx_tensor;

typedef struct onnx_case {
    char name[ONNX_TEXT];
    char op[ONNX_TEXT];
    char reason[ONNX_TEXT]; /* not empty: the file has no data for this reason */
    int attribute_count, input_count, output_count;
    onnx_attribute attributes[ONNX_ATTRIBUTES];
    onnx_tensor inputs[ONNX_OPERANDS], outputs[ONNX_OPERANDS];
} onnx_case;

typedef struct onnx_file {
    char version[ONNX_TEXT]; /* of the Python package */
    int package_cases;       /* all node cases of the package */
    int single_cases;        /* those whose model is one node */
    int count;
    onnx_case *cases;
} onnx_file;

/* Reads the file; fails the running test if it is damaged. Release it with onnx_file_release. */
void onnx_file_read(onnx_file *file);
void onnx_file_release(onnx_file *file);

/* Returns the attribute, or NULL. */
const onnx_attribute *onnx_attribute_find(const onnx_case *c, const char *name);
/* Returns the first number of the attribute, or `otherwise` if there is none. */
double onnx_number(const onnx_case *c, const char *name, double otherwise);
int onnx_int(const onnx_case *c, const char *name, int otherwise);

bool onnx_is_present(const onnx_tensor *tensor);
int64_t onnx_elements(const onnx_tensor *tensor);
/* Returns an element of any dtype but s4 as a number. */
double onnx_element(const onnx_tensor *tensor, int64_t index);

#endif
