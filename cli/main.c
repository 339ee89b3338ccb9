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
        {"gemm", "matrix multiplication beside OpenBLAS, oneDNN and CLBlast", bench_gemm_command},
        {"gemv", "a vector times weights, beside the same", bench_gemv_command},
        {"memory", "copies within a device and to and from it", bench_memory_command},
        {"quant", "quantization and conversion beside their traffic", bench_quant_command},
        {"elementwise", "activations, sums and conversions beside their traffic",
         bench_elementwise_command},
        {"compute", "the device's limits, for rooflines", bench_compute_command},
        {"pool", "what allocating costs, and what programs make the pool reserve",
         bench_pool_command},
        {"outofcore", "products that do not fit into the device's memory", bench_outofcore_command},
        {"launch", "what a call costs beyond the launch", bench_launch_command},
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
         "measure speed: gemm, gemv, memory, quant, elementwise, compute, pool, outofcore, launch",
         bench_command},
        {"report", "measure a device from all sides: one results file and one page",
         report_command},
        {"compare", "put results of several devices side by side", compare_command},
        {"predict", "predict the time of a workload and what limits it", predict_command},
        {"tune", "find the fastest kernels for a device, for the library to use", tune_command},
        {"choices", "show which kernels a GPU's products get, without that GPU", choices_command},
        {"quantize", "write a checkpoint with its weights in fewer bits", quantize_command},
        {"infer", "run a classifier on every device and check its answers", infer_command},
        {"trace", "replay a trace of a program's memory over the pool", trace_command},
        {"monitor", "show the memory pools of running processes, live", monitor_command},
        {"completion", "print what a shell needs to complete commands", completion_command},
        {"_manual", NULL, manual_command},
        {"_worker", NULL, worker_command},
    };
    return cli_dispatch("tandem", "one tensor API on any OpenCL device", commands,
                        sizeof commands / sizeof commands[0], argc, argv);
}

int main(int argc, char **argv) {
    standard_descriptors_occupy();
    command_line_keep(argc, argv);
    const int code = run_program(argc, argv);
    /* A worker's standard output is the protocol's pipe, which its parent watches. */
    const int is_worker = argc > 1 && strcmp(argv[1], "_worker") == 0;
    return is_worker ? code : standard_output_finish(stdout, code);
}
