/* The shape sets of `tandem bench gemm`, and what a set comes to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/cases/gemm_sets.h"
#include "common/command/cli_options.h"

static void every_set_can_be_chosen(void **state) {
    (void)state;
    const char *choices = gemm_set_choices;
    char word[32];
    for (int i = 0; i < gemm_set_count; i++) {
        assert_int_equal(cli_next_word(&choices, '|', word, sizeof word), 1);
        assert_string_equal(word, gemm_sets[i].name);
        assert_ptr_equal(gemm_set_find(word), &gemm_sets[i]);
    }
    assert_int_equal(cli_next_word(&choices, '|', word, sizeof word), 1);
    assert_string_equal(word, "all");
    assert_null(choices);
    assert_null(gemm_set_find("all"));
}

/* Read back from its name, so that a shape that cannot be read does not pass. */
static void every_shape_can_be_read(void **state) {
    (void)state;
    for (int i = 0; i < gemm_set_count; i++) {
        const gemm_set *const set = &gemm_sets[i];
        assert_true(gemm_set_size(set) > 0);
        for (int number = 0; number < gemm_set_size(set); number++) {
            gemm_case item = {.types = GEMM_F32};
            gemm_case again = item;
            char name[64];
            gemm_set_shape(set, number, &item);
            gemm_case_name(&item, name, sizeof name);
            name[strlen(name) - strlen(" nn")] = '\0';
            if (gemm_case_parse_shape(name + strlen("f32 "), &again) != 0)
                fail_msg("%s: shape %d is '%s'", set->name, number, name);
            assert_true(again.m == item.m && again.n == item.n && again.k == item.k);
        }
    }
}

/* The help gives the exact lists: it must follow the table. */
static void the_help_lists_every_shape(void **state) {
    (void)state;
    for (int i = 0; i < gemm_set_count; i++) {
        const gemm_set *const set = &gemm_sets[i];
        const char *const lines = strstr(gemm_set_help, set->name);
        assert_non_null(lines);
        const char *const next = i + 1 < gemm_set_count ? strstr(lines, gemm_sets[i + 1].name) : "";
        char part[512];
        snprintf(part, sizeof part, "%.*s ", (int)(strlen(lines) - strlen(next)), lines);
        for (int s = 0; s < GEMM_SET_MAX_SHAPES && set->shapes[s] != NULL; s++) {
            char wanted[32];
            const int cube = strstr(part, "cubed") != NULL;
            snprintf(wanted, sizeof wanted, "%.*s",
                     (int)(cube ? strcspn(set->shapes[s], "x") : strlen(set->shapes[s])),
                     set->shapes[s]);
            if (strstr(part, wanted) == NULL)
                fail_msg("the help of %s lacks %s", set->name, wanted);
        }
        for (int row = 0; row < GEMM_SET_MAX_ROWS && set->rows[row] != 0; row++) {
            char wanted[32];
            snprintf(wanted, sizeof wanted, " %d", (int)set->rows[row]);
            assert_non_null(strstr(part, wanted));
        }
    }
}

static void sets_hold_what_they_are_named_for(void **state) {
    (void)state;
    static const struct {
        const char *set;
        int64_t batch, m, n, k;
    } wanted[] = {{"squares", 1, 384, 384, 384},      {"squares", 1, 4096, 4096, 4096},
                  {"tails", 1, 1023, 1023, 1023},     {"bert", 1, 512, 3072, 768},
                  {"bert", 1, 128, 1024, 4096},       {"llama8b", 1, 1, 28672, 4096},
                  {"llama8b", 1, 512, 4096, 14336},   {"attention", 96, 512, 512, 64},
                  {"llama8b", 1, 4096, 128256, 4096}, {"llama70b", 1, 2048, 57344, 8192},
                  {"deepseek", 1, 64, 576, 7168},     {"large", 1, 4095, 4095, 4095},
                  {"bert", 1, 4096, 768, 3072},       {"gemv", 1, 1, 11008, 4096}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const gemm_set *const set = gemm_set_find(wanted[i].set);
        int found = 0;
        for (int number = 0; number < gemm_set_size(set); number++) {
            gemm_case item = {.types = GEMM_F32};
            gemm_set_shape(set, number, &item);
            found += item.batch == wanted[i].batch && item.m == wanted[i].m &&
                     item.n == wanted[i].n && item.k == wanted[i].k;
        }
        if (found != 1)
            fail_msg("row %zu stands %d times in %s", i, found, wanted[i].set);
    }
}

static void rows_can_be_others(void **state) {
    (void)state;
    gemm_set set = *gemm_set_find("deepseek");
    gemm_case item = {.types = GEMM_F32};
    const int shapes = gemm_set_size(&set) / 11;
    assert_int_equal(gemm_set_take_rows(&set, "3,4096"), 0);
    assert_int_equal(gemm_set_size(&set), 2 * shapes);
    gemm_set_shape(&set, 1, &item);
    assert_int_equal(item.m, 4096);
    static const char *const bad[] = {
        "", "0", "1,", "x", "1x", "1,2,3,4,5,6,7,8,9,10,11,12", "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gemm_set_take_rows(&set, bad[i]), -1);
    assert_int_equal(gemm_set_size(&set), 2 * shapes);
    set = *gemm_set_find("large");
    assert_int_equal(gemm_set_take_rows(&set, "3"), 0);
    gemm_set_shape(&set, 0, &item);
    assert_int_equal(item.m, 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_can_be_chosen),
        cmocka_unit_test(every_shape_can_be_read),
        cmocka_unit_test(the_help_lists_every_shape),
        cmocka_unit_test(sets_hold_what_they_are_named_for),
        cmocka_unit_test(rows_can_be_others),
    };
    return cmocka_run_group_tests_name("gemm sets", tests, NULL, NULL);
}
