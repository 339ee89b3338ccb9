/*
 * Who takes part in a benchmark: Tandem itself, its double, the peers, and where their programs
 * are.
 */
#ifndef TANDEM_BENCH_HARNESS_BENCH_PEERS_H
#define TANDEM_BENCH_HARNESS_BENCH_PEERS_H

#include "bench/harness/bench_runner.h"

/* The peers of `bench gemm`, for the option table. */
#define BENCH_GEMM_PEERS "openblas|openblas-best|onednn|clblast|cublas|cublaslt"

/*
 * Tandem against Tandem: a second worker of the same program. Its rows should agree within this
 * share.
 */
#define BENCH_TWIN_NAME "tandem-again"
extern const double bench_twin_tolerance;

/* What GLIBC_TUNABLES says to all workers, unless the user has set it. */
extern const char bench_malloc_tunables[];

/* A worker of this very program: `tandem _worker <suite>`. */
void bench_entrant_self(bench_entrant *entrant, const char *impl, const char *suite);

/*
 * A peer by its name in BENCH_GEMM_PEERS. Its program tandem-peer-<library> is looked up in
 * TANDEM_PEER_DIR, then in ../libexec/tandem from this program, then beside it; without one the
 * entrant says so in `missing`.
 */
void bench_entrant_peer(bench_entrant *entrant, const char *peer);

/*
 * Make `entrant` OpenBLAS with the kernels that are fastest here, for one row of A or for matrices: every
 * core type that OpenBLAS has for this architecture is tried, each in its own process (a type that the
 * processor lacks dies there).
 */
void bench_entrant_openblas_best(bench_entrant *entrant, int one_row);

#endif
