#include "bench/tune/choices_page.h"

#include <math.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/cases/gemm_sets.h"
#include "bench/tune/paper_device.h"
#include "common/cli_options.h"

static const char page_head[] =
    "# What CUDA devices are given\n"
    "\n"
    "Printed by `tandem choices --page`, which makes plans by the library's own rules for devices "
    "that are descriptions only; a test\n"
    "compares. A cell has the kernel, the parts of K where it is split (/4), and the time that the "
    "model of\n"
    "[occupancy-and-waves](decisions/occupancy-and-waves.md) predicts, from the greatest clock "
    "that drivers tell. **model**: nothing here was\n"
    "measured on hardware. `tandem choices --device NAME` prints any shape for more devices. Sets "
    "have the layout and the packing that\n"
    "`tandem bench gemm` gives them: nt is B stored as N x K; prepacked is that B packed before. "
    "f16w4 are weights of s4 with a scale for 32\n"
    "steps of K, beside f16.\n";

static const char *const page_devices[] = {"H200", "A100-80 SXM"};

/* M of sets that have rows, where not all fit a page. */
static const char page_rows[] = "1,16,64,128,512,2048,4096";

static const struct {
    const char *set;
    const char *dtypes;
    int fewer_rows;
} page_sets[] = {{"llama8b", "f16,s8,f16w4", 1},  {"llama70b", "f16,s8,f16w4", 1},
                 {"deepseek", "f16,s8,f16w4", 1}, {"bert", "f16,s8,f32", 0},
                 {"attention", "f16,f32", 0},     {"tails", "f16,s8,f32", 0},
                 {"large", "f16,s8,f32", 0}};

/* "gemm_f16_wgmma_128x256__sm90a" as "wgmma 128x256". */
static void print_kernel(const char *variant, FILE *file) {
    const char *const end = strstr(variant, "__");
    const char *const types = strchr(variant, '_');
    const char *const family = types != NULL ? strchr(types + 1, '_') : NULL;
    for (const char *at = family != NULL ? family + 1 : variant; *at != '\0' && at != end; at++)
        fputc(*at == '_' ? ' ' : *at, file);
}

/* "wgmma 128x128 /4, 35.0 us" */
static int print_choice(paper_device *device, const gemm_case *item, FILE *file) {
    paper_choice choice;
    if (paper_device_choose(device, item, &choice) != 0) {
        fprintf(file, " no plan: %s |", tdm_last_detail());
        return -1;
    }
    fputc(' ', file);
    print_kernel(choice.variant, file);
    if (choice.parts > 1)
        fprintf(file, " /%lld", (long long)choice.parts);
    if (!isnan(choice.seconds))
        fprintf(file, ", %.*f us", choice.seconds < 1e-4 ? 1 : 0, choice.seconds * 1e6);
    fputs(" |", file);
    return 0;
}

static int count_rows(const gemm_set *set) {
    int count = 0;
    while (count < GEMM_SET_MAX_ROWS && set->rows[count] != 0)
        count++;
    return count;
}

static void print_head(const gemm_set *set, const gemm_case *item, int rows, FILE *file) {
    fprintf(file, "\n**%s, %s, %s, %s**\n\n|", set->name, gemm_types_name(item->types),
            set->layouts, set->packings);
    fputs(rows > 0 ? " N x K |" : " M x N x K | kernel |", file);
    for (int i = 0; i < rows; i++)
        fprintf(file, " M %lld |", (long long)set->rows[i]);
    fputs("\n|", file);
    for (int i = 0; i < (rows > 0 ? rows + 1 : 2); i++)
        fputs("---|", file);
}

/* The set's shapes, with `item`'s types and layout: M along the top where the set has rows. */
static int print_set(paper_device *device, const gemm_set *set, gemm_case item, FILE *file) {
    const int rows = count_rows(set), columns = rows > 0 ? rows : 1;
    int failed = 0;
    print_head(set, &item, rows, file);
    for (int i = 0; i < gemm_set_size(set); i++) {
        if (i % columns == 0)
            fprintf(file, "\n| %s |", set->shapes[i / columns]);
        gemm_set_shape(set, i, &item);
        failed |= print_choice(device, &item, file);
    }
    fputc('\n', file);
    return failed;
}

static int print_device(const char *name, FILE *file) {
    paper_device *const device = paper_device_create(name);
    int failed = 0;
    if (device == NULL)
        return -1;
    const tdm_device_info *const info = paper_device_info(device);
    fprintf(file, "\n## %s\n\n%u units at %u MHz, compute capability %u.%u.\n", name,
            info->compute_units, info->clock_mhz, info->architecture / 10, info->architecture % 10);
    for (size_t i = 0; i < sizeof page_sets / sizeof *page_sets; i++) {
        const char *dtypes = page_sets[i].dtypes;
        gemm_set set = *gemm_set_find(page_sets[i].set);
        char word[16];
        if (page_sets[i].fewer_rows)
            gemm_set_take_rows(&set, page_rows);
        while (cli_next_word(&dtypes, ',', word, sizeof word) == 1) {
            const gemm_case item = {.types = gemm_types_find(word),
                                    .transpose_a = set.layouts[0] == 't',
                                    .transpose_b = set.layouts[1] == 't',
                                    .prepacked = strcmp(set.packings, "prepacked") == 0};
            failed |= print_set(device, &set, item, file);
        }
    }
    paper_device_destroy(device);
    return failed;
}

int choices_page_write(FILE *file) {
    int failed = 0;
    fputs(page_head, file);
    for (size_t i = 0; i < sizeof page_devices / sizeof *page_devices; i++)
        failed |= print_device(page_devices[i], file);
    return failed;
}
