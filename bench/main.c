/* The program `tandem`. A command is a row here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_commands.h"
#include "bench/cli_options.h"
#include "bench/infer_main.h"
#include "bench/worker_tandem.h"

static int bench_command(int argc, char **argv) {
    static const cli_entry suites[] = {
        {"gemm", "matrix multiplication beside OpenBLAS, oneDNN and CLBlast", bench_gemm_command},
        {"memory", "copies within a device and to and from it", bench_memory_command},
    };
    return cli_dispatch("tandem bench", "measure speed, every result verified", suites,
                        sizeof suites / sizeof suites[0], argc, argv);
}

/* A result that could not be written is a failure; a reader that went away (EPIPE) wanted no more. */
static int with_output_written(int exit_code) {
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE)
        return exit_code;
    fprintf(stderr, "tandem: cannot write standard output: %s\n", strerror(errno));
    return exit_code != CLI_EXIT_OK ? exit_code : CLI_EXIT_FAILED;
}

int main(int argc, char **argv) {
    /* A row without a summary is not listed. */
    static const cli_entry commands[] = {
        {"devices", "list the devices, and why others are missing", devices_command},
        {"bench", "measure speed: gemm, memory", bench_command},
        {"infer", "run a classifier on every device and check its answers", tandem_infer_main},
        {"cache", "show or clear the cache of compiled kernels", cache_command},
        {"_worker", NULL, worker_command},
    };
    return with_output_written(cli_dispatch("tandem", "one tensor API on any OpenCL device",
                                            commands, sizeof commands / sizeof commands[0], argc,
                                            argv));
}
