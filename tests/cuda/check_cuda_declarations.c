/*
 * Fails if a constant or a layout that the CUDA backend declares differs from the toolkit's header.
 * Also fails if the backend requires a function that is newer than its oldest supported driver. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backend_cuda/cuda_calls.h"
#include "tests/cuda/cuda_declarations.h"

static int compare_tables(void) {
    int bad = 0, rows = 0;
    for (; cuda_own_declarations[rows].what && cuda_toolkit_declarations[rows].what; rows++) {
        const cuda_declaration own = cuda_own_declarations[rows],
                               toolkit = cuda_toolkit_declarations[rows];
        if (strcmp(own.what, toolkit.what) == 0 && own.value == toolkit.value)
            continue;
        fprintf(stderr, "%s is %ld in the backend, %s is %ld in the toolkit\n", own.what, own.value,
                toolkit.what, toolkit.value);
        bad++;
    }
    printf("%d declarations compared\n", rows);
    return bad + (rows < 200);
}

static int check_ages(void) {
    enum {
        OPTIONAL,
        REQUIRED
    };
    static const struct {
        const char *name;
        int need, since;
    } functions[] = {
#define CUDA_FUNCTION(name, symbol, need, since, parameters) {#symbol, need, since},
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (functions[i].need == REQUIRED && functions[i].since > CUDA_MIN_VERSION) {
            fprintf(stderr, "%s is required, but of CUDA %d\n", functions[i].name,
                    functions[i].since);
            bad++;
        }
    return bad;
}

int main(void) {
    return compare_tables() + check_ages() != 0;
}
