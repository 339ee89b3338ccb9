/* The contenders of a benchmark, Tandem itself and the peers, and the paths of their programs. */
#ifndef TANDEM_BENCH_HARNESS_BENCH_PEERS_H
#define TANDEM_BENCH_HARNESS_BENCH_PEERS_H

#include "bench/harness/bench_runner.h"

/* The peers of `bench gemm`, for the option table. */
#define BENCH_GEMM_PEERS "openblas|onednn|clblast|cublas|cublaslt"

/* The value of GLIBC_TUNABLES for all workers, unless the user has set it. */
extern const char bench_malloc_tunables[];

/* Sets up a worker of this program: `tandem _worker <suite>`. */
void bench_contender_self(bench_contender *contender, const char *impl, const char *suite);

/*
 * Sets up a peer by its name in BENCH_GEMM_PEERS. Its program tandem-peer-<library> is looked up in
 * TANDEM_PEER_DIR, then in ../libexec/tandem relative to this program, then in this program's
 * folder. If there is none, `missing` gives the reason.
 */
void bench_contender_peer(bench_contender *contender, const char *peer);

#endif
