/*
 * The loop of an operation's main test: every row of its op, on every device that can run it, over
 * a pairwise sample of the factors that the test names.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_VARIANT_CASES_H
#define TANDEM_TESTS_SUPPORT_DEVICES_VARIANT_CASES_H

#include "tests/support/devices/test_devices.h"
#include "tests/support/test_array.h"

/* One row of the sample: a level, from 0, for each factor. Begins and ends its case, or leaves it
 * out. */
typedef void variant_case(const test_device *device, const tdm_variant *variant, const int row[]);

/* Fails unless every row of the op that a device can run was executed on it. */
void test_every_variant(tdm_op op, int factors, const int levels[], variant_case *run);

/* The same for tests with trials of their own: one row of an op on a device, each case with a seed of its own. Under a slow
 * implementation the first few of a sample of the row's own. */
typedef void variant_trial(const test_device *device, const tdm_variant *variant, const int level[],
                           uint64_t seed);
void test_sample_of_row(const test_device *device, const tdm_variant *variant, int factors,
                        const int levels[], uint64_t seed, variant_trial *run);

/* Each row of the op that a device can run, on each device; where `takes` is not NULL, those it is true of. */
typedef bool variant_choice(const tdm_variant *row);
typedef void variant_body(const test_device *device, const tdm_variant *row);
void test_each_row(tdm_op op, variant_choice *takes, variant_body *body);
/* A case of that name for each of them, all of which must be executed. */
void test_case_of_each_row(tdm_op op, const char *name, variant_body *body);

/* test_case_begin for a forced variant, or NULL: parameters behind the row's name go before the text. */
bool test_case_begin_forced(const test_device *device, const char *variant, const char *text);

/* True when a row's elements do not follow one another: kernels of wide rows may refuse that. */
bool test_has_gaps(int rank, const int64_t *shape, test_placement placement);

/*
 * Whether case number `index` of a row's sample is run. Rows of one text differ by their defines alone: the first of them that the
 * device can run has the whole sample, each of the others every second case of its own. Under a slow implementation as below.
 */
bool test_case_is_due(const test_device *device, const tdm_variant *row, int index);

/*
 * Whether case number `index` of a table that is the same for every row is run. Under a slow implementation the rows of one text
 * share the table, each text still meets all of it; elsewhere always.
 */
bool test_part_is_due(const test_device *device, const tdm_variant *row, int index);

#endif
