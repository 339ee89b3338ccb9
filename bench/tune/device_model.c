#include "bench/tune/device_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "bench/record/device_database.h"

/*
 * Data that the datasheets lack: compute capability, multiprocessors, the highest clock (which a
 * driver reports), and whether the board is a GeForce. They are from NVIDIA's pages of these boards
 * as of 2026-11-22, and were not re-checked.
 */
typedef struct model_row {
    const char *sheet;
    uint32_t architecture, units, clock_mhz;
    const char *brand;
} model_row;

#define MODEL_LIST(X)                                                                              \
    X("A100-40 SXM", 80, 108, 1410, "")                                                            \
    X("A100-80 SXM", 80, 108, 1410, "")                                                            \
    X("H100 SXM", 90, 132, 1980, "")                                                               \
    X("H100 PCIe", 90, 114, 1755, "")                                                              \
    X("H200", 90, 132, 1980, "")                                                                   \
    X("B200", 100, 148, 1965, "")                                                                  \
    X("L4", 89, 58, 2040, "")                                                                      \
    X("L40S", 89, 142, 2520, "")                                                                   \
    X("A10", 86, 72, 1695, "")                                                                     \
    X("T4", 75, 40, 1590, "")                                                                      \
    X("RTX 3090", 86, 82, 1695, "GeForce ")                                                        \
    X("RTX 4090", 89, 128, 2520, "GeForce ")                                                       \
    X("RTX 5090", 120, 170, 2407, "GeForce ")                                                      \
    X("AGX Orin 64", 87, 16, 1300, "")                                                             \
    X("Orin Nano Super", 87, 8, 1020, "")

static const model_row rows[] = {
#define MODEL_ROW(sheet, architecture, units, clock_mhz, brand)                                    \
    {sheet, architecture, units, clock_mhz, brand},
    MODEL_LIST(MODEL_ROW)
#undef MODEL_ROW
};

#define MODEL_NAME(sheet, architecture, units, clock_mhz, brand) ", " sheet
static const char names[] = MODEL_LIST(MODEL_NAME);
#undef MODEL_NAME

const char *const device_model_names = names + 2;

/* Returns the shared memory per block (CUDA C++ Programming Guide, technical specifications). */
static uint64_t local_bytes_of(uint32_t architecture) {
    switch (architecture) {
    case 75:
        return 65536;
    case 80:
    case 87:
        return 166912;
    case 90:
    case 100:
        return 232448;
    default:
        return 101376;
    }
}

/* Returns the capabilities that plans use, for a build with code for every architecture. */
static uint32_t capabilities_of(uint32_t architecture) {
    return (uint32_t)TDM_CAP_CUDA | TDM_CAP_LOCAL_MEMORY | TDM_CAP_FP16_ARITHMETIC | TDM_CAP_FP64 |
           TDM_CAP_SUBGROUPS | TDM_CAP_INT8_DOT | TDM_CAP_CORRECT_DIVIDE | TDM_CAP_UNLIMITED_LOOPS |
           TDM_CAP_TENSOR_CORES | (architecture >= 80 ? TDM_CAP_ASYNC_COPY : 0u) |
           (architecture == 90 ? TDM_CAP_WGMMA : 0u);
}

struct device_model {
    tdm_device device;
    tdm_backend backend; /* none of its functions is called */
    tdm_kernel *kernels;
    _Atomic(tdm_kernel *) *built;
};

static void describe(const model_row *row, const datasheet *sheet, tdm_device_info *info) {
    const double *const values = sheet->values;
    const double cache_mb = values[DATASHEET_CACHE_MB]; /* NaN: not reported */
    const uint64_t bytes = (uint64_t)(values[DATASHEET_CAPACITY_GB] * 1e9);
    /* The whole bus makes two transfers per cycle of the memory clock. */
    const double memory_mhz = values[DATASHEET_DRAM_GBS] * 1e3 * 8 / values[DATASHEET_BUS_BITS] / 2;
    *info = (tdm_device_info){
        .struct_size = sizeof *info,
        .backend = "cuda",
        .driver_family = "nvidia",
        .type = TDM_DEVICE_GPU,
        .capabilities = capabilities_of(row->architecture),
        .compute_units = row->units,
        .clock_mhz = row->clock_mhz,
        .max_group_items = 1024,
        .address_bits = 64,
        .subgroup_size = 32,
        .global_bytes = bytes,
        .max_alloc_bytes = bytes,
        .local_bytes = local_bytes_of(row->architecture),
        .cache_bytes = cache_mb > 0 ? (uint64_t)(cache_mb * 1e6) : 0,
        .vendor_id = 0x10de,
        .architecture = row->architecture,
        .memory_clock_mhz = (uint32_t)memory_mhz,
        .memory_bus_bits = (uint32_t)values[DATASHEET_BUS_BITS],
    };
    snprintf(info->name, sizeof info->name, "NVIDIA %s%s", row->brand, row->sheet);
    snprintf(info->selector, sizeof info->selector, "cuda/nvidia/%s", info->name);
}

/* Marks every kernel as built, so that the backend is never asked for one. */
static int build_all(device_model *made) {
    made->kernels = calloc((size_t)tdm_variant_count, sizeof *made->kernels);
    made->built = calloc((size_t)tdm_variant_count, sizeof *made->built);
    if (made->kernels == NULL || made->built == NULL)
        return -1;
    for (int i = 0; i < tdm_variant_count; i++) {
        made->kernels[i].variant = &tdm_variants[i];
        made->kernels[i].limits.max_group_items = made->device.info.max_group_items;
        atomic_init(&made->kernels[i].verdict, TDM_KERNEL_RIGHT);
        atomic_init(&made->built[i], &made->kernels[i]);
    }
    made->device.kernels = made->built;
    made->device.api = &made->backend;
    return 0;
}

device_model *device_model_create(const char *name) {
    const datasheet *const sheet = datasheet_find(name);
    const model_row *row = NULL;
    for (size_t i = 0; sheet != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].sheet, sheet->name) == 0)
            row = &rows[i];
    }
    device_model *const made = row != NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL)
        return NULL;
    describe(row, sheet, &made->device.info);
    made->device.tuning = tdm_tuning_open(&made->device.info);
    if (made->device.tuning == NULL || build_all(made) != 0) {
        device_model_destroy(made);
        return NULL;
    }
    return made;
}

void device_model_destroy(device_model *device) {
    if (device == NULL)
        return;
    tdm_tuning_close(device->device.tuning);
    free(device->built);
    free(device->kernels);
    free(device);
}

const tdm_device_info *device_model_info(const device_model *device) {
    return &device->device.info;
}

/* Describes the scales of B: one for each column and group along K, as in the benchmark's cases. */
static tdm_status describe_scales(const gemm_case *item, int rank, tdm_quant_layout *quant) {
    const int columns = rank - 1 - item->transpose_b, steps = rank - 2 + item->transpose_b;
    int64_t shape[TDM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = 1;
    shape[columns] = item->n;
    shape[steps] = gemm_case_groups(item);
    quant->block[columns] = 1;
    quant->block[steps] = gemm_types_group(item->types);
    return tdm_layout_contiguous(gemm_types_scale(item->types), rank, shape, &quant->scale);
}

static tdm_status describe_case(const gemm_case *item, tdm_gemm_desc *desc) {
    const op_gemm_case operation = gemm_case_operation(item);
    tdm_layout *const layouts[] = {
        [OP_GEMM_A] = &desc->a, [OP_GEMM_B] = &desc->b, [OP_GEMM_D] = &desc->d};
    static const op_gemm_operand operands[] = {OP_GEMM_A, OP_GEMM_B, OP_GEMM_D};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        int64_t shape[TDM_MAX_RANK];
        const int rank = op_gemm_shape(&operation, operands[i], shape);
        tdm_status status =
            tdm_layout_contiguous(operation.dtype[operands[i]], rank, shape, layouts[operands[i]]);
        if (status == TDM_OK && operands[i] == OP_GEMM_B &&
            gemm_types_quantized(item->types, OP_GEMM_B))
            status = describe_scales(item, rank, &desc->b_quant);
        if (status != TDM_OK)
            return status;
    }
    desc->transpose_a = item->transpose_a;
    desc->transpose_b = item->transpose_b;
    desc->packed_b = item->prepacked;
    desc->quantize_a = gemm_types_dynamic(item->types);
    desc->allow_3xtf32 = gemm_types_allow_3xtf32(item->types);
    return TDM_OK;
}

static void take_choice(const tdm_gemm_plan *plan, const tdm_device_info *info,
                        modelled_choice *choice) {
    while (plan->stages.inner != NULL)
        plan = plan->stages.inner;
    tdm_gemm_waves waves;
    *choice = (modelled_choice){.variant = plan->kernel->variant->name,
                                .parts = plan->split.parts > 0 ? plan->split.slots : 1,
                                .seconds = NAN};
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        choice->seconds = tdm_gemm_stream_ns(tdm_gemm_whole(plan), info) * 1e-9;
    if (!tdm_gemm_has_wave_model(plan->kernel->variant))
        return;
    tdm_gemm_waves_of(tdm_gemm_whole(plan), plan->kernel->variant, info,
                      plan->split.parts > 0 ? plan->split.asked : 1, &waves);
    choice->waves = waves.waves;
    choice->seconds = waves.ns * 1e-9;
}

int device_model_choose(device_model *device, const gemm_case *item, modelled_choice *choice) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan = NULL;
    tdm_status status = describe_case(item, &desc);
    if (status == TDM_OK)
        status = tdm_gemm_plan_build(&device->device, &desc, false, &plan);
    if (status != TDM_OK)
        return -1;
    take_choice(plan, &device->device.info, choice);
    tdm_gemm_plan_destroy(plan);
    return 0;
}
