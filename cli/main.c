/* The program `tandem`. Each command is a row of a table here. */
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/workers/worker_tandem.h"
#include "cli/help/help_commands.h"
#include "common/command/cli_options.h"
#include "common/command/standard_streams.h"

static int bench_command(int argc, char **argv) {
    static const cli_entry suites[] = {
        {"gemm", "matrix multiplication, compared with OpenBLAS, oneDNN and CLBlast",
         bench_gemm_command},
        {"gemv", "a vector times weights, compared with the same libraries", bench_gemv_command},
        {"memory", "bandwidth and latency of memory, and copies within, to and from a device",
         bench_memory_command},
        {"quant", "quantization and conversion, compared with plain memory traffic",
         bench_quant_command},
        {"elementwise", "activations, sums and conversions, compared with plain memory traffic",
         bench_elementwise_command},
        {"nn", "attention, normalization and other operations of neural networks",
         bench_nn_command},
        {"compute", "the device's peak arithmetic rates, for rooflines", bench_compute_command},
        {"pool", "cost of allocations, and memory that the pool reserves for programs",
         bench_pool_command},
        {"outofcore", "GEMM with operands that do not fit into the device's memory",
         bench_outofcore_command},
        {"launch", "overhead of a library call beyond the launch", bench_launch_command},
    };
    return cli_dispatch("tandem bench", "measure speed, every result verified", suites,
                        sizeof suites / sizeof suites[0], argc, argv);
}

static int run_program(int argc, char **argv);

static int completion_command(int argc, char **argv) {
    return completion_run(run_program, argc, argv);
}

static int manual_command(int argc, char **argv) {
    return manual_run(run_program, argc, argv);
}

static int run_program(int argc, char **argv) {
    /* A row without a summary is not listed. */
    static const cli_entry commands[] = {
        {"devices", "list the devices, and why others are missing", devices_command},
        {"bench",
         "measure speed: gemm, gemv, memory, quant, elementwise, nn, compute, pool, outofcore, "
         "launch",
         bench_command},
        {"report", "measure a device with all suites: one results file and one HTML page",
         report_command},
        {"compare", "compare the results of several devices", compare_command},
        {"predict", "predict the time of a workload and what limits it", predict_command},
        {"tune", "find the fastest kernels for a device, for the library to use", tune_command},
        {"choices", "show the kernels that the library chooses for GEMM on a GPU, without that GPU",
         choices_command},
        {"quantize", "write a checkpoint with quantized weights", quantize_command},
        {"infer", "run a classifier on every device and check its answers", infer_command},
        {"trace", "replay a memory trace of a program on the pool", trace_command},
        {"monitor", "show the memory pools of running processes, live", monitor_command},
        {"completion", "print the script that completes commands and options in a shell",
         completion_command},
        {"_manual", NULL, manual_command},
        {"_worker", NULL, worker_command},
    };
    return cli_dispatch("tandem", "tensors, GEMM and quantization on OpenCL and CUDA devices",
                        commands, sizeof commands / sizeof commands[0], argc, argv);
}

int main(int argc, char **argv) {
    standard_descriptors_occupy();
    command_line_keep(argc, argv);
    const int code = run_program(argc, argv);
    /* A worker's standard output is the protocol's pipe, which its parent watches. */
    const int is_worker = argc > 1 && strcmp(argv[1], "_worker") == 0;
    return is_worker ? code : standard_output_finish(stdout, code);
}
