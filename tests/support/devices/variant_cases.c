#include "tests/support/devices/variant_cases.h"

#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/pairwise.h"

enum {
    /* These are the numbers of cases on a slow implementation: */
    FIRST_CASES = 12, /* for the first variant of a kernel source */
    MORE_CASES = 6,   /* for each other variant */
    SMALL_PARTS = 3   /* most shares into which the variants of one kernel source split a table */
};

/* True for a variant that devices of every kind can run. */
static bool is_portable(const tdm_variant *row) {
    return (row->requires & ~(uint32_t)TDM_CAP_CORRECT_DIVIDE) == 0;
}

/*
 * Counts the variants before `end` that have the op and kernel source of `row` and that the device
 * can run. On a slow implementation, portable variants are counted separately. Their cases then do
 * not depend on the other variants that the device can run. check_executed_cases.sh compares these
 * cases.
 */
static int count_in_text(const test_device *device, const tdm_variant *row,
                         const tdm_variant *end) {
    int number = 0;
    for (const tdm_variant *other = tdm_variants; other < end; other++)
        number += other->op == row->op && strcmp(other->source, row->source) == 0 &&
                  (!test_is_small() || is_portable(other) == is_portable(row)) &&
                  test_can_run(device, other);
    return number;
}

/* Index of the variant among those of its op and kernel source that the device can run. */
static int number_in_text(const test_device *device, const tdm_variant *row) {
    return count_in_text(device, row, row);
}

bool test_part_is_due(const test_device *device, const tdm_variant *row, int index) {
    const int rows = count_in_text(device, row, tdm_variants + tdm_variant_count);
    const int parts = !test_is_small() ? 1 : rows < SMALL_PARTS ? rows : SMALL_PARTS;
    return (index + number_in_text(device, row)) % parts == 0;
}

bool test_case_is_due(const test_device *device, const tdm_variant *row, int index) {
    const int number = number_in_text(device, row);
    return test_is_small() ? test_part_is_due(device, row, index)
                           : number == 0 || (index + number) % 2 == 0;
}

/*
 * Changes the cache size in every second pair of cases to 1 byte, so that kernels use non-temporal
 * stores if they can.
 */
static void choose_caches(const test_device *device, int index) {
    device->device->info.cache_bytes = index / 2 % 2 == 0 ? device->info.cache_bytes : 1;
}

void test_every_variant(tdm_op op, int factors, const int levels[], variant_case *run) {
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        for (int v = 0; v < tdm_variant_count; v++) {
            if (tdm_variants[v].op != op || !test_can_run(device, &tdm_variants[v]))
                continue;
            static pairwise sample; // half a megabyte
            int row[PAIRWISE_MAX_FACTORS];
            pairwise_start(&sample, factors, levels, (uint64_t)v);
            for (int index = 0; pairwise_next(&sample, row); index++) {
                choose_caches(device, index);
                if (test_case_is_due(device, &tdm_variants[v], index))
                    run(device, &tdm_variants[v], row);
            }
            choose_caches(device, 0);
        }
    }
    test_require_all_variants(op);
}

void test_sample_of_variant(const test_device *device, const tdm_variant *variant, int factors,
                            const int levels[], uint64_t seed, variant_trial *run) {
    static pairwise sample;
    int level[PAIRWISE_MAX_FACTORS];
    const int number = number_in_text(device, variant);
    // On a slow implementation each variant runs few cases, so each one has a sample of its own.
    if (test_is_small())
        seed += (uint64_t)number * 1000;
    pairwise_start(&sample, factors, levels, seed);
    for (int cases = 0; pairwise_next(&sample, level); cases++) {
        if (test_is_small() && cases == (number == 0 ? FIRST_CASES : MORE_CASES))
            break;
        if (test_is_small() || test_case_is_due(device, variant, cases))
            run(device, variant, level, seed++);
    }
}

void test_each_variant(tdm_op op, variant_choice *takes, variant_body *body) {
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++) {
            const tdm_variant *const row = &tdm_variants[i];
            if (row->op == op && (!takes || takes(row)) && test_can_run(test_device_at(d), row))
                body(test_device_at(d), row);
        }
}

void test_case_of_each_variant(tdm_op op, const char *name, variant_body *body) {
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++) {
            const test_device *const device = test_device_at(d);
            const tdm_variant *const row = &tdm_variants[i];
            if (row->op != op || !test_can_run(device, row) ||
                !test_case_begin(device, row->name, "%s", name))
                continue;
            body(device, row);
            test_case_end();
        }
    test_require_all_variants(op);
}

bool test_case_begin_forced(const test_device *device, const char *variant, const char *text) {
    char name[128];
    const size_t length = variant ? strcspn(variant, ":") : 0;
    if (!variant || variant[length] == '\0')
        return test_case_begin(device, variant, "%s", text);
    snprintf(name, sizeof name, "%.*s", (int)length, variant);
    return test_case_begin(device, name, "%s %s", variant + length + 1, text);
}

bool test_has_gaps(int rank, const int64_t *shape, test_placement placement) {
    // Rows of one element have padding between all elements.
    return placement == TEST_TRANSPOSED || placement == TEST_SPREAD ||
           (rank > 0 && shape[rank - 1] == 1);
}
