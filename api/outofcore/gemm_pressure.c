/*
 * This is the fallback of tdm_gemm if there is no memory for its workspace. D is computed in tiles
 * that share a smaller workspace.
 *
 * Every tile uses the kernel and the number of parts of K of the whole GEMM. The result therefore
 * has the same bits.
 */
#include <stdio.h>

#include "api/outofcore/outofcore_internal.h"

/* Smaller tiles would not save a significant amount of workspace. */
#define MIN_EXTENT 64

static bool is_shortage(tdm_status status) {
    return status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET;
}

/* Halves the longer side after rounding it up to a multiple of MIN_EXTENT. Returns false if the
 * tile is already small. */
static bool halve(tdm_ooc_choice *choice) {
    int64_t *const longer =
        choice->tile_columns >= choice->tile_rows ? &choice->tile_columns : &choice->tile_rows;
    if (*longer <= MIN_EXTENT)
        return false;
    *longer = tdm_ceil_div(*longer, MIN_EXTENT) * (MIN_EXTENT / 2);
    return true;
}

/* Tries smaller and smaller tiles until there is memory for the workspace. `status` is the earlier
 * failure. Its detail is kept if all tiles fail. */
static tdm_status allocate_for_tiles(tdm_outofcore_plan *tiles, tdm_stream *stream,
                                     uint64_t refused, tdm_status status) {
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    do {
        uint64_t workspace;
        if (!tdm_ooc_keeps_family(&tiles->problem, tiles->choice.tile_rows,
                                  tiles->choice.tile_columns))
            continue;
        TDM_TRY(tdm_ooc_build_products(tiles, &workspace));
        if (workspace == 0)
            return TDM_OK;
        if (workspace >= refused)
            continue;
        refused = workspace;
        status =
            tdm_buffer_create_for(tiles->device, stream->id, (size_t)workspace, &tiles->workspace);
        if (!is_shortage(status))
            return status;
    } while (halve(&tiles->choice));
    return tdm_fail(status, "%s", detail);
}

static tdm_status run_in_tiles(tdm_outofcore_plan *tiles, const tdm_gemm_plan *plan,
                               const tdm_gemm_args *args, tdm_status status) {
    tdm_stream *const stream = tiles->streams[TDM_OOC_COMPUTE];
    const tdm_outofcore_desc desc = {.gemm = plan->desc, .on_device = ~0u};
    const tdm_outofcore_args operands = {.struct_size = sizeof operands,
                                         .a.tensor = args->a,
                                         .b.tensor = args->b,
                                         .c.tensor = args->c,
                                         .bias.tensor = args->bias,
                                         .residual.tensor = args->residual,
                                         .d.tensor = args->d};
    TDM_TRY(tdm_ooc_problem_from(&desc, plan, &tiles->problem));
    tiles->choice = (tdm_ooc_choice){.tile_rows = tiles->problem.m,
                                     .tile_columns = tiles->problem.n,
                                     .a_slots = 1,
                                     .b_slots = 1,
                                     .d_slots = 1};
    TDM_TRY(allocate_for_tiles(tiles, stream, plan->workspace_bytes, status));
    tdm_log(TDM_LOG_INFO, "pool",
            "gemm: no memory for a workspace of %llu bytes: running in tiles of %lld by %lld",
            (unsigned long long)plan->workspace_bytes, (long long)tiles->choice.tile_rows,
            (long long)tiles->choice.tile_columns);
    return tdm_ooc_run_in_place(tiles, stream, &operands);
}

tdm_status tdm_gemm_run_in_tiles(const tdm_gemm_plan *plan, tdm_stream *stream,
                                 const tdm_gemm_args *args, tdm_status status) {
    if (!is_shortage(status) || tdm_gemm_z_count(&plan->problem) == 0)
        return status;
    tdm_outofcore_plan *const tiles = tdm_host_calloc(1, sizeof *tiles);
    if (!tiles)
        return status;
    tiles->device = stream->device;
    tiles->streams[TDM_OOC_COMPUTE] = stream;
    status = run_in_tiles(tiles, plan, args, status);
    tdm_buffer_destroy(tiles->workspace);
    tdm_ooc_drop_products(tiles);
    tdm_ooc_schedule_release(&tiles->schedule);
    tdm_host_free(tiles);
    return status;
}
