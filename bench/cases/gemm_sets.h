/* The shape sets of `tandem bench gemm` and `gemv`. The table below defines them completely. */
#ifndef TANDEM_BENCH_CASES_GEMM_SETS_H
#define TANDEM_BENCH_CASES_GEMM_SETS_H

#include "bench/cases/gemm_case.h"

#define GEMM_LLM_ROWS "1,2,4,8,16,32,64,128,512,2048,4096"

/*
 * The columns are: name; text of --help; default layouts and packings; row counts, or ""; shapes.
 * Each row count is combined with every shape. Shapes are "NxK" if there are row counts, else
 * "MxNxK".
 */
#define GEMM_SET_LIST(X)                                                                           \
    X("squares", "square matrices of 128 to 4096", "nn", "inside", "",                             \
      "128x128x128,256x256x256,384x384x384,512x512x512,768x768x768,1024x1024x1024,"                \
      "1536x1536x1536,2048x2048x2048,3072x3072x3072,4096x4096x4096")                               \
    X("tails", "1000 and 1023 cubed, which no tile size divides, and 1024 cubed", "nn", "inside",  \
      "", "1024x1024x1024,1000x1000x1000,1023x1023x1023")                                          \
    X("bert", "layers of BERT base and large, M 128, 512, 4096", "nt", "prepacked",                \
      "128,512,4096",                                                                              \
      "768x768,2304x768,3072x768,768x3072,1024x1024,3072x1024,4096x1024,1024x4096")                \
    X("llama8b", "layers of Llama 8B, M 1 to 4096", "nt", "prepacked", GEMM_LLM_ROWS,              \
      "6144x4096,4096x4096,28672x4096,4096x14336,128256x4096")                                     \
    X("llama70b", "layers of Llama 70B, M 1 to 4096", "nt", "prepacked", GEMM_LLM_ROWS,            \
      "10240x8192,8192x8192,57344x8192,8192x28672")                                                \
    X("deepseek", "layers of DeepSeek, M 1 to 4096", "nt", "prepacked", GEMM_LLM_ROWS,             \
      "2112x7168,24576x1536,7168x16384,576x7168")                                                  \
    X("large", "512 to 8192 cubed, weights stored as NxK", "nt", "inside", "",                     \
      "512x512x512,1000x1000x1000,1024x1024x1024,2048x2048x2048,4095x4095x4095,"                   \
      "4096x4096x4096,8192x8192x8192")                                                             \
    X("attention", "attention scores of 96 heads in one batched call", "nt", "inside", "",         \
      "96*512x512x64")                                                                             \
    X("gemv", "M = 1, as in decoding", "nt", "inside", "1",                                        \
      "4096x4096,11008x4096,6144x4096,28672x4096,4096x14336")

typedef struct gemm_set {
    const char *name, *layouts, *packings, *rows, *shapes;
} gemm_set;

/* Lists the names for the option table, separated by '|', with "all" last. */
extern const char gemm_set_choices[];
/* Holds lines for the help: each set and its description. */
extern const char gemm_set_help[];

extern const gemm_set gemm_sets[];
extern const int gemm_set_count;

/* Returns NULL if there is no set of that name. */
const gemm_set *gemm_set_find(const char *name);

/*
 * Replaces a set's own row counts, if it has any, with a list like "1,16,512". Returns -1, and
 * changes nothing, if the list is invalid.
 */
int gemm_set_take_rows(gemm_set *set, const char *list);

/*
 * gemm_set_size counts the shapes of a set. gemm_set_shape stores shape `index` in the case's
 * batch, m, n and k.
 */
int gemm_set_size(const gemm_set *set);
void gemm_set_shape(const gemm_set *set, int index, gemm_case *item);

#endif
