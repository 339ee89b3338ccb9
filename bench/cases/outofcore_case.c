#include "bench/cases/outofcore_case.h"

#include <stdio.h>
#include <stdlib.h>

void outofcore_case_write(const outofcore_case *item, worker_text *line) {
    char share[32];
    gemm_case_write(&item->gemm, line);
    snprintf(share, sizeof share, "%.17g", item->share);
    worker_field_add(line, "share", share);
    worker_field_add_integer(line, "way", item->way);
}

int outofcore_case_read(const char *line, outofcore_case *item) {
    char share[32];
    const int64_t way = worker_field_integer(line, "way", -1);
    if (gemm_case_read(line, &item->gemm) != 0 ||
        !worker_field(line, "share", share, sizeof share) || way < 0 || way >= OUTOFCORE_WAYS)
        return -1;
    item->share = strtod(share, NULL);
    item->way = (outofcore_way)way;
    return item->share > 0 ? 0 : -1;
}

void outofcore_case_name(const outofcore_case *item, char *text, size_t size) {
    char gemm[96];
    gemm_case_name(&item->gemm, gemm, sizeof gemm);
    snprintf(text, size, "%s in %.3g", gemm, item->share);
}

uint64_t outofcore_case_budget(const outofcore_case *item) {
    return (uint64_t)(item->share * gemm_case_operand_bytes(&item->gemm));
}
