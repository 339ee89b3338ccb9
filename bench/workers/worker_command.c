/* `tandem _worker SUITE`: the workers by their suites. */
#include <string.h>

#include "bench/workers/worker_tandem.h"
#include "common/command/cli_options.h"

int worker_command(int argc, char **argv) {
    const char *const suite = argc == 2 ? argv[1] : "";
    if (strcmp(suite, "gemm") == 0)
        return worker_tandem_gemm();
    if (strcmp(suite, "memory") == 0)
        return worker_tandem_memory();
    if (strcmp(suite, "quant") == 0)
        return worker_tandem_quant();
    if (strcmp(suite, "elementwise") == 0)
        return worker_tandem_elementwise();
    if (strcmp(suite, "memcpy") == 0)
        return worker_memcpy();
    if (strcmp(suite, "probe") == 0)
        return worker_probe();
    if (strcmp(suite, "launch") == 0)
        return worker_tandem_launch();
    if (strcmp(suite, "bare-cuda") == 0)
        return worker_bare_cuda();
    if (strcmp(suite, "pool") == 0)
        return worker_tandem_pool();
    if (strcmp(suite, "outofcore") == 0)
        return worker_tandem_outofcore();
    return cli_refuse(
        "tandem _worker",
        "one of gemm, memory, quant, elementwise, memcpy, probe, launch, bare-cuda, pool, "
        "outofcore is needed; '%s' is none",
        suite);
}
