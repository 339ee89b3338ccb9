#include "bench/report/report_suite.h"

#include <stddef.h>

/*
 * Each kind of GEMM has several shapes. `tandem predict` predicts from some rows and is tested on
 * the others.
 */
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

/* clang-format off */
#define WORDS(...) {"bench", __VA_ARGS__}

/*
 * Each type of weights is a suite of its own, so that it gets its own share of the time. Users
 * choose devices by their decoding speed.
 */
#define GEMV(dtype)                                                                                \
    WORDS("gemv", "--dtype", dtype, "--roof", "memory", "--rotate", "256M",                        \
          "--shapes", row_products)

/* The loops run on arrays that fit into the caches and on larger ones, for predictions. */
#define LOOPS(size, seconds)                                                                       \
    {"loops", seconds, 0,                                                                          \
     WORDS("memory", "--operation", "copy,scale,add,triad,read,write", "--bytes", size), {NULL}}

/*
 * The sizes are for predictions. They fit into the caches or exceed them. Times of sizes in between
 * are not repeatable.
 */
#define QUANT_WORDS(size)                                                                          \
    WORDS("quant", "--shape", size, "--operation",                                                 \
          "quantize,dynamic,dequantize,requantize,convert,widen", "--blocks", "tensor,row,group")
#define QUANT(size, seconds) {"quant", seconds, 0, QUANT_WORDS(size), {NULL}}

/* relu and add are memory-bound, with one and with two operands. gelu is compute-bound. */
#define ELEMENTWISE(count, seconds)                                                                \
    {"elementwise", seconds, 0,                                                                    \
     WORDS("elementwise", "--operation", "relu,add,gelu", "--dtype", "f32", "--count", count),     \
     {NULL}}

/*
 * The suites run in this order. Those nearest to the device's limits come first. Within a suite,
 * the cases that the page needs most come first. The durations were measured on PoCL on two cores,
 * in full and with --quick.
 */
const report_suite report_suites[] = {
    {"memory", 40, 2,
     WORDS("memory", "--operation", "read,triad,sweep,copy,gather,chase,write,scale,add"),
     WORDS("memory", "--quick", "--operation",
           "read,copy,triad,write,sweep,gather,chase,upload,download", "--host", "pinned")},
    {"gemv", 8, 5, GEMV("f32"),
     WORDS("gemv", "--quick", "--dtype", "f32,w8,w4", "--roof", "memory", "--shapes",
           "1x4096x4096")},
    {"gemv", 8, 0, GEMV("f16"), {NULL}},
    {"gemv", 8, 0, GEMV("w8"), {NULL}},
    {"gemv", 11, 0, GEMV("w4"), {NULL}},
    {"copies", 4, 0,
     WORDS("memory", "--operation", "upload,download,buffer", "--bytes", "64M"), {NULL}},
    {"compute", 8, 7, WORDS("compute"), WORDS("compute", "--quick")},
    {"launch", 2, 2, WORDS("launch"), WORDS("launch", "--quick")},
    {"gemm", 7, 5, WORDS("gemm", "--dtype", "f32", "--shapes", f32_products),
     WORDS("gemm", "--quick", "--dtype", "f32,f16", "--shapes", "512x512x512")},
    {"gemm-16bit", 7, 0, WORDS("gemm", "--dtype", "f16,bf16", "--shapes", products), {NULL}},
    {"gemm-quantized", 9, 7,
     WORDS("gemm", "--dtype", "u8s8,s8,w8,w4", "--layout", "nt", "--shapes", quantized_products),
     WORDS("gemm", "--quick", "--dtype", "u8s8,w8,w4", "--layout", "nt", "--shapes",
           "512x512x512")},
    LOOPS("64K", 1),
    LOOPS("256K", 1),
    LOOPS("1M", 1),
    LOOPS("4M", 1),
    LOOPS("16M", 1),
    LOOPS("64M", 3),
    {"quant", 13, 6, QUANT_WORDS("4096x4096"), WORDS("quant", "--quick")},
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
    {"pool", 9, 2,
     WORDS("pool", "--order", "lifo,random", "--live", "1000,100000", "--trace",
           "inference,bare-inference"),
     WORDS("pool", "--quick", "--live", "1000")},
    {"outofcore", 8, 0, WORDS("outofcore", "--samples", "5", "--shapes", "3072x3072x3072"), {NULL}},
};
/* clang-format on */

const int report_suite_count = sizeof report_suites / sizeof report_suites[0];
