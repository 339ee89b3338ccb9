/* This header declares the two tables that check_cuda_declarations compares. */
#ifndef TANDEM_TESTS_CUDA_CUDA_DECLARATIONS_H
#define TANDEM_TESTS_CUDA_CUDA_DECLARATIONS_H

typedef struct cuda_declaration {
    const char *what; /* NULL behind the last row */
    long value;
} cuda_declaration;

extern const cuda_declaration cuda_own_declarations[];
extern const cuda_declaration cuda_toolkit_declarations[];

#endif
