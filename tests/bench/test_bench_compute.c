/* Tests `tandem bench compute` and `tandem bench memory` on the device of this run. */
// ctest: device rusticl_in_ci compiled timeout=300 cost=10
#include <math.h>
#include <string.h>

#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"

static cJSON *run_json(const char *command) {
    return bench_run_json(command, NULL, 0);
}

/* Returns 1 if the row is skipped because the device has no arithmetic in this dtype. */
static int is_skipped_with_reason(const cJSON *row) {
    if (strcmp(json_text(row, "status"), "skipped") != 0)
        return 0;
    assert_non_null(strstr(json_text(row, "reason"), "no kernel variant computes in "));
    assert_non_null(strstr(json_text(row, "reason"), json_text(row, "dtype")));
    assert_non_null(strstr(json_text(row, "reason"), ": the device lacks "));
    return 1;
}

TEST(the_limits_are_measured) {
    cJSON *const root = run_json("bench compute --quick --samples 1 --steps 4");
    const cJSON *row;
    int rows = 0;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        rows++;
        if (is_skipped_with_reason(row)) {
            assert_string_not_equal(json_text(row, "dtype"), "f32");
            continue;
        }
        assert_string_equal(json_text(row, "status"), "ok");
        assert_true(json_number(row, "median_s") > 0);
        assert_true(cJSON_IsTrue(json_member(row, "verified")));
        assert_string_equal(json_text(row, "suite"), "compute");
    }
    assert_int_equal(rows, 3 + 1); /* f32, f16, bf16; s8 */
    cJSON_Delete(root);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Rows of a peer are measured only if the peer was built. */
TEST(memory_moves_bytes) {
    static const struct {
        const char *impl, *name;
        double bytes; /* 0: unknown, because the grid rounds up */
    } expected[] = {{"tandem", "copy 10001", 20002},   {"tandem", "triad 10001", 30003},
                    {"tandem", "read 10001", 0},       {"tandem", "gather 10001", 0},
                    {"tandem", "sweep read 10001", 0}, {"tandem", "chase 10001", 0},
                    {"tandem", "buffer 10001", 20002}, {"memcpy", "download 10001, pinned", 10001}};
    cJSON *const root = run_json("bench memory --quick --samples 2 --bytes 10001 --host pinned");
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "impl"), "stream") == 0 && !bench_peer_is_built("stream"))
            continue;
        bench_expect_measured(row);
        assert_string_equal(json_text(row, "suite"), "memory");
        assert_true(json_number(row, "gbs") > 0);
        if (strncmp(json_text(row, "case"), "chase", 5) == 0) {
            const double loads = json_number(row, "bytes") / 4; /* each load reads a word */
            const double latency = json_number(json_member(row, "metrics"), "latency_ns");
            assert_true(fabs(latency * loads / (1e9 * json_number(row, "median_s")) - 1) < 1e-9);
        }
    }
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        row = bench_row(root, expected[i].impl, expected[i].name);
        if (expected[i].bytes > 0)
            assert_true(json_number(row, "bytes") == expected[i].bytes);
    }
    cJSON_Delete(root);
}

TEST_MAIN(NULL, NULL)
