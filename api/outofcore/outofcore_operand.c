/* These functions lay out the tiles of operands in slots, and copy them between slots and host
 * memory. */
#include <stdio.h>
#include <string.h>

#include "api/outofcore/outofcore_internal.h"

/* Rows of a slot begin on a cache line. Their distance is not a multiple of ALIKE_BYTES, because
 * such rows would share few cache sets. */
#define PITCH_BYTES 64
#define ALIKE_BYTES 1024

/* True if neighbouring columns of a tile are adjacent in its slot, as they are in the operand. It
 * is also true if the operand is contiguous along neither dimension. */
static bool along_columns(const tdm_ooc_operand *o) {
    return o->column == 1 || o->row != 1;
}

/* Checks an operand whose elements share bytes. It is copied in contiguous lines, and each line
 * must begin at a byte. */
static tdm_status check_host_units(const tdm_ooc_operand *o) {
    char what[48];
    const tdm_layout *const layout = &o->whole;
    const int per = tdm_dtype_info(layout->dtype)->elements_per_unit;
    const int64_t step = along_columns(o) ? o->column : o->row;
    if (per == 1 || o->rows == 0 || o->columns == 0)
        return TDM_OK;
    snprintf(what, sizeof what, "outofcore: %s in host memory", o->name);
    TDM_TRY(tdm_layout_check_units(layout, 0, what));
    if (step > 1 || (step == 0 && o->rows > 1 && o->columns > 1))
        return tdm_fail(TDM_UNSUPPORTED,
                        "outofcore: %s of %s in host memory is contiguous along neither dimension",
                        o->name, tdm_dtype_name(layout->dtype));
    int by_one = 0;
    for (int i = 0; i < layout->rank; i++)
        by_one += layout->shape[i] > 1 && layout->strides[i] == 1;
    if (by_one > (step == 1))
        return tdm_fail(TDM_UNSUPPORTED,
                        "outofcore: rows of %s of %s in host memory do not begin at a byte",
                        o->name, tdm_dtype_name(layout->dtype));
    return TDM_OK;
}

/* Checks that batch entries on the device do not share a byte, because tiles
 * begin at their entry. */
static tdm_status check_device_units(const tdm_ooc_operand *o) {
    const tdm_layout *const layout = &o->whole;
    const int per = tdm_dtype_info(layout->dtype)->elements_per_unit;
    for (int i = 0; i < layout->rank - 2; i++)
        if (layout->shape[i] > 1 && layout->strides[i] % per != 0)
            return tdm_fail(
                TDM_UNSUPPORTED,
                "outofcore: batch entries of %s of %s are %lld elements apart, which splits a byte",
                o->name, tdm_dtype_name(layout->dtype), (long long)layout->strides[i]);
    return TDM_OK;
}

static tdm_status take_operand(tdm_ooc_operand *o, const char *name, const tdm_layout *layout,
                               bool transposed, bool on_device) {
    *o = (tdm_ooc_operand){.name = name, .transposed = transposed, .on_device = on_device};
    if (layout->dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    const int row = layout->rank - (transposed ? 1 : 2),
              column = layout->rank - (transposed ? 2 : 1);
    o->present = true;
    o->whole = *layout;
    o->rows = layout->shape[row];
    o->columns = layout->shape[column];
    o->row = o->rows > 1 ? layout->strides[row] : 0;
    o->column = o->columns > 1 ? layout->strides[column] : 0;
    return on_device ? check_device_units(o) : check_host_units(o);
}

static tdm_status take_constant(tdm_ooc_constant *c, const char *name, const tdm_layout *layout,
                                bool on_device) {
    *c = (tdm_ooc_constant){.name = name, .layout = *layout, .on_device = on_device};
    if (layout->dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    return tdm_dtype_bytes(layout->dtype, tdm_layout_extent(layout), &c->bytes);
}

static tdm_status take_constants(const tdm_outofcore_desc *desc, tdm_ooc_problem *p) {
    const tdm_gemm_desc *const g = &desc->gemm;
    const bool a = desc->on_device & TDM_OUTOFCORE_A, b = desc->on_device & TDM_OUTOFCORE_B,
               d = desc->on_device & TDM_OUTOFCORE_D;
    tdm_ooc_constant *const c = p->constants;
    TDM_TRY(
        take_constant(&c[TDM_OOC_BIAS], "bias", &g->bias, desc->on_device & TDM_OUTOFCORE_BIAS));
    TDM_TRY(take_constant(&c[TDM_OOC_A_SCALE], "the scale of A", &g->a_quant.scale, a));
    TDM_TRY(take_constant(&c[TDM_OOC_A_ZERO], "the zero point of A", &g->a_quant.zero_point, a));
    TDM_TRY(take_constant(&c[TDM_OOC_B_SCALE], "the scale of B", &g->b_quant.scale, b));
    TDM_TRY(take_constant(&c[TDM_OOC_B_ZERO], "the zero point of B", &g->b_quant.zero_point, b));
    TDM_TRY(take_constant(&c[TDM_OOC_D_SCALE], "the scale of D", &g->d_quant.scale, d));
    return take_constant(&c[TDM_OOC_D_ZERO], "the zero point of D", &g->d_quant.zero_point, d);
}

/* Writes the name of a GEMM's kernel, with its number of parts of K. Another number of parts would
 * change float sums. */
static void name_kernel(const tdm_gemm_plan *product, char *text, size_t bytes) {
    const char *const name = product->kernel->variant->name;
    if (tdm_gemm_takes(product->kernel->variant, TDM_TUNE_SPLIT_K))
        snprintf(text, bytes, "%s:split_k=%lld", name,
                 (long long)(product->split.asked > 1 ? product->split.asked : 1));
    else
        snprintf(text, bytes, "%s", name);
}

static void take_variant(const tdm_gemm_plan *whole, tdm_ooc_problem *p) {
    const tdm_gemm_plan *product = whole;
    while (product->stages.inner) // nested: quantized A, then unpacked B
        product = product->stages.inner;
    // If A is quantized and then multiplied with quantized weights, no single variant name
    // describes it.
    if (whole->stages.inner && whole->problem.quantize_a &&
        product->problem.op == TDM_OP_GEMM_WEIGHTS)
        return;
    name_kernel(product, p->variant, sizeof p->variant);
    // Operands in host memory are copied to slots, whose alignment suits any kernel.
    if (product->unaligned &&
        (p->operands[TDM_OOC_A].on_device || p->operands[TDM_OOC_B].on_device))
        name_kernel(product->unaligned, p->unaligned, sizeof p->unaligned);
}

tdm_status tdm_ooc_problem_from(const tdm_outofcore_desc *desc, const tdm_gemm_plan *whole,
                                tdm_ooc_problem *p) {
    const tdm_gemm_desc *const g = &desc->gemm;
    const unsigned on_device = desc->on_device;
    tdm_ooc_operand *const o = p->operands;
    // If beta is 0, C is not read, and its layout is ignored.
    static const tdm_layout none = {.dtype = TDM_DTYPE_NONE};
    memset(p, 0, sizeof *p);
    p->desc = *g;
    p->desc.variant = NULL;
    p->forced = g->variant != NULL;
    if (g->beta == 0.0f)
        p->desc.c = none;
    p->op = whole->problem.op;
    TDM_TRY(take_operand(&o[TDM_OOC_A], "A", &g->a, g->transpose_a, on_device & TDM_OUTOFCORE_A));
    TDM_TRY(take_operand(&o[TDM_OOC_B], "B", &g->b, g->transpose_b, on_device & TDM_OUTOFCORE_B));
    TDM_TRY(take_operand(&o[TDM_OOC_C], "C", &p->desc.c, false, on_device & TDM_OUTOFCORE_C));
    TDM_TRY(take_operand(&o[TDM_OOC_RESIDUAL], "residual", &g->residual, false,
                         on_device & TDM_OUTOFCORE_RESIDUAL));
    TDM_TRY(take_operand(&o[TDM_OOC_D], "D", &g->d, false, on_device & TDM_OUTOFCORE_D));
    o[TDM_OOC_A].quant = g->a_quant;
    o[TDM_OOC_B].quant = g->b_quant;
    o[TDM_OOC_D].quant = g->d_quant;
    p->m = o[TDM_OOC_D].rows;
    p->n = o[TDM_OOC_D].columns;
    p->k = o[TDM_OOC_A].columns;
    p->batch_rank = g->d.rank - 2;
    p->entries = 1;
    for (int i = 0; i < p->batch_rank; i++) {
        p->batch_shape[i] = g->d.shape[i];
        p->entries *= g->d.shape[i];
    }
    p->operations = 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->entries;
    take_variant(whole, p);
    return take_constants(desc, p);
}

int64_t tdm_ooc_matrix_offset(const tdm_ooc_problem *p, const tdm_layout *layout, int64_t entry) {
    int64_t offset = 0;
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        const int own = i - (p->batch_rank + 2 - layout->rank);
        if (own >= 0 && layout->shape[own] > 1)
            offset += entry % p->batch_shape[i] * layout->strides[own];
        entry /= p->batch_shape[i];
    }
    return offset;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static int64_t at_least_one(int64_t extent) {
    return extent > 0 ? extent : 1;
}

/* Returns the number of elements from one line of a slot to the next. */
static int64_t pitch_of(const tdm_ooc_operand *o, int64_t extent) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    const int64_t units = tdm_ceil_div(at_least_one(extent), traits->elements_per_unit);
    int64_t bytes = tdm_ceil_div(units * traits->unit_bytes, PITCH_BYTES) * PITCH_BYTES;
    if (bytes % ALIKE_BYTES == 0)
        bytes += PITCH_BYTES;
    return bytes / traits->unit_bytes * traits->elements_per_unit;
}

/* Lays out a slot. A dimension of stride 0 has one element in the slot. */
static void arrange(tdm_ooc_operand *o, int64_t rows, int64_t columns) {
    if (!o->present)
        return;
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    const int64_t slot_rows = o->row == 0 ? 1 : at_least_one(rows),
                  slot_columns = o->column == 0 ? 1 : at_least_one(columns);
    int64_t pitch, lines;
    if (along_columns(o)) {
        pitch = pitch_of(o, slot_columns);
        lines = slot_rows;
        o->slot_column = o->column == 0 ? 0 : 1;
        o->slot_row = o->row == 0 ? 0 : pitch;
    } else {
        pitch = pitch_of(o, slot_rows);
        lines = slot_columns;
        o->slot_row = 1;
        o->slot_column = o->column == 0 ? 0 : pitch;
    }
    o->slot_bytes =
        (uint64_t)(pitch / traits->elements_per_unit * traits->unit_bytes) * (uint64_t)lines;
}

void tdm_ooc_arrange(tdm_ooc_problem *p, int64_t tile_rows, int64_t tile_columns, int64_t depth) {
    arrange(&p->operands[TDM_OOC_A], tile_rows, depth);
    arrange(&p->operands[TDM_OOC_B], depth, tile_columns);
    arrange(&p->operands[TDM_OOC_C], tile_rows, tile_columns);
    arrange(&p->operands[TDM_OOC_RESIDUAL], tile_rows, tile_columns);
    arrange(&p->operands[TDM_OOC_D], tile_rows, tile_columns);
}

tdm_ooc_area tdm_ooc_area_of(const tdm_ooc_problem *p, tdm_ooc_name name,
                             const tdm_ooc_step *step) {
    const int64_t matrix = tdm_ooc_matrix_offset(p, &p->operands[name].whole, step->entry);
    if (name == TDM_OOC_A)
        return (tdm_ooc_area){matrix, step->row, step->k, step->rows, step->depth};
    if (name == TDM_OOC_B)
        return (tdm_ooc_area){matrix, step->k, step->column, step->depth, step->columns};
    return (tdm_ooc_area){matrix, step->row, step->column, step->rows, step->columns};
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* These are the lines of a region. A line is contiguous in the slot. In host memory its elements
 * are `step` apart. */
typedef struct lines {
    int64_t host;          /* offset of the first element */
    int64_t length, count; /* elements per line, number of lines */
    int64_t step, pitch;   /* host strides: element to element, line to line */
    int64_t slot_pitch;
} lines;

static lines lines_of(const tdm_ooc_operand *o, const tdm_ooc_area *area) {
    const int64_t rows = o->row == 0 && area->rows > 0 ? 1 : area->rows,
                  columns = o->column == 0 && area->columns > 0 ? 1 : area->columns;
    const int64_t host = area->matrix + area->row * o->row + area->column * o->column;
    if (along_columns(o))
        return (lines){host, columns, rows, o->column, o->row, o->slot_row};
    return (lines){host, rows, columns, o->row, o->column, o->slot_column};
}

uint64_t tdm_ooc_area_bytes(const tdm_ooc_operand *o, const tdm_ooc_area *area) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    const lines l = lines_of(o, area);
    return (uint64_t)(tdm_ceil_div(l.length, traits->elements_per_unit) * traits->unit_bytes) *
           (uint64_t)l.count;
}

/* This is a copy between a slot and host memory. */
typedef struct mover {
    tdm_stream *stream;
    tdm_block *block;
    unsigned char *target; /* for copies out of the slot; else NULL */
    const unsigned char *source;
} mover;

static tdm_status move(const mover *m, tdm_bk_rows rows, int64_t host) {
    if (rows.rows == 1)
        rows.pitch = rows.host_pitch = rows.bytes;
    const bool dense = rows.pitch == rows.bytes && rows.host_pitch == rows.bytes;
    const size_t bytes = rows.bytes * rows.rows;
    if (m->target && dense)
        return tdm_enqueue_read(m->stream, "outofcore: storing D", m->block, rows.offset,
                                m->target + host, bytes);
    if (m->target)
        return tdm_enqueue_read_rows(m->stream, "outofcore: storing D", m->block, &rows,
                                     m->target + host);
    if (dense)
        return tdm_enqueue_write(m->stream, "outofcore: loading", m->block, rows.offset,
                                 m->source + host, bytes);
    return tdm_enqueue_write_rows(m->stream, "outofcore: loading", m->block, &rows,
                                  m->source + host);
}

/* Copies all lines at once if they are contiguous on both sides and do not overlap. Otherwise it
 * copies line by line. */
static tdm_status move_lines(const mover *m, const tdm_ooc_operand *o, const lines *l) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    const int64_t unit = traits->unit_bytes, per = traits->elements_per_unit;
    const size_t bytes = (size_t)(tdm_ceil_div(l->length, per) * unit);
    const bool runs = l->length == 1 || l->step == 1;
    if (l->length == 0 || l->count == 0)
        return TDM_OK;
    if (runs && (l->count == 1 || l->pitch / per * unit >= (int64_t)bytes)) {
        const tdm_bk_rows rows = {.pitch = (size_t)(l->slot_pitch / per * unit),
                                  .host_pitch = (size_t)(l->pitch / per * unit),
                                  .bytes = bytes,
                                  .rows = (size_t)l->count};
        return move(m, rows, l->host / per * unit);
    }
    for (int64_t i = 0; i < l->count; i++) {
        const tdm_bk_rows rows = {.offset = (uint64_t)(i * l->slot_pitch / per * unit),
                                  .pitch = runs ? bytes : (size_t)unit,
                                  .host_pitch = runs ? bytes : (size_t)(l->step * unit),
                                  .bytes = runs ? bytes : (size_t)unit,
                                  .rows = runs ? 1 : (size_t)l->length};
        TDM_TRY(move(m, rows, (l->host + i * l->pitch) / per * unit));
    }
    return TDM_OK;
}

/* Converts the lines to bytes. Returns false if a piece of pinned memory cannot hold one line. */
static bool lines_in_bytes(const tdm_ooc_operand *o, const lines *l, unsigned char *memory,
                           const tdm_staging_ring *ring, tdm_host_lines *host) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    const int64_t unit = traits->unit_bytes, per = traits->elements_per_unit;
    const bool runs = l->length == 1 || l->step == 1;
    *host = (tdm_host_lines){.first = memory + l->host / per * unit,
                             .count = (size_t)l->count,
                             .pitch = (size_t)(l->pitch / per * unit),
                             .units = (size_t)tdm_ceil_div(l->length, per),
                             .unit_bytes = (size_t)unit,
                             .step = (size_t)(runs ? unit : l->step * unit)};
    return host->units * host->unit_bytes <= tdm_staging_ring_piece(ring);
}

static tdm_device_lines slot_lines(const tdm_ooc_operand *o, int slot, const lines *l) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(o->whole.dtype);
    return (tdm_device_lines){
        .block = o->buffers[slot]->block,
        .pitch = (size_t)(l->slot_pitch / traits->elements_per_unit * traits->unit_bytes)};
}

tdm_status tdm_ooc_load(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                        const tdm_ooc_area *area, const void *memory, tdm_staging_ring *ring) {
    const lines l = lines_of(operand, area);
    tdm_host_lines host;
    if (ring && l.length > 0 && l.count > 0 &&
        lines_in_bytes(operand, &l, (unsigned char *)(uintptr_t)memory, ring, &host)) {
        const tdm_device_lines target = slot_lines(operand, slot, &l);
        return tdm_staging_ring_in(ring, stream, "outofcore: loading", &target, &host);
    }
    const mover m = {.stream = stream, .block = operand->buffers[slot]->block, .source = memory};
    return move_lines(&m, operand, &l);
}

tdm_status tdm_ooc_store(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                         const tdm_ooc_area *area, void *memory, tdm_staging_ring *ring) {
    const lines l = lines_of(operand, area);
    tdm_host_lines host;
    if (ring && l.length > 0 && l.count > 0 && lines_in_bytes(operand, &l, memory, ring, &host)) {
        const tdm_device_lines source = slot_lines(operand, slot, &l);
        return tdm_staging_ring_out(ring, stream, "outofcore: storing D", &source, &host);
    }
    const mover m = {.stream = stream, .block = operand->buffers[slot]->block, .target = memory};
    return move_lines(&m, operand, &l);
}
