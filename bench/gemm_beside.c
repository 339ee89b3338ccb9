#include "bench/gemm_beside.h"

#include "bench/bench_peers.h"

void gemm_beside_enter(gemm_beside *beside, bench_entrant *entrant) {
    bench_entrant_self(entrant, GEMM_BESIDE_NAME, "gemm");
    beside->entrant = entrant;
}

int gemm_beside_prepare(gemm_beside *beside, const char *suite, const gemm_case *item,
                        const worker_text *device) {
    if (beside->entrant == NULL)
        return 0;
    beside->entrant->missing = item->types == GEMM_F32 ? "the case itself is in f32" : NULL;
    beside->item = *item;
    beside->item.types = GEMM_F32;
    beside->row = gemm_case_row(&beside->item, suite, beside->name);
    worker_text_set(&beside->request, "%s", "");
    gemm_case_write(&beside->item, &beside->request);
    worker_text_add(&beside->request, "%s", device->text);
    beside->task = (bench_task){
        .request = beside->request.text,
        .verify = gemm_oracle_check,
        .user = &beside->oracle,
        .waited = item->waited,
    };
    beside->entrant->task = &beside->task;
    beside->entrant->row = &beside->row;
    return gemm_oracle_set(&beside->oracle, &beside->item);
}

void gemm_beside_release(gemm_beside *beside) {
    gemm_oracle_release(&beside->oracle);
}

bench_result gemm_case_row(const gemm_case *item, const char *suite,
                           char name[MAX_GEMM_CASE_NAME]) {
    const op_gemm_case operation = gemm_case_operation(item);
    gemm_case_name(item, name, MAX_GEMM_CASE_NAME);
    bench_result row = {
        .suite = suite,
        .case_name = name,
        .dtype = gemm_types_name(item->types),
        .shape = {{"m", (double)item->m},
                  {"n", (double)item->n},
                  {"k", (double)item->k},
                  {"batch", (double)gemm_case_batch(item)},
                  {"transpose_a", item->transpose_a},
                  {"transpose_b", item->transpose_b}},
        .mode = item->waited ? "waited" : "pipelined",
        .packing = item->prepacked ? "prepacked" : "inside",
        .flops = op_gemm_flops(&operation),
        .bytes = gemm_case_operand_bytes(item),
    };
    if (gemm_case_copies(item) > 1)
        row.shape[6] = (result_number){"copies_of_b", gemm_case_copies(item)};
    return row;
}
