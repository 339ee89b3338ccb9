#include "bench/analysis/gpu_bars.h"

#include <stddef.h>

#define STEP(part, text, step)                                                                     \
    { (part), (text), GPU_BAR_STEP, (step), "", "", "", "", NULL, "", 1, "", 0, 0 }
#define RATIO(part, text, step, begins, other, limit)                                              \
    {                                                                                              \
        (part), (text), GPU_BAR_RATIO, (step), "gemm", (begins), "tandem", (other), NULL, "", 1,   \
            "x", (limit), 0                                                                        \
    }
#define SHARE(text, step, begins, limit)                                                           \
    {                                                                                              \
        "CUDA backend", (text), GPU_BAR_METRIC, (step), (step), (begins), "tandem", "of_copy",     \
            NULL, "", 1, "x", (limit), 0                                                           \
    }
#define DECODE(text, begins)                                                                       \
    {                                                                                              \
        "tensor cores", (text), GPU_BAR_METRIC, "gemm_few", "gemm", (begins), "tandem", "of_read", \
            NULL, "", 1, "x", 0.9, 0                                                               \
    }
#define COST(text, step, begins)                                                                   \
    {                                                                                              \
        "tensor cores", (text), GPU_BAR_METRIC, (step), "gemm", (begins), "tandem-fused",          \
            "epilogue_cost", NULL, "", 100, "%", 3, 1                                              \
    }

#define AGREE(text, share, whole, limit, at_most)                                                  \
    {                                                                                              \
        "comparing devices", (text), GPU_BAR_AGREE, "report_again", "", (whole), "", (share),      \
            NULL, "", 100, "%", (limit), (at_most)                                                 \
    }

static const char cuda[] = "CUDA backend";
static const char tensor[] = "tensor cores";

const gpu_bar gpu_bars[] = {
    STEP(cuda, "the whole suite passes on the CUDA device", "tests_cuda"),
    STEP(cuda, "the whole suite passes on the same GPU's OpenCL", "tests_opencl"),
    STEP(cuda, "compute-sanitizer memcheck reports nothing", "memcheck"),
    STEP(cuda, "compute-sanitizer racecheck reports nothing", "racecheck"),
    RATIO(cuda, "f32 without TF32, 2048 to 8192 cubed: at least 0.9 of cuBLAS", "gemm_f32", "f32 ",
          "cublas", 0.9),
    {cuda, "copy: at least 0.9 of the fastest kernel that copies", GPU_BAR_BEST, "elementwise",
     "elementwise", "", "tandem-copy", "", "memory", "copy ", 1, "x", 0.9, 0},
    SHARE("relu: at least 0.9 of a copy of as many bytes", "elementwise", "relu ", 0.9),
    SHARE("gelu: at least 0.9 of a copy of as many bytes", "elementwise", "gelu ", 0.9),
    SHARE("add: at least 0.9 of a copy of as many bytes", "elementwise", "add ", 0.9),
    SHARE("convert: at least 0.9 of a copy of as many bytes", "elementwise", "convert ", 0.9),
    SHARE("quantize: at least 0.9 of a copy of as many bytes", "quant", "quantize ", 0.9),
    SHARE("dequantize: at least 0.9 of a copy of as many bytes", "quant", "dequantize ", 0.9),
    {cuda, "a launch: at most 1 us beyond a bare cuLaunchKernel", GPU_BAR_METRIC, "launch",
     "launch", "kernel", "tandem", "extra_s", NULL, "", 1e6, "us", 1, 1},
    {cuda, "f32 by OpenCL: at least 0.85 of CUDA's on the same GPU", GPU_BAR_ACROSS,
     "opencl_gemm_f32", "gemm", "f32 ", "tandem", "", "gemm_f32", "f32 ", 1, "x", 0.85, 0},
    RATIO(tensor, "f16, 4096 and 8192 cubed: at least 0.95 of cuBLASLt's best", "gemm_f16", "f16 ",
          "cublaslt", 0.95),
    RATIO(tensor, "bf16, 4096 and 8192 cubed: at least 0.95 of cuBLASLt's best", "gemm_f16",
          "bf16 ", "cublaslt", 0.95),
    {tensor, "mma.sync, 8192 cubed: at least 450 TFLOP/s", GPU_BAR_MEMBER, "gemm_mma", "gemm",
     "bf16 ", "tandem", "gflops", NULL, "", 1e-3, "TFLOP/s", 450, 0},
    {tensor, "layers of language models, M from 512: mean at least 0.95 of cuBLASLt's best",
     GPU_BAR_MEAN, "gemm_layers", "gemm", "f16 ", "tandem", "cublaslt", NULL, "", 1, "x", 0.95, 0},
    RATIO(tensor, "the same: none below 0.8", "gemm_layers", "f16 ", "cublaslt", 0.8),
    {tensor, "s8, 8192 cubed: at least 1.6 times own bf16", GPU_BAR_ACROSS, "gemm_s8", "gemm",
     "s8 ", "tandem", "", "gemm_f16", "bf16 ", 1, "x", 1.6, 0},
    RATIO(tensor, "s8, 8192 cubed: at least cuBLASLt's", "gemm_s8", "s8 ", "cublaslt", 1.0),
    DECODE("weights of 8 bits, M from 1 to 8: at least 0.9 of reading as many bytes", "f16w8 "),
    DECODE("weights of 4 bits, M from 1 to 8: at least 0.9 of reading as many bytes", "f16w4 "),
    COST("f16 with bias, residual and gelu, 4096 cubed: at most 3 % more than without",
         "gemm_epilogue", "f16 "),
    COST("bf16 with bias, residual and gelu, 4096 cubed: at most 3 % more than without",
         "gemm_epilogue", "bf16 "),
    COST("s8 requantized, 4096 cubed: at most 3 % more than its sums", "gemm_epilogue_s8",
         "s8s8s8 "),
    STEP(tensor, "integers to the bit, floats within their bounds (among the tests)", "tests_cuda"),
    AGREE("two reports agree within 3 % on at least 95 % of rows", "cases_within_margin",
          "cases_compared", 95, 0),
    AGREE("at most 10 % of a report's rows are marked noisy", "noisy_rows", "rows", 10, 1),
};

const int gpu_bar_count = sizeof gpu_bars / sizeof gpu_bars[0];
