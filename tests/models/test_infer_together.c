/* `tandem infer --together`: one model on all devices of this run at once, as scripts see it. */
// ctest: device threads
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "api/device/core.h"
#include "cli/infer/infer_main.h"
#include "tests/support/test_devices.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_tree.h"

static char digits[TEST_TREE_PATH]; /* set by main */

/* The command's exit code; what it says goes to a file. */
static int run_infer(const char *json, int together) {
    char *argv[] = {(char *)"infer",       (char *)(uintptr_t)digits,
                    (char *)"--batch",     (char *)(test_is_small() ? "2" : "64"),
                    (char *)"--seconds",   (char *)"0",
                    (char *)"--synthetic", (char *)"none",
                    (char *)"--precision", (char *)"f32,f16",
                    (char *)"--images",    (char *)(test_is_small() ? "4" : "500"),
                    (char *)"--json",      (char *)(uintptr_t)json,
                    (char *)"--together"};
    const int count = (int)(sizeof argv / sizeof *argv);
    fflush(NULL);
    const int saved_out = dup(STDOUT_FILENO), saved_err = dup(STDERR_FILENO);
    const int file = open("/dev/null", O_WRONLY);
    assert_true(saved_out >= 0 && saved_err >= 0 && file >= 0);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    const int code = tandem_infer_main(together ? count : count - 1, argv);
    fflush(NULL);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved_out);
    close(saved_err);
    close(file);
    return code;
}

static cJSON *results_of(const char *path) {
    size_t size;
    char *const text = (char *)test_file_read(path, &size);
    cJSON *const json = cJSON_Parse(text);
    free(text);
    assert_non_null(json);
    return json;
}

static const char *text_of(const cJSON *row, const char *key) {
    const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));
    return text ? text : "";
}

static double metric_of(const cJSON *row, const char *key) {
    const cJSON *const item =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(row, "metrics"), key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* The rows of one precision: one of all and one of each device, which add up. */
static void check_precision(const cJSON *results, const char *precision) {
    double share = 0, weights = 0, all_weights = NAN;
    int alone = 0, parties = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, results) {
        if (strcmp(text_of(row, "dtype"), precision) != 0)
            continue;
        if (!strstr(text_of(row, "case"), " together")) {
            alone++;
            continue;
        }
        assert_string_equal(text_of(row, "status"), "ok");
        assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "verified")));
        assert_true(metric_of(row, "share_of_bound") <= 1.0);
        if (strcmp(text_of(row, "device"), "all") == 0) {
            all_weights = metric_of(row, "weight_bytes");
            assert_true(metric_of(row, "images_per_s") > 0);
            assert_true(test_is_small() || fabs(metric_of(row, "accuracy") - 0.98) <= 0.003);
            continue;
        }
        parties++;
        share += metric_of(row, "share");
        weights += metric_of(row, "weight_bytes");
        // Whoever was faster: each device was compared in one batch at least.
        assert_true(metric_of(row, "oracle_rows") >= (test_is_small() ? 2 : 52));
    }
    assert_true(parties > 0);
    assert_int_equal(parties, alone);
    assert_true(fabs(share - 1) < 1e-9);
    assert_true(weights == all_weights);
}

static void all_devices_share_the_images(void **state) {
    (void)state;
    char room[TEST_PATH];
    const char *const path = test_folder_path(room, "results.json");
    assert_int_equal(run_infer(path, 1), 0);
    cJSON *const json = results_of(path);
    const cJSON *const results = cJSON_GetObjectItemCaseSensitive(json, "results");
    check_precision(results, "f32");
    check_precision(results, "f16");
    cJSON_Delete(json);
}

/* A driver that fails from some call on, after the devices were run alone. */
static void a_device_that_fails_is_told(void **state) {
    (void)state;
    char room[TEST_PATH];
    const char *const path = test_folder_path(room, "results.json");
    tdm_fault_plant(NULL, 1000000000, -5, false);
    assert_int_equal(run_infer(path, 0), 0);
    const long calls = tdm_fault_clear();
    // Drivers that are polled are called now more, now less often.
    tdm_fault_plant(NULL, calls + calls / 4, -5, true);
    assert_int_equal(run_infer(path, 1), 1);
    tdm_fault_clear();
    cJSON *const json = results_of(path);
    int failed = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(json, "results")) {
        if (strcmp(text_of(row, "status"), "failed") != 0)
            continue;
        assert_non_null(strstr(text_of(row, "case"), " together"));
        assert_true(strlen(text_of(row, "reason")) > 10);
        failed++;
    }
    assert_true(failed >= 2);
    cJSON_Delete(json);
}

int main(void) {
    test_tree_source(digits, "examples/digits");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_devices_share_the_images, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(a_device_that_fails_is_told, test_folder_make,
                                        test_folder_remove),
    };
    return cmocka_run_group_tests_name("infer on all devices at once", tests, NULL, NULL);
}
