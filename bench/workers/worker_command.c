/* `tandem _worker SUITE` selects the worker by its suite. */
#include <string.h>

#include "bench/workers/worker_tandem.h"
#include "common/command/cli_options.h"

int worker_command(int argc, char **argv) {
    static const struct {
        const char *suite;
        const tandem_worker *worker;
    } workers[] = {{"gemm", &worker_gemm},           {"memory", &worker_memory},
                   {"quant", &worker_quant},         {"elementwise", &worker_elementwise},
                   {"memcpy", &worker_memcpy},       {"probe", &worker_probe},
                   {"bare-cuda", &worker_bare_cuda}, {"pool", &worker_pool},
                   {"outofcore", &worker_outofcore}, {"nn", &worker_nn}};
    const char *const suite = argc == 2 ? argv[1] : "";
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        if (strcmp(suite, workers[i].suite) == 0)
            return tandem_worker_serve(workers[i].worker);
    return cli_refuse("tandem _worker", "'%s' is not a suite with a worker", suite);
}
