#include "tests/support/variant_cases.h"

#include "tests/support/pairwise.h"

void test_every_variant(tdm_op op, int factors, const int levels[], variant_case *run) {
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        for (int v = 0; v < tdm_variant_count; v++) {
            if (tdm_variants[v].op != op || !test_can_run(device, &tdm_variants[v]))
                continue;
            static pairwise sample; // half a megabyte
            int row[PAIRWISE_MAX_FACTORS];
            pairwise_start(&sample, factors, levels, (uint64_t)v);
            while (pairwise_next(&sample, row))
                run(device, &tdm_variants[v], row);
        }
    }
    test_require_all_variants(op);
}

bool test_has_gaps(int rank, const int64_t *shape, test_placement placement) {
    // Rows of one element leave the padding between all of them.
    return placement == TEST_TRANSPOSED || placement == TEST_SPREAD ||
           (rank > 0 && shape[rank - 1] == 1);
}
