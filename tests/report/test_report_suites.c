/* What `tandem report` measures: that each suite can be asked for, and that what predictions need has its share of a short report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/report/report_run.h"
#include "bench/report/report_suites.h"

/* Whether a list with | between its words has this one. */
static int lists(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == list || at[-1] == '|') && (at[length] == '|' || at[length] == '\0'))
            return 1;
    }
    return 0;
}

static void suites_can_be_asked_for_by_name(void **state) {
    char all[1024] = "";
    (void)state;
    for (int i = 0; i < report_suite_count; i++) {
        const report_suite *const suite = &report_suites[i];
        if (!lists(REPORT_SUITE_CHOICES, suite->name))
            fail_msg("--suite does not take %s", suite->name);
        assert_true(suite->seconds > 0);
        assert_true(suite->quick[0] == NULL || suite->quick_seconds > 0);
        assert_null(suite->words[REPORT_MAX_WORDS - 1]);
        assert_null(suite->quick[REPORT_MAX_WORDS - 1]);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i == 0 ? "" : "|",
                 suite->name);
    }
    char choices[] = REPORT_SUITE_CHOICES;
    for (char *name = strtok(choices, "|"); name != NULL; name = strtok(NULL, "|")) {
        if (!lists(all, name))
            fail_msg("--suite takes %s, which there is not", name);
    }
}

/* The suite that runs this command for these types alone. */
static const report_suite *find_suite(const char *command, const char *dtype) {
    for (int i = 0; i < report_suite_count; i++) {
        const report_suite *const suite = &report_suites[i];
        if (strcmp(suite->words[1], command) != 0)
            continue;
        for (int w = 0; suite->words[w] != NULL; w++)
            if (strcmp(suite->words[w], "--dtype") == 0 && strcmp(suite->words[w + 1], dtype) == 0)
                return suite;
    }
    return NULL;
}

/* Seconds of nine rows each, measured on PoCL on two cores of a Zen 5 on 2026-11-23. */
static void vectors_of_each_type_have_their_turn_in_a_short_report(void **state) {
    static const struct {
        const char *dtype;
        double seconds;
    } taken[] = {{"f32", 5.7}, {"f16", 5.7}, {"w8", 5.6}, {"w4", 9.1}};
    const double budget = 167; /* --seconds 170 */
    double all = 0;
    (void)state;
    for (int i = 0; i < report_suite_count; i++)
        all += report_suites[i].seconds;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const report_suite *const suite = find_suite("gemv", taken[i].dtype);
        if (suite == NULL)
            fail_msg("no suite is of gemv %s alone", taken[i].dtype);
        const double share = budget * suite->seconds / all;
        if (share < taken[i].seconds)
            fail_msg("gemv %s has %.1f s of %.0f and takes %.1f", taken[i].dtype, share, budget,
                     taken[i].seconds);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suites_can_be_asked_for_by_name),
        cmocka_unit_test(vectors_of_each_type_have_their_turn_in_a_short_report),
    };
    return cmocka_run_group_tests_name("report suites", tests, NULL, NULL);
}
