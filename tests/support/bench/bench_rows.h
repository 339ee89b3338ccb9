/*
 * Tests of the program's results share these functions. They run the program on the device under
 * test and read the fields of its rows. A test fails if a field is missing.
 */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_BENCH_ROWS_H
#define TANDEM_TESTS_SUPPORT_BENCH_BENCH_ROWS_H

#include <cjson/cJSON.h>

enum {
    BENCH_PATIENCE_S = 240
};

/*
 * `bench_program` is the path of the program, and is set before main like `bench_peer_folder`.
 * bench_selector returns the argument of --device: the first name of TANDEM_TEST_DEVICES.
 */
extern char bench_program[];
const char *bench_selector(void);

/*
 * `bench_peer_folder` is the folder of the peers. bench_peer_is_built returns 1 if this peer was
 * built.
 */
extern char bench_peer_folder[];
int bench_peer_is_built(const char *peer);

/*
 * Runs the command with --json - on the device. `variables` are extra environment variables, or
 * NULL. Returns the parsed standard output, which the caller deletes.
 */
cJSON *bench_run_json(const char *command, const char *const *variables, int exit_code);

const cJSON *json_member(const cJSON *object, const char *key);
/* These return "" and NaN if the member has another type. */
const char *json_text(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);

/*
 * Returns the row of an implementation and a case. If `case_name` is NULL, returns its first row.
 */
const cJSON *bench_row(const cJSON *root, const char *impl, const char *case_name);

/* Checks that the row is ok and its figures are consistent. */
void bench_expect_measured(const cJSON *row);

#endif
