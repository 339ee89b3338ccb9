#include "bench/tune/tune_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/gemm_sets.h"
#include "common/command/cli_options.h"

enum {
    MAX_WORD = 96,
    MAX_LINE = 4096
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

/* Add one, unless it is there. 0, or the exit code where there are too many or memory is short. */
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

/* The shapes of a set, or of a list where there is none, as cases of a kind. */
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

/* In every dtype and layout. */
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

/* ---- logs ------------------------------------------------------------------------------------------ */

/* Of weights with qa=1 where A is quantized, of f32 with 3xtf32=1 where that is allowed. 0 when it is no case of its own. */
static int read_problem(const char *fields, gemm_case *item) {
    char a[16];
    char b[16];
    char shape[MAX_WORD];
    worker_field(fields, "a", a, sizeof a);
    worker_field(fields, "b", b, sizeof b);
    snprintf(shape, sizeof shape, "%lld*%lldx%lldx%lld",
             (long long)worker_field_integer(fields, "batch", 0),
             (long long)worker_field_integer(fields, "m", 0),
             (long long)worker_field_integer(fields, "n", 0),
             (long long)worker_field_integer(fields, "k", 0));
    item->types = gemm_types_of(tdm_dtype_from_name(a), tdm_dtype_from_name(b),
                                worker_field_integer(fields, "qa", 0) != 0,
                                worker_field_integer(fields, "3xtf32", 0) != 0);
    item->transpose_a = worker_field_integer(fields, "ta", 0) != 0;
    item->transpose_b = worker_field_integer(fields, "tb", 0) != 0;
    return item->types != GEMM_NO_TYPES && gemm_case_parse_shape(shape, item) == 0;
}

static int take_line(const char *command, const char *line, tune_cases *cases) {
    static const char mark[] = "gemm: problem ";
    const char *const fields = strstr(line, mark);
    gemm_case item = {.m = 0};
    if (fields == NULL)
        return 0;
    if (read_problem(fields + sizeof mark - 1, &item))
        return add_case(command, cases, &item);
    cases->left_out++;
    return 0;
}

int tune_cases_read_log(const char *command, const char *path, tune_cases *cases) {
    char line[MAX_LINE];
    int status = CLI_EXIT_OK;
    FILE *const file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL) {
        fprintf(stderr, "%s: cannot read '%s': %s\n", command, path, strerror(errno));
        return CLI_EXIT_FAILED;
    }
    while (status == 0 && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        status = take_line(command, line, cases);
    }
    const int lost = ferror(file);
    if (file != stdin)
        fclose(file);
    if (status == CLI_EXIT_OK && (lost || cases->count == 0)) {
        fprintf(stderr, "%s: '%s' has no shape that can be tuned; see --help\n", command, path);
        return CLI_EXIT_FAILED;
    }
    return status;
}
