#include "bench/report/report_suites.h"

#include <stddef.h>

/* Of several forms each, so that predictions have something to be fitted to and something to be tried on. */
#define PRODUCTS                                                                                   \
    "256x256x256,384x1024x384,64x1024x1024,1024x64x1024,768x768x768,512x512x512,1024x1024x1024,"   \
    "2048x2048x2048,128x768x3072,128x3072x768"
static const char products[] = PRODUCTS;
static const char f32_products[] = PRODUCTS ",4096x4096x4096";
static const char quantized_products[] =
    "256x768x768,384x1024x512,64x1024x1024,512x512x512,1024x1024x1024,2048x2048x2048,"
    "128x4096x4096";
static const char row_products[] =
    "1x2048x2048,1x1024x8192,1x4096x4096,1x11008x4096,1x4096x11008,1x2048x14336,2x4096x4096,"
    "4x2048x4096,8x4096x4096";

/* Each type of weights has a share of the time: what is decoded with is what devices are chosen by. */
#define GEMV_WORDS(dtype)                                                                          \
    {                                                                                              \
        "bench", "gemv", "--dtype", dtype, "--roof", "memory", "--rotate", "256M", "--shapes",     \
            row_products                                                                           \
    }

/* Loops within the caches and beyond, for predictions. */
#define LOOPS(size, seconds)                                                                       \
    {                                                                                              \
        "loops", seconds, 0, 0,                                                                    \
            {"bench",     "memory",  "--operation", "copy,scale,add,triad,read,write",             \
             "--setting", "default", "--bytes",     size},                                         \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }

/* Of several sizes, for predictions: within the caches and beyond, not between, where neither repeats itself. */
#define QUANT(size, seconds)                                                                       \
    {                                                                                              \
        "quant", seconds, 0,                                                                       \
            0, {"bench",       "quant",                                                            \
                "--shape",     size,                                                               \
                "--operation", "quantize,dynamic,dequantize,requantize,convert,widen",             \
                "--blocks",    "tensor,row,group"},                                                \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }

/* The same of operations that are all memory, of two operands, and all arithmetic. */
#define ELEMENTWISE(count, seconds)                                                                \
    {                                                                                              \
        "elementwise", seconds, 0, 0, {"bench",   "elementwise", "--operation", "relu,add,gelu",   \
                                       "--dtype", "f32",         "--count",     count},            \
        {                                                                                          \
            NULL                                                                                   \
        }                                                                                          \
    }

/*
 * In the order in which they run; what is nearest to the limits first, and within a suite what the page needs most. The seconds are
 * those on PoCL on two cores.
 */
const report_suite report_suites[] = {
    {"memory",
     40,
     2,
     0,
     {"bench", "memory", "--operation",
      "read,triad,sweep,copy,gather,chase,write,scale,add,strided"},
     {"bench", "memory", "--quick", "--operation",
      "read,copy,triad,write,sweep,gather,chase,upload,download", "--host", "pinned", "--setting",
      "default"}},
    {"gemv",
     8,
     5,
     0,
     GEMV_WORDS("f32"),
     {"bench", "gemv", "--quick", "--dtype", "f32,w8,w4", "--roof", "memory", "--shapes",
      "1x4096x4096"}},
    {"gemv", 8, 0, 0, GEMV_WORDS("f16"), {NULL}},
    {"gemv", 8, 0, 0, GEMV_WORDS("w8"), {NULL}},
    {"gemv", 11, 0, 0, GEMV_WORDS("w4"), {NULL}},
    {"copies",
     4,
     0,
     0,
     {"bench", "memory", "--operation", "upload,download,both,buffer", "--bytes", "64M"},
     {NULL}},
    {"compute", 8, 7, 0, {"bench", "compute"}, {"bench", "compute", "--quick"}},
    {"launch", 2, 2, 0, {"bench", "launch"}, {"bench", "launch", "--quick"}},
    {"gemm",
     7,
     5,
     0,
     {"bench", "gemm", "--dtype", "f32", "--shapes", f32_products},
     {"bench", "gemm", "--quick", "--dtype", "f32,f16", "--shapes", "512x512x512"}},
    {"gemm-16bit", 7, 0, 0, {"bench", "gemm", "--dtype", "f16,bf16", "--shapes", products}, {NULL}},
    {"gemm-quantized",
     9,
     7,
     0,
     {"bench", "gemm", "--dtype", "u8s8,s8,w8,w4", "--layout", "nt", "--shapes",
      quantized_products},
     {"bench", "gemm", "--quick", "--dtype", "u8s8,w8,w4", "--layout", "nt", "--shapes",
      "512x512x512"}},
    LOOPS("64K", 1),
    LOOPS("256K", 1),
    LOOPS("1M", 1),
    LOOPS("4M", 1),
    LOOPS("16M", 1),
    LOOPS("64M", 3),
    {"quant",
     13,
     6,
     0,
     {"bench", "quant", "--shape", "4096x4096", "--operation",
      "quantize,dynamic,dequantize,requantize,convert,widen", "--blocks", "tensor,row,group"},
     {"bench", "quant", "--quick"}},
    QUANT("128x4096", 1),
    QUANT("256x4096", 1),
    QUANT("512x4096", 2),
    QUANT("1024x4096", 3),
    QUANT("6144x4096", 10),
    ELEMENTWISE("524288", 1),
    ELEMENTWISE("1048576", 1),
    ELEMENTWISE("1572864", 1),
    ELEMENTWISE("12582912", 3),
    ELEMENTWISE("16777216", 4),
    {"pool",
     9,
     2,
     0,
     {"bench", "pool", "--order", "lifo,random", "--live", "1000,100000", "--trace",
      "inference,training,bare-inference,bare-training"},
     {"bench", "pool", "--quick", "--live", "1000"}},
    {"outofcore",
     8,
     0,
     0,
     {"bench", "outofcore", "--samples", "5", "--shapes", "3072x3072x3072"},
     {NULL}},
    {"sustained",
     17,
     0,
     1,
     {"bench", "compute", "--operation", "fma,dot,read", "--dtype", "f32,s8"},
     {NULL}},
};

const int report_suite_count = sizeof report_suites / sizeof report_suites[0];

_Static_assert(sizeof report_suites / sizeof report_suites[0] <= REPORT_MAX_SUITES,
               "REPORT_MAX_SUITES is too small");
