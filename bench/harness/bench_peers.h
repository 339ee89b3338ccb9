/* Who takes part in a benchmark: Tandem itself, the peers, and where their programs are. */
#ifndef TANDEM_BENCH_HARNESS_BENCH_PEERS_H
#define TANDEM_BENCH_HARNESS_BENCH_PEERS_H

#include "bench/harness/bench_runner.h"

/* The peers of `bench gemm`, for the option table. */
#define BENCH_GEMM_PEERS "openblas|onednn|clblast|cublas|cublaslt"

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

#endif
