#include "bench/suites/gemm_beside.h"

#include <math.h>
#include <string.h>

#include "bench/harness/bench_peers.h"
#include "bench/harness/bench_report.h"
#include "common/command/cli_options.h"

void gemm_beside_enter(gemm_beside *beside, const char *name, bench_entrant *entrant) {
    bench_entrant_self(entrant, name, "gemm");
    beside->entrant = entrant;
}

gemm_case gemm_beside_f32(const gemm_case *item) {
    gemm_case f32 = *item;
    f32.types = GEMM_F32;
    return f32;
}

const char *gemm_beside_f32_missing(const gemm_case *item) {
    return item->types == GEMM_F32 ? "the case itself is in f32" : NULL;
}

gemm_case gemm_beside_fused(const gemm_case *item, const gemm_case_epilogue *epilogue) {
    gemm_case fused = *item;
    fused.types = gemm_types_with_requantized(item->types);
    fused.epilogue = *epilogue;
    return fused;
}

const char *gemm_beside_fused_missing(const gemm_case *fused) {
    const tdm_activation activation = fused->epilogue.activation;
    const int takes_it = activation == TDM_ACT_NONE || activation == TDM_ACT_RELU;
    return gemm_types_requantized(fused->types) && (fused->epilogue.residual || !takes_it)
               ? "sums that are requantized take bias and relu, no residual and no other activation"
               : NULL;
}

int gemm_beside_prepare(gemm_beside *beside, const char *suite, const gemm_case *item,
                        const char *missing, const worker_text *fields) {
    beside->entrant->missing = missing;
    beside->item = *item;
    beside->row = gemm_case_row(&beside->item, suite, beside->name);
    worker_text_set(&beside->request, "%s", "");
    gemm_case_write(&beside->item, &beside->request);
    worker_text_add(&beside->request, "%s", fields->text);
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

double gemm_beside_note_cost(gemm_beside *fused, const bench_entrant *plain) {
    const double cost = bench_entrant_median(fused->entrant) / bench_entrant_median(plain) - 1;
    if (isfinite(cost))
        fused->row.metrics[0] = (result_number){"epilogue_cost", cost};
    return cost;
}

void gemm_beside_release(gemm_beside *beside) {
    gemm_oracle_release(&beside->oracle);
}

const char gemm_epilogue_choices[] = "bias|residual|relu|gelu|gelu_tanh|silu";

int gemm_epilogue_parse(const char *list, gemm_case_epilogue *epilogue) {
    static const struct {
        const char *name;
        tdm_activation activation;
    } activations[] = {{"relu", TDM_ACT_RELU},
                       {"gelu", TDM_ACT_GELU},
                       {"gelu_tanh", TDM_ACT_GELU_TANH},
                       {"silu", TDM_ACT_SILU}};
    *epilogue = (gemm_case_epilogue){.bias = cli_list_has(list, "bias"),
                                     .residual = cli_list_has(list, "residual")};
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (!cli_list_has(list, activations[i].name))
            continue;
        if (epilogue->activation != TDM_ACT_NONE)
            return -1;
        epilogue->activation = activations[i].activation;
    }
    return 0;
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
