/* Tests the datasheets. Every datasheet names its source. A driver's device name finds the
 * datasheet of that device and no other. */
#include <math.h>
#include <string.h>

#include "bench/record/device_database.h"
#include "tests/support/test_case.h"

/* Every datasheet is complete, except for the last-level cache of one device, which no source
 * gives. */
TEST(every_sheet_is_whole) {
    for (size_t i = 0; datasheet_at(i) != NULL; i++) {
        const datasheet *const sheet = datasheet_at(i);
        assert_non_null(sheet->source);
        assert_ptr_equal(datasheet_find(sheet->name), sheet);
        const int no_cache = strcmp(sheet->name, "Orin Nano Super") == 0;
        for (int field = 0; field < DATASHEET_FIELDS; field++) {
            const int missing = no_cache && field == DATASHEET_CACHE_MB;
            if (isnan(sheet->values[field]) != missing)
                fail_msg("%s: value %d is %s", sheet->name, field,
                         missing ? "known after all" : "not known");
        }
    }
}

/* Each pin of a bus moves one bit per transfer. An absurd transfer rate reveals a typing error in a
 * datasheet. */
TEST(bandwidths_fit_their_bus) {
    static const struct {
        const char *memory;
        double least; /* GT/s per pin */
        double most;
    } rows[] = {
        {"HBM2", 1, 2.5},    {"HBM2e", 2.4, 3.7}, {"HBM3", 5, 6.5},    {"HBM3e", 6, 9.9},
        {"GDDR6", 10, 20.1}, {"GDDR6X", 19, 24},  {"GDDR7", 24, 32.1}, {"LPDDR5", 5, 8.6},
    };
    unsigned seen = 0;
    for (size_t i = 0; datasheet_at(i) != NULL; i++) {
        const datasheet *const sheet = datasheet_at(i);
        const double speed =
            8 * sheet->values[DATASHEET_DRAM_GBS] / sheet->values[DATASHEET_BUS_BITS];
        size_t row = 0;
        while (row < 8 && strcmp(rows[row].memory, sheet->memory_type) != 0)
            row++;
        assert_true(row < 8);
        seen |= 1U << row;
        if (!(speed >= rows[row].least && speed <= rows[row].most))
            fail_msg("%s: %g GT/s of a pin", sheet->name, speed);
    }
    assert_int_equal(seen, 0xff); /* every type of memory occurs */
}

static void finds(const char *device, const char *sheet) {
    const datasheet *const found = datasheet_find(device);
    const char *const name = found == NULL ? "none" : found->name;
    assert_string_equal(name, sheet == NULL ? "none" : sheet);
}

TEST(names_of_drivers) {
    finds("NVIDIA GeForce RTX 4090", "RTX 4090");
    finds("RTX-4090", "RTX 4090");
    finds("cuda/nvidia/NVIDIA GeForce RTX 4090", "RTX 4090");
    finds("NVIDIA GeForce RTX 4090 Laptop GPU", NULL);
    finds("NVIDIA GeForce RTX 4090 D", NULL);
    finds("NVIDIA GeForce RTX 3090 Ti", NULL);
    finds("NVIDIA GeForce RTX 3090", "RTX 3090");
    finds("NVIDIA A100-SXM4-40GB", "A100-40 SXM");
    finds("NVIDIA A100-SXM4-80GB", "A100-80 SXM");
    finds("NVIDIA A100-PCIE-40GB", NULL);
    finds("A100-80", "A100-80 SXM");
    finds("NVIDIA H100 PCIe", "H100 PCIe");
    finds("NVIDIA H100 80GB HBM3", "H100 SXM");
    finds("NVIDIA H100 NVL", NULL);
    finds("NVIDIA H200", "H200");
    finds("NVIDIA H200 NVL", NULL);
    finds("NVIDIA H200 MIG 1g.18gb", NULL); /* a seventh of the GPU */
    finds("NVIDIA A100-SXM4-40GB MIG 3g.20gb", NULL);
    finds("NVIDIA H100 80GB HBM3 MIG 1g.10gb", NULL);
    finds("NVIDIA A100-40 SXM4 MIG 1g.5gb", NULL); /* with a word between */
    finds("NVIDIA L4", "L4");
    finds("NVIDIA L40S", "L40S");
    finds("NVIDIA L40", NULL);
    finds("NVIDIA A10G", NULL);
    finds("Tesla T4", "T4");
    // The device has 8 or 16 GB, and its name has characters between the words.
    finds("Intel(R) Arc(TM) A770 Graphics", NULL);
    finds("AMD Instinct MI300X", "MI300X");
    finds("pthread-skylake-avx512-AMD EPYC", NULL);
    finds("Orin", NULL);
    finds("", NULL);
    finds(NULL, NULL);
}

TEST(boards_of_chips) {
    static const struct {
        const char *board;
        const char *device;
        const char *sheet;
    } rows[] = {
        {"AMD Instinct MI300X", "gfx942:sramecc+:xnack-", "MI300X"},
        {"AMD Radeon RX 7900 XTX", "gfx1100", "RX 7900 XTX"},
        {"AMD Radeon RX 7900 XT", "gfx1100", "none"},
        {"", "NVIDIA L4", "L4"},
        {NULL, "NVIDIA L4", "L4"},
        {"", "gfx942", "none"},
        {NULL, NULL, "none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const datasheet *const found = datasheet_of_board(rows[i].board, rows[i].device);
        assert_string_equal(found == NULL ? "none" : found->name, rows[i].sheet);
    }
}

TEST(peaks_of_types) {
    const datasheet *const sheet = datasheet_find("RTX 4090");
    assert_true(datasheet_peak_gflops(sheet, "f32") == 82600);
    assert_true(datasheet_peak_gflops(sheet, "bf16") == 165000);
    assert_true(datasheet_peak_gflops(sheet, "w4") == 165000);
    assert_true(datasheet_peak_gflops(sheet, "f16w4") == 165000);
    assert_true(datasheet_peak_gflops(sheet, "u8s8") == 661000);
    assert_true(isnan(datasheet_peak_gflops(sheet, "f64")));
    assert_true(isnan(datasheet_peak_gflops(sheet, NULL)));
    assert_true(isnan(datasheet_peak_gflops(NULL, "f32")));
    assert_true(isnan(datasheet_find("Orin Nano Super")->values[DATASHEET_CACHE_MB]));
}

TEST_MAIN(NULL, NULL)
