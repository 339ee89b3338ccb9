#include "bench/cases/gemm_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command/cli_options.h"

const gemm_set gemm_sets[] = {
    {
        .name = "squares",
        .about = "square matrices",
        .layouts = "nn",
        .packings = "inside",
        .shapes = {"128x128x128", "256x256x256", "384x384x384", "512x512x512", "768x768x768",
                   "1024x1024x1024", "1536x1536x1536", "2048x2048x2048", "3072x3072x3072",
                   "4096x4096x4096"},
    },
    {
        .name = "tails",
        .about = "sizes that no tile divides, beside one that all do",
        .layouts = "nn",
        .packings = "inside",
        .first_is_base = 1,
        .shapes = {"1024x1024x1024", "1000x1000x1000", "1023x1023x1023"},
    },
    {
        .name = "bert",
        .about = "layers of BERT base and large",
        .layouts = "nt",
        .packings = "prepacked",
        .rows = {128, 512, 4096},
        .shapes = {"768x768", "2304x768", "3072x768", "768x3072", "1024x1024", "3072x1024",
                   "4096x1024", "1024x4096"},
    },
    {
        .name = "llama8b",
        .about = "layers of Llama 8B",
        .layouts = "nt",
        .packings = "prepacked",
        .rows = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048, 4096},
        .shapes = {"6144x4096", "4096x4096", "28672x4096", "4096x14336", "128256x4096"},
    },
    {
        .name = "llama70b",
        .about = "layers of Llama 70B",
        .layouts = "nt",
        .packings = "prepacked",
        .rows = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048, 4096},
        .shapes = {"10240x8192", "8192x8192", "57344x8192", "8192x28672"},
    },
    {
        .name = "deepseek",
        .about = "layers of DeepSeek",
        .layouts = "nt",
        .packings = "prepacked",
        .rows = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048, 4096},
        .shapes = {"2112x7168", "24576x1536", "7168x16384", "576x7168"},
    },
    {
        .name = "large",
        .about = "large square matrices, weights as applications store them",
        .layouts = "nt",
        .packings = "inside",
        .shapes = {"512x512x512", "1000x1000x1000", "1024x1024x1024", "2048x2048x2048",
                   "4095x4095x4095", "4096x4096x4096", "8192x8192x8192"},
    },
    {
        .name = "attention",
        .about = "scores of 96 heads in one batched call",
        .layouts = "nt",
        .packings = "inside",
        .shapes = {"96*512x512x64"},
    },
    {
        .name = "gemv",
        .about = "one row, as in decoding",
        .layouts = "nt",
        .packings = "inside",
        .rows = {1},
        .shapes = {"4096x4096", "11008x4096", "6144x4096", "28672x4096", "4096x14336"},
    },
};

const int gemm_set_count = (int)(sizeof gemm_sets / sizeof gemm_sets[0]);

const char gemm_set_choices[] =
    "squares|tails|bert|llama8b|llama70b|deepseek|large|attention|gemv|all";

const char gemm_set_help[] =
    "Shape sets; weights (N x K) are stored as applications do, layout nt:\n"
    "  squares    128 256 384 512 768 1024 1536 2048 3072 4096 cubed\n"
    "  tails      1000 and 1023 cubed, beside 1024 cubed\n"
    "  bert       M 128 512 4096; N x K 768x768 2304x768 3072x768 768x3072\n"
    "             1024x1024 3072x1024 4096x1024 1024x4096; prepacked\n"
    "  llama8b    M 1 2 4 8 16 32 64 128 512 2048 4096; N x K 6144x4096\n"
    "             4096x4096 28672x4096 4096x14336 128256x4096; prepacked\n"
    "  llama70b   M 1 2 4 8 16 32 64 128 512 2048 4096; N x K 10240x8192\n"
    "             8192x8192 57344x8192 8192x28672; prepacked\n"
    "  deepseek   M 1 2 4 8 16 32 64 128 512 2048 4096; N x K 2112x7168\n"
    "             24576x1536 7168x16384 576x7168; prepacked\n"
    "  large      512 1000 1024 2048 4095 4096 8192 cubed, layout nt\n"
    "  attention  96*512x512x64, one batched call\n"
    "  gemv       M 1; N x K 4096x4096 11008x4096 6144x4096 28672x4096 4096x14336";

const gemm_set *gemm_set_find(const char *name) {
    for (int i = 0; i < gemm_set_count; i++) {
        if (strcmp(gemm_sets[i].name, name) == 0)
            return &gemm_sets[i];
    }
    return NULL;
}

static int count_rows(const gemm_set *set) {
    int count = 0;
    while (count < GEMM_SET_MAX_ROWS && set->rows[count] != 0)
        count++;
    return count;
}

static int count_shapes(const gemm_set *set) {
    int count = 0;
    while (count < GEMM_SET_MAX_SHAPES && set->shapes[count] != NULL)
        count++;
    return count;
}

int gemm_set_size(const gemm_set *set) {
    const int rows = count_rows(set);
    return count_shapes(set) * (rows > 0 ? rows : 1);
}

int gemm_set_take_rows(gemm_set *set, const char *list) {
    int count = 0, found;
    char word[24];
    int64_t rows[GEMM_SET_MAX_ROWS] = {0};
    while ((found = cli_next_word(&list, ',', word, sizeof word)) != 0) {
        char *end = NULL;
        const long long value = found > 0 ? strtoll(word, &end, 10) : 0;
        if (count + 1 == GEMM_SET_MAX_ROWS || value < 1 || value > INT32_MAX || *end != '\0')
            return -1;
        rows[count++] = value;
    }
    if (set->rows[0] != 0)
        memcpy(set->rows, rows, sizeof rows);
    return 0;
}

void gemm_set_shape(const gemm_set *set, int index, gemm_case *item) {
    char shape[64];
    const int rows = count_rows(set);
    if (rows > 0)
        snprintf(shape, sizeof shape, "%lldx%s", (long long)set->rows[index % rows],
                 set->shapes[index / rows]);
    else
        snprintf(shape, sizeof shape, "%s", set->shapes[index]);
    gemm_case_parse_shape(shape, item);
}
