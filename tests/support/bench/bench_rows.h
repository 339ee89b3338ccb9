/* What tests of the program's results share: a run on the device of this run, and what its rows say. A test fails where a word is
 * missing. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_BENCH_ROWS_H
#define TANDEM_TESTS_SUPPORT_BENCH_BENCH_ROWS_H

#include <cjson/cJSON.h>

enum {
    BENCH_PATIENCE_S = 240
};

/* The program (both paths are set before main), and what --device gets: the first name of TANDEM_TEST_DEVICES. */
extern char bench_program[];
const char *bench_selector(void);

/* Where the peers are, and whether this one was built. */
extern char bench_peer_folder[];
int bench_peer_is_built(const char *peer);

/* Run with --json - on the device, with these variables of the environment (NULL: none more); the parsed standard output, which
 * the caller deletes. */
cJSON *bench_run_json(const char *command, const char *const *variables, int exit_code);

const cJSON *json_member(const cJSON *object, const char *key);
/* "" and NaN where the member is something else. */
const char *json_text(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);

/* Row of an implementation; the only one, or the one of this case. */
const cJSON *bench_row(const cJSON *root, const char *impl, const char *case_name);

/* The row is ok, and its figures fit each other. */
void bench_expect_measured(const cJSON *row);

#endif
