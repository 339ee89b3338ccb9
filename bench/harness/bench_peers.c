#include "bench/harness/bench_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The idle threads of the peers spin for at most this long. That is a fraction of the pause between
 * two turns (bench_runner.c), but longer than the gap between two calls of a sample.
 */
static const char openblas_timeout[] = "20"; /* 2^20 cycles: 0.2 to 0.5 ms */
static const char gomp_spins[] = "20000";    /* about 0.2 to 0.5 ms */

const char bench_malloc_tunables[] = "glibc.malloc.hugetlb=1";

/*
 * Requests huge pages for all workers. Pages decide which lines share a cache set and how many
 * translations are needed. Because of them, the times of one loop in two processes differed by up
 * to a fifth. Huge pages reduce this effect, for all implementations alike. OpenCL on CPUs
 * allocates with malloc; elsewhere this changes little. A user's own setting takes precedence.
 */
static void ask_for_huge_pages(void) {
    setenv("GLIBC_TUNABLES", bench_malloc_tunables, 0);
}

/* Writes the path of this program, or "" if the system does not report it. */
static void own_path(char *path) {
    const ssize_t length = readlink("/proc/self/exe", path, MAX_PATH_TEXT - 1);
    path[length > 0 ? length : 0] = '\0';
}

void bench_contender_self(bench_contender *contender, const char *impl, const char *suite) {
    memset(contender, 0, sizeof *contender);
    contender->impl = impl;
    own_path(contender->program);
    contender->arguments[0] = "_worker";
    contender->arguments[1] = suite;
    if (contender->program[0] == '\0')
        contender->missing = "the path of this program is unknown";
    ask_for_huge_pages();
    /* Worker messages are shown if the user requested the library's log. */
    const char *const log = getenv("TANDEM_LOG");
    contender->show_messages = log != NULL && log[0] != '\0';
}

/* Looks for the program <folder><below>/tandem-peer-<library>. */
static int find_in(bench_contender *contender, const char *folder, const char *below,
                   const char *library) {
    const int length =
        snprintf(contender->program, MAX_PATH_TEXT, "%s%s/tandem-peer-%s", folder, below, library);
    return length > 0 && length < MAX_PATH_TEXT && access(contender->program, X_OK) == 0;
}

static int find_program(bench_contender *contender, const char *library) {
    char folder[MAX_PATH_TEXT];
    const char *const chosen = getenv("TANDEM_PEER_DIR");
    if (chosen != NULL && find_in(contender, chosen, "", library))
        return 1;
    own_path(folder);
    char *const slash = strrchr(folder, '/');
    if (slash == NULL)
        return 0;
    *slash = '\0';
    return find_in(contender, folder, "/../libexec/tandem", library) ||
           find_in(contender, folder, "", library);
}

void bench_contender_peer(bench_contender *contender, const char *peer) {
    char library[32];
    snprintf(library, sizeof library, "%.*s", (int)strcspn(peer, "-"), peer);
    memset(contender, 0, sizeof *contender);
    contender->impl = peer;
    if (!find_program(contender, library))
        contender->missing = "no worker program: it is built when the peer's library is installed";
    ask_for_huge_pages();
    setenv("OPENBLAS_THREAD_TIMEOUT", openblas_timeout, 0);
    setenv("GOMP_SPINCOUNT", gomp_spins, 0);
}
