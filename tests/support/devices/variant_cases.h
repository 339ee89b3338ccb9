/*
 * This is the loop of an operation's main test. It runs every variant of the op on every device
 * that can run it, over a pairwise sample of the test's factors.
 */
#ifndef TANDEM_TESTS_SUPPORT_DEVICES_VARIANT_CASES_H
#define TANDEM_TESTS_SUPPORT_DEVICES_VARIANT_CASES_H

#include "tests/support/devices/test_devices.h"
#include "tests/support/test_array.h"

/*
 * Runs one row of the sample: a level, from 0, for each factor. Begins and ends its case, or skips
 * it.
 */
typedef void variant_case(const test_device *device, const tdm_variant *variant, const int row[]);

/* Fails unless every variant of the op that a device can run was executed on it. */
void test_every_variant(tdm_op op, int factors, const int levels[], variant_case *run);

/*
 * Runs a sample for one variant on one device, for tests with trials of their own. Each case has a
 * seed of its own. A slow implementation runs only the first few cases of the variant's own sample.
 */
typedef void variant_trial(const test_device *device, const tdm_variant *variant, const int level[],
                           uint64_t seed);
void test_sample_of_variant(const test_device *device, const tdm_variant *variant, int factors,
                            const int levels[], uint64_t seed, variant_trial *run);

/*
 * Calls `body` for each variant of the op that a device can run, on each device. If `takes` is not
 * NULL, it selects the variants.
 */
typedef bool variant_choice(const tdm_variant *row);
typedef void variant_body(const test_device *device, const tdm_variant *row);
void test_each_variant(tdm_op op, variant_choice *takes, variant_body *body);
/* Runs a case of that name for each of these variants. All of them must be executed. */
void test_case_of_each_variant(tdm_op op, const char *name, variant_body *body);

/*
 * Calls test_case_begin for a forced variant, or for none if `variant` is NULL. `variant` may have
 * the form "name:parameters"; the parameters then precede the text in the name of the case.
 */
bool test_case_begin_forced(const test_device *device, const char *variant, const char *text);

/*
 * True if the elements of a row are not contiguous. Variants with vector loads and stores may
 * refuse such rows.
 */
bool test_has_gaps(int rank, const int64_t *shape, test_placement placement);

/*
 * Returns true if case number `index` of a variant's sample is run. Variants of one kernel source
 * differ only in their defines. The first one that the device can run gets the whole sample; each
 * other one gets every second case of its own. A slow implementation follows test_part_is_due.
 */
bool test_case_is_due(const test_device *device, const tdm_variant *row, int index);

/*
 * Returns true if case number `index` of a table common to all variants is run. On a slow
 * implementation the variants of one kernel source divide the table among themselves, so that each
 * source is tested with all of it. Elsewhere the result is always true.
 */
bool test_part_is_due(const test_device *device, const tdm_variant *row, int index);

#endif
