#include "bench/tune/tune_run.h"

#include <stdlib.h>

#include "bench/cases/gemm_sets.h"
#include "common/command/cli_options.h"

enum {
    MAX_WORD = 96
};

const char tune_default_shapes[] =
    "128x128x128,256x256x256,512x512x512,1024x1024x1024,2048x2048x2048,1000x1000x1000,"
    "128x768x768,128x3072x768,128x768x3072,512x768x768,512x3072x768,512x768x3072,"
    "1x4096x4096,16x4096x4096,64x4096x4096,96*512x512x64";

const char tune_dtype_choices[] = "f32|3xtf32|f16|bf16|s8|u8s8|w8|w4|f16w8|f16w4|w8a8|w4a8";

static int same_case(const gemm_case *a, const gemm_case *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k &&
           gemm_case_batch(a) == gemm_case_batch(b) && a->types == b->types &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b;
}

/* Adds a case if it is new. Returns 0, or the exit code if there are too many or no memory. */
static int add_case(const char *command, tune_cases *cases, const gemm_case *item) {
    for (int i = 0; i < cases->count; i++) {
        if (same_case(&cases->items[i], item))
            return 0;
    }
    if (cases->items == NULL)
        cases->items = calloc(TUNE_MAX_CASES, sizeof *cases->items);
    if (cases->items == NULL || cases->count == TUNE_MAX_CASES)
        return cli_refuse(command, "more than %d shapes", TUNE_MAX_CASES);
    cases->items[cases->count++] = *item;
    return CLI_EXIT_OK;
}

void tune_cases_release(tune_cases *cases) {
    free(cases->items);
    *cases = (tune_cases){.items = NULL};
}

/* Adds the shapes of a set, or of a list if `set` is NULL, as cases of a kind. */
static int add_shapes(const char *command, const gemm_set *set, const char *shapes,
                      const gemm_case *kind, tune_cases *cases) {
    char word[MAX_WORD];
    gemm_case item = *kind;
    int found;
    int code = CLI_EXIT_OK;
    for (int i = 0; set != NULL && i < gemm_set_size(set) && code == CLI_EXIT_OK; i++) {
        gemm_set_shape(set, i, &item);
        code = add_case(command, cases, &item);
    }
    while (set == NULL && code == CLI_EXIT_OK &&
           (found = cli_next_word(&shapes, ',', word, sizeof word)) != 0) {
        if (found < 0 || gemm_case_parse_shape(word, &item) != 0)
            return cli_refuse(command, "--shapes does not take '%s': %s", found < 0 ? "" : word,
                              gemm_case_shape_rule);
        code = add_case(command, cases, &item);
    }
    return code;
}

/* Adds the shapes in every dtype and layout. */
static int add_kinds(const char *command, const gemm_set *set, const char *shapes,
                     const char *dtypes, const char *layouts, tune_cases *cases) {
    char word[16];
    gemm_case kind = {.m = 0};
    int code = CLI_EXIT_OK;
    while (code == CLI_EXIT_OK && cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
        const char *rest = layouts;
        kind.types = gemm_types_find(word);
        while (code == CLI_EXIT_OK && cli_next_word(&rest, ',', word, sizeof word) == 1) {
            kind.transpose_a = word[0] == 't';
            kind.transpose_b = word[1] == 't';
            code = add_shapes(command, set, shapes, &kind, cases);
        }
    }
    return code;
}

int tune_cases_add(const char *command, const char *sets, const char *shapes, const char *dtypes,
                   const char *layouts, tune_cases *cases) {
    int code = CLI_EXIT_OK;
    if (sets == NULL)
        return add_kinds(command, NULL, shapes, dtypes, layouts == NULL ? "nn" : layouts, cases);
    for (int i = 0; i < gemm_set_count && code == CLI_EXIT_OK; i++) {
        const gemm_set *const set = &gemm_sets[i];
        if (cli_list_has(sets, "all") || cli_list_has(sets, set->name))
            code = add_kinds(command, set, NULL, dtypes, layouts == NULL ? set->layouts : layouts,
                             cases);
    }
    return code;
}
