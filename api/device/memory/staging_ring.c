/*
 * Copies of pageable memory through pinned pieces in stream order. The host's part of each copy is
 * a task on the ring's own stream. Nobody waits, and one piece is filled while another is copied.
 *
 *     in:   host stream    fill 0   fill 1   fill 0 ...
 *           stream                  copy 0   copy 1   ...
 *
 *     out:  stream         copy 0   copy 1   copy 0 ...
 *           host stream             empty 0  empty 1 ...
 */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/memory/staging_ring.h"

#define PIECES 2

struct tdm_staging_ring {
    tdm_device *device; /* holds a reference */
    tdm_stream *host;
    size_t piece_bytes;
    tdm_staging *pieces[PIECES];
    tdm_event *passed[PIECES]; /* last use of each piece; NULL: none */
    int next;
};

bool tdm_staging_ring_wanted(const tdm_device *device, const void *host, size_t bytes) {
    return device->stages_copies && (device->info.capabilities & TDM_CAP_HOST_TASK) &&
           !tdm_staging_holds(device, host, bytes);
}

tdm_status tdm_staging_ring_open(tdm_device *device, size_t piece_bytes, tdm_staging_ring **ring) {
    *ring = NULL;
    tdm_staging_ring *const opened = tdm_host_calloc(1, sizeof *opened);
    if (!opened)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pinned memory: no host memory for a ring");
    tdm_device_retain(device);
    opened->device = device;
    opened->piece_bytes = piece_bytes;
    tdm_status status = tdm_stream_create(device, &opened->host);
    for (int i = 0; i < PIECES && status == TDM_OK; i++)
        status = tdm_staging_alloc(device, piece_bytes, &opened->pieces[i]);
    if (status != TDM_OK) {
        tdm_staging_ring_close(opened);
        return status;
    }
    *ring = opened;
    return TDM_OK;
}

void tdm_staging_ring_close(tdm_staging_ring *ring) {
    if (!ring)
        return;
    tdm_stream_destroy(ring->host);
    for (int i = 0; i < PIECES; i++) {
        tdm_event_destroy(ring->passed[i]);
        tdm_staging_release(ring->pieces[i]);
    }
    tdm_device *const device = ring->device;
    tdm_host_free(ring);
    tdm_device_release(device);
}

tdm_stream *tdm_staging_ring_stream(const tdm_staging_ring *ring) {
    return ring->host;
}

size_t tdm_staging_ring_piece(const tdm_staging_ring *ring) {
    return ring->piece_bytes;
}

/* ---- the host's part ------------------------------------------------------------------------- */

typedef struct mover {
    tdm_host_lines lines;
    unsigned char *dense;
    bool scatter;
} mover;

static size_t line_bytes(const tdm_host_lines *lines) {
    return lines->units * lines->unit_bytes;
}

static void move_line(const mover *m, unsigned char *line, unsigned char *dense) {
    const tdm_host_lines *const l = &m->lines;
    const bool whole = l->step == l->unit_bytes;
    const size_t count = whole ? 1 : l->units, bytes = whole ? line_bytes(l) : l->unit_bytes;
    for (size_t i = 0; i < count; i++)
        memcpy(m->scatter ? line + i * l->step : dense + i * bytes,
               m->scatter ? dense + i * bytes : line + i * l->step, bytes);
}

static void move_lines(void *user) {
    mover *const m = user;
    for (size_t i = 0; i < m->lines.count; i++)
        move_line(m, m->lines.first + i * m->lines.pitch, m->dense + i * line_bytes(&m->lines));
    tdm_host_free(m);
}

static tdm_status enqueue_move(const tdm_staging_ring *ring, const char *operation, int piece,
                               const tdm_host_lines *lines, bool scatter) {
    mover *const m = tdm_host_alloc(sizeof *m);
    if (!m)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for a copy", operation);
    *m = (mover){
        .lines = *lines, .dense = tdm_staging_address(ring->pieces[piece]), .scatter = scatter};
    const tdm_status status = tdm_enqueue_host_task(ring->host, operation, move_lines, m);
    if (status != TDM_OK)
        tdm_host_free(m);
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Makes further work of stream `after` wait for the work that `before` has now. */
static tdm_status order(tdm_stream *before, tdm_stream *after) {
    tdm_event *event = NULL;
    TDM_TRY(tdm_event_record(before, &event));
    const tdm_status status = tdm_stream_wait_event(after, event);
    tdm_event_destroy(event);
    return status;
}

static tdm_status note_passed(tdm_staging_ring *ring, int piece, tdm_stream *stream) {
    tdm_event_destroy(ring->passed[piece]);
    ring->passed[piece] = NULL;
    return tdm_event_record(stream, &ring->passed[piece]);
}

static tdm_status await_piece(const tdm_staging_ring *ring, int piece, tdm_stream *stream) {
    return ring->passed[piece] ? tdm_stream_wait_event(stream, ring->passed[piece]) : TDM_OK;
}

static tdm_status copy_in(const tdm_staging_ring *ring, int piece, tdm_stream *stream,
                          const char *operation, tdm_block *block, const tdm_bk_rows *rows) {
    const void *const dense = tdm_staging_address(ring->pieces[piece]);
    if (rows->rows == 1 || rows->pitch == rows->bytes)
        return tdm_enqueue_write(stream, operation, block, rows->offset, dense,
                                 rows->bytes * rows->rows);
    return tdm_enqueue_write_rows(stream, operation, block, rows, dense);
}

static tdm_status copy_out(const tdm_staging_ring *ring, int piece, tdm_stream *stream,
                           const char *operation, tdm_block *block, const tdm_bk_rows *rows) {
    void *const dense = tdm_staging_address(ring->pieces[piece]);
    if (rows->rows == 1 || rows->pitch == rows->bytes)
        return tdm_enqueue_read(stream, operation, block, rows->offset, dense,
                                rows->bytes * rows->rows);
    return tdm_enqueue_read_rows(stream, operation, block, rows, dense);
}

static tdm_status piece_in(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                           tdm_block *block, const tdm_bk_rows *rows, const tdm_host_lines *lines) {
    const int piece = ring->next;
    TDM_TRY(await_piece(ring, piece, ring->host));
    TDM_TRY(enqueue_move(ring, operation, piece, lines, false));
    TDM_TRY(order(ring->host, stream));
    TDM_TRY(copy_in(ring, piece, stream, operation, block, rows));
    return note_passed(ring, piece, stream);
}

static tdm_status piece_out(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                            tdm_block *block, const tdm_bk_rows *rows,
                            const tdm_host_lines *lines) {
    const int piece = ring->next;
    TDM_TRY(await_piece(ring, piece, stream));
    TDM_TRY(copy_out(ring, piece, stream, operation, block, rows));
    TDM_TRY(order(stream, ring->host));
    TDM_TRY(enqueue_move(ring, operation, piece, lines, true));
    return note_passed(ring, piece, ring->host);
}

typedef tdm_status piece_copy(tdm_staging_ring *, tdm_stream *, const char *, tdm_block *,
                              const tdm_bk_rows *, const tdm_host_lines *);

static tdm_status in_pieces(tdm_staging_ring *ring, piece_copy *copy, tdm_stream *stream,
                            const char *operation, const tdm_device_lines *at,
                            const tdm_host_lines *lines) {
    const size_t bytes = line_bytes(lines), per = ring->piece_bytes / bytes;
    for (size_t done = 0; done < lines->count; done += per) {
        tdm_host_lines some = *lines;
        some.first += done * lines->pitch;
        some.count = lines->count - done < per ? lines->count - done : per;
        const tdm_bk_rows rows = {.offset = at->offset + done * at->pitch,
                                  .pitch = at->pitch,
                                  .host_pitch = bytes,
                                  .bytes = bytes,
                                  .rows = some.count};
        TDM_TRY(copy(ring, stream, operation, at->block, &rows, &some));
        ring->next = (ring->next + 1) % PIECES;
    }
    return TDM_OK;
}

tdm_status tdm_staging_ring_in(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                               const tdm_device_lines *target, const tdm_host_lines *lines) {
    return in_pieces(ring, piece_in, stream, operation, target, lines);
}

tdm_status tdm_staging_ring_out(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                                const tdm_device_lines *source, const tdm_host_lines *lines) {
    return in_pieces(ring, piece_out, stream, operation, source, lines);
}

tdm_status tdm_staging_ring_in_bytes(tdm_staging_ring *ring, tdm_stream *stream,
                                     const char *operation, tdm_block *target, uint64_t offset,
                                     const void *host, size_t bytes) {
    const size_t piece = ring->piece_bytes, whole = bytes / piece, rest = bytes % piece;
    const tdm_device_lines at = {.block = target, .offset = offset, .pitch = piece},
                           end = {.block = target, .offset = offset + whole * piece, .pitch = rest};
    tdm_host_lines lines = {.first = (unsigned char *)(uintptr_t)host,
                            .count = whole,
                            .pitch = piece,
                            .units = piece,
                            .unit_bytes = 1,
                            .step = 1};
    TDM_TRY(tdm_staging_ring_in(ring, stream, operation, &at, &lines));
    if (rest == 0)
        return TDM_OK;
    lines.first += whole * piece;
    lines.count = 1;
    lines.units = rest;
    return tdm_staging_ring_in(ring, stream, operation, &end, &lines);
}
