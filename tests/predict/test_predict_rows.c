/* `tandem predict`: what it takes from the rows of a results file, and which of them it leaves out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/predict/predict_rows.h"
#include "tests/support/made_device.h"
#include "tests/support/test_near.h"

static void add_row_beside(cJSON *rows, const char *name, double handover_ns, double work_ns) {
    cJSON *const row = made_add_row(rows, "memory", name, "f32", 1e-3, 0, 1e6);
    cJSON *const metrics = cJSON_AddObjectToObject(row, "metrics");
    cJSON_AddNumberToObject(metrics, "handover_ns", handover_ns);
    cJSON_AddNumberToObject(metrics, "work_ns", work_ns);
}

/* Of the rows of a file so many are kept and so many are left out as those of processors elsewhere. */
static void observed(cJSON *root, size_t kept, size_t elsewhere) {
    results_file file;
    predict_observations list;
    made_file_read(root, "made", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, kept);
    assert_int_equal(list.elsewhere, elsewhere);
    free(list.items);
    results_file_release(&file);
}

/* Beside some rows the processors were slower, or further apart: those are of another machine, so to say. */
static void rows_of_processors_elsewhere_are_left_out(void **state) {
    static const double states[][2] = {{120, 9700}, {130, 9800}, {115, 13700}, {390, 9900},
                                       {120, 9600}, {125, 7000}, {110, 11500}, {60, 9700}};
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        add_row_beside(rows, "read 1000000", states[i][0], states[i][1]);
    made_add_row(rows, "memory", "read 2000000", "f32", 2e-3, 0, 2e6); /* it says nothing */
    observed(root, 5, 4);
}

/* But not where a class had less than four rows then. */
static void a_class_keeps_its_rows_from_elsewhere_where_it_has_no_others(void **state) {
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    for (int i = 0; i < 6; i++)
        add_row_beside(rows, "read 1000000", i < 3 ? 120 : 390, 9700);
    for (int i = 0; i < 3; i++)
        add_row_beside(rows, "gather 1000000", 120, 9700);
    observed(root, 6, 0);
}

/* A fifth of every class is left out at a time, not of all rows: a class of nine would lose five of them at once by chance. */
static void each_fold_has_as_many_of_a_class(void **state) {
    results_file file;
    predict_observations list;
    int folds[2][PREDICT_FOLDS] = {{0}};
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_observe(&file, &list), 0);
    size_t count[2] = {0};
    for (size_t i = 0; i < list.count; i++) {
        const int is_stream = strcmp(list.items[i].work.key, "stream") == 0;
        folds[is_stream][list.items[i].fold]++;
        count[is_stream]++;
    }
    for (int c = 0; c < 2; c++) {
        for (int f = 0; f < PREDICT_FOLDS; f++)
            assert_true(folds[c][f] == (int)(count[c] / PREDICT_FOLDS) ||
                        folds[c][f] == (int)((count[c] + PREDICT_FOLDS - 1) / PREDICT_FOLDS));
    }
    free(list.items);
    results_file_release(&file);
}

/* Where a tensor is read for its scale and then again, it is in the working set once. */
static void what_is_read_twice_is_in_the_working_set_once(void **state) {
    static const char *const names[] = {"dynamic f32 s8 tensor 100x50", "dynamic f32 s8 row 100x50",
                                        "dynamic f16 s8 column 100x50",
                                        "quantize f32 s8 tensor 100x50"};
    static const double bytes[] = {9 * 5000 + 4, 5 * 5000 + 400, 5 * 5000 + 200, 5 * 5000 + 4};
    static const double sets[] = {5 * 5000 + 4, 5 * 5000 + 400, 3 * 5000 + 200, 5 * 5000 + 4};
    results_file file;
    predict_observations list;
    (void)state;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    for (int i = 0; i < 4; i++) {
        cJSON *const row = made_add_row(rows, "quant", names[i], "f32s8", 1e-3, 0, bytes[i]);
        cJSON *const shape = cJSON_AddObjectToObject(row, "shape");
        cJSON_AddNumberToObject(shape, "rows", 100);
        cJSON_AddNumberToObject(shape, "columns", 50);
    }
    made_file_read(root, "twice", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 4);
    for (int i = 0; i < 4; i++) {
        test_is_near(list.items[i].work.read_bytes, bytes[i], 0);
        test_is_near(list.items[i].work.working_set, sets[i], 0);
    }
    free(list.items);
    results_file_release(&file);
}

/* Of elementwise operations each with its types is a class, as those of quant are; what runs beside them is none. */
static void elementwise_rows_are_of_their_operation(void **state) {
    static const char *const names[] = {"gelu f32 65536", "gelu f32 1048576", "add bf16 65536",
                                        "convert f32 f16 65536"};
    static const char *const keys[] = {"gelu f32", "gelu f32", "add bf16", "convert f32 f16"};
    static const double bytes[] = {8 * 65536, 8 * 1048576, 6 * 65536, 6 * 65536};
    results_file file;
    predict_observations list;
    (void)state;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    for (int i = 0; i < 4; i++)
        made_add_row(rows, "elementwise", names[i], "f32", 1e-3 * (i + 1), 0, bytes[i]);
    cJSON *const beside = made_add_row(rows, "elementwise", names[0], "f32", 1e-3, 0, bytes[0]);
    cJSON_SetValuestring(cJSON_GetObjectItem(beside, "impl"), "tandem-stream");
    made_file_read(root, "elementwise", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(list.items[i].work.key, keys[i]);
        test_is_near(list.items[i].seconds, 1e-3 * (i + 1), 1e-12);
        test_is_near(list.items[i].work.read_bytes, bytes[i], 0);
        test_is_near(list.items[i].work.working_set, bytes[i], 0);
    }
    free(list.items);
    results_file_release(&file);
}

/* Copies of B that calls take in turn are touched before the first comes again. */
static void copies_of_b_are_in_the_working_set(void **state) {
    results_file file;
    predict_observations list;
    (void)state;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    made_add_product_of(rows, "f32", 1, 256, 512, 1e-3);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 256, 512, 1e-3), "copies_of_b", 5);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 1e12, 1e12, 1e-3), "copies_of_b",
                            3);
    made_file_read(root, "rotating", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 3);
    test_is_near(list.items[2].work.working_set, 3 * 4e24, 1e-9);
    test_is_near(list.items[0].work.working_set, 4 * (512 + 256 * 512 + 256), 0);
    test_is_near(list.items[1].work.working_set, 4 * (512 + 5 * 256 * 512 + 256), 0);
    test_is_near(list.items[1].work.read_bytes, list.items[0].work.read_bytes, 0);
    free(list.items);
    results_file_release(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_processors_elsewhere_are_left_out),
        cmocka_unit_test(a_class_keeps_its_rows_from_elsewhere_where_it_has_no_others),
        cmocka_unit_test(each_fold_has_as_many_of_a_class),
        cmocka_unit_test(copies_of_b_are_in_the_working_set),
        cmocka_unit_test(what_is_read_twice_is_in_the_working_set_once),
        cmocka_unit_test(elementwise_rows_are_of_their_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
