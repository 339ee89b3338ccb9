#include "bench/workers/stream_run.h"

#include <stdlib.h>
#include <string.h>

#include "api/tensor/strided_loop.h"

enum {
    TRAVERSAL_RUNS = 1,
    WORD = 4,
    CHASE_PASS = 16,  /* steps in one pass of the loop of probe_chase.cl */
    CHASE_STATE = 2,  /* words: the index where the last call ended, and the calls so far */
    SWEEP_GROUPS = 2, /* per compute unit, unless it is a CPU core */
    UNIT_GROUPS = 8,
    RUN_BYTES = 256 << 10, /* contiguous bytes of a group; gather divides by MEMORY_GATHER_SHARE */
    PREFETCH_PLACES = 512, /* gather: prefetch distance, in bytes of its indices */
    PLACES_AHEAD = 4096,   /* largest such distance in bytes; the kernel reads the indices there */
    MAX_PASSES = 60000     /* llvmpipe silently ends loops after 65,535 passes */
};

/* The criteria for choosing a kernel variant. */
typedef struct stream_problem {
    const memory_case *item;
    bool takes_any; /* any variant that a test names */
    bool past;      /* non-temporal stores, because the caches do not hold the arrays */
} stream_problem;

static bool has_traversal(const memory_case *item) {
    return item->operation != MEMORY_CHASE;
}

static bool finds(const memory_case *item) {
    return item->operation == MEMORY_GATHER;
}

/* The operation numbers of probe_variants.cmake. */
static const int row_numbers[] = {
    [MEMORY_COPY] = 1, [MEMORY_SCALE] = 2, [MEMORY_ADD] = 3,    [MEMORY_TRIAD] = 4,
    [MEMORY_READ] = 5, [MEMORY_WRITE] = 6, [MEMORY_GATHER] = 8, [MEMORY_SWEEP] = 5,
};

bool stream_row_does(const tdm_variant *row, memory_operation operation) {
    if (operation == MEMORY_CHASE)
        return row->op == TDM_OP_PROBE_CHASE;
    const int number = row_numbers[operation];
    return row->op == TDM_OP_PROBE_STREAM && row->parameters[STREAM_P_OPERATION] == number;
}

static const char *supports(const void *problem, const tdm_variant *variant,
                            const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const stream_problem *const own = problem;
    (void)device;
    (void)reason;
    if (!stream_row_does(variant, own->item->operation))
        return "the variant is for another operation";
    return own->takes_any || own->past == (variant->parameters[STREAM_P_PAST] != 0)
               ? NULL
               : "the variant is for arrays of another size relative to the caches";
}

static bool of_cores(const tdm_device *device) {
    return (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
}

static int units_of(const tdm_device *device) {
    return device->info.compute_units > 0 ? (int)device->info.compute_units : 1;
}

static int width_of(const stream_run *run) {
    return run->kernel->variant->parameters[STREAM_P_WIDTH];
}

/* Returns the bytes of the array over which a kernel iterates. */
static int64_t traversed_bytes(const memory_case *item) {
    return finds(item) ? WORD * (int64_t)memory_index_count(item) : (int64_t)item->bytes;
}

/* Divides the chunks among groups, for arrays that are traversed once. */
static void traverse_once(const tdm_device *device, const memory_case *item, stream_run *run) {
    tdm_stream_arg *const traversal = &run->traversal;
    if (run->kernel->variant->parameters[STREAM_P_TRAVERSAL] == TRAVERSAL_RUNS) {
        const int64_t bytes = finds(item) ? RUN_BYTES / MEMORY_GATHER_SHARE : RUN_BYTES;
        traversal->passes = (int)tdm_ceil_div(bytes, traversal->chunk * WORD);
        traversal->first_chunk = traversal->passes;
        traversal->next_chunk = 1;
        run->groups = (uint32_t)tdm_ceil_div(traversal->chunks, traversal->passes);
    } else {
        const int64_t wanted = (int64_t)UNIT_GROUPS * units_of(device);
        const int64_t least = tdm_ceil_div(traversal->chunks, MAX_PASSES);
        const int64_t groups = wanted < least ? least : wanted;
        run->groups = (uint32_t)(groups < traversal->chunks ? groups : traversal->chunks);
        traversal->passes = (int)tdm_ceil_div(traversal->chunks, run->groups);
        traversal->first_chunk = 1;
        traversal->next_chunk = run->groups;
    }
}

/*
 * Divides the chunks for repeated reads. Each group reads a part of its own repeatedly, so that its
 * compute unit's cache can serve it.
 */
static void traverse_repeatedly(const tdm_device *device, const memory_case *item,
                                stream_run *run) {
    tdm_stream_arg *const traversal = &run->traversal;
    const int64_t groups = (int64_t)units_of(device) * (of_cores(device) ? 1 : SWEEP_GROUPS);
    run->groups = (uint32_t)(groups < traversal->chunks ? groups : traversal->chunks);
    const int64_t passes = tdm_ceil_div(traversal->chunks, run->groups);
    traversal->chunks = passes * run->groups;
    traversal->passes = (int)passes;
    traversal->first_chunk = passes;
    traversal->next_chunk = 1;
    const int64_t once = traversal->chunks * traversal->chunk * WORD;
    const int64_t rounds = tdm_ceil_div(item->amount > 0 ? item->amount : once, once);
    const int64_t most = passes < MAX_PASSES ? MAX_PASSES / passes : 1;
    traversal->rounds = (int)(rounds < most ? rounds : most);
}

/*
 * Returns the form that was fastest on CPUs and on llvmpipe: four vectors at a time, or eight for
 * single words and for gather. On CPU cores gather also prefetches ahead.
 */
static stream_form form_of(const tdm_variant *row, const memory_case *item) {
    stream_form form = {.unroll = row->parameters[STREAM_P_EIGHT] ? 8 : 4};
    if (row->parameters[STREAM_P_PREFETCH])
        form.ahead = finds(item) ? PREFETCH_PLACES : 0;
    return form;
}

static tdm_status choose_traversal(const tdm_device *device, const memory_case *item,
                                   const stream_form *form, stream_run *run) {
    const int64_t width = width_of(run);
    tdm_stream_arg *const traversal = &run->traversal;
    *traversal = (tdm_stream_arg){
        .chunk = run->group * width * form->unroll,
        .item = width,
        .gap = run->group * width,
        .rounds = 1,
        .unroll = form->unroll,
        .ahead = form->ahead,
        .scale = memory_scale,
    };
    traversal->chunks = tdm_ceil_div(traversed_bytes(item), traversal->chunk * WORD);
    if (traversal->chunks > INT32_MAX || (finds(item) && item->bytes / WORD > INT32_MAX))
        return tdm_fail(TDM_UNSUPPORTED, "probe: %zu bytes are too many", item->bytes);
    if (item->operation == MEMORY_SWEEP)
        traverse_repeatedly(device, item, run);
    else
        traverse_once(device, item, run);
    run->words = traversal->chunks * traversal->chunk;
    return TDM_OK;
}

static tdm_status choose_kernel(tdm_device *device, const memory_case *item,
                                const stream_form *forced, stream_run *run) {
    const bool stores = has_traversal(item) && !memory_operation_sums(item->operation);
    const stream_problem problem = {
        .item = item,
        .takes_any = forced != NULL,
        .past = stores && of_cores(device) && tdm_exceeds_caches(device, memory_case_traffic(item)),
    };
    const tdm_variant *variant = NULL;
    TDM_TRY(tdm_select_variant(
        device, has_traversal(item) ? TDM_OP_PROBE_STREAM : TDM_OP_PROBE_CHASE, "probe",
        forced != NULL ? forced->row : NULL, supports, &problem, NULL, 0, &variant));
    TDM_TRY(tdm_device_kernel(device, variant, &run->kernel));
    const uint32_t limit = run->kernel->limits.max_group_items;
    run->group = (uint32_t)variant->parameters[STREAM_P_GROUP];
    if (limit > 0 && run->group > limit)
        run->group = limit;
    run->groups = 1;
    run->passes = memory_chase_steps(item) / CHASE_PASS;
    return TDM_OK;
}

/* ---- arrays ---- */

typedef enum content {
    NUMBERS_OF_A,
    NUMBERS_OF_B,
    PLACES,
    CIRCLE,
    OUTPUT
} content;

/*
 * Fills an array. A chase's output starts at index 0 with no calls. Other outputs start as NaN, so
 * that words that are not written become visible.
 */
static int fill(const memory_case *item, content what, size_t count, void *data) {
    if (what == CIRCLE)
        return memory_chase_fill(item, data);
    if (what == OUTPUT)
        memset(data, has_traversal(item) ? 0xFF : 0, count * WORD);
    for (size_t i = 0; what < CIRCLE && i < count; i++) {
        if (what == PLACES)
            ((uint32_t *)data)[i] = memory_index(item, i);
        else
            ((float *)data)[i] = what == NUMBERS_OF_A ? memory_a(item, i) : memory_b(item, i);
    }
    return 0;
}

static tdm_status create_array(tdm_device *device, tdm_stream *stream, const memory_case *item,
                               content what, size_t words, tdm_buffer **buffer) {
    const size_t bytes = words * WORD;
    TDM_TRY(tdm_buffer_create(device, bytes, buffer));
    void *const data = malloc(bytes);
    tdm_status status = TDM_OK;
    if (data == NULL || fill(item, what, words, data) != 0)
        status = tdm_fail(TDM_OUT_OF_HOST_MEMORY, "probe: no host memory for %zu bytes", bytes);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, *buffer, 0, data, bytes);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(stream);
    free(data);
    return status;
}

/* Creates the arrays, with room for the last chunk and for indices that are read ahead. */
static tdm_status create_arrays(tdm_device *device, tdm_stream *stream, const memory_case *item,
                                stream_run *run) {
    const memory_operation operation = item->operation;
    const size_t held = item->bytes < WORD ? 1 : item->bytes / WORD;
    const size_t words = has_traversal(item) ? (size_t)run->words + PLACES_AHEAD : held;
    const content first = finds(item) ? PLACES : has_traversal(item) ? NUMBERS_OF_A : CIRCLE;
    if (operation != MEMORY_WRITE)
        TDM_TRY(create_array(device, stream, item, first, words, &run->a));
    if (finds(item))
        TDM_TRY(create_array(device, stream, item, NUMBERS_OF_A, held, &run->b));
    if (operation == MEMORY_ADD || operation == MEMORY_TRIAD)
        TDM_TRY(create_array(device, stream, item, NUMBERS_OF_B, words, &run->b));
    return create_array(device, stream, item, OUTPUT, has_traversal(item) ? words : CHASE_STATE,
                        &run->c);
}

tdm_status stream_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                             const stream_form *forced, stream_run *run) {
    memset(run, 0, sizeof *run);
    TDM_TRY(choose_kernel(device, item, forced, run));
    const stream_form form = forced != NULL ? *forced : form_of(run->kernel->variant, item);
    if (has_traversal(item))
        TDM_TRY(choose_traversal(device, item, &form, run));
    return create_arrays(device, stream, item, run);
}

void stream_run_release(stream_run *run) {
    tdm_buffer_destroy(run->a);
    tdm_buffer_destroy(run->b);
    tdm_buffer_destroy(run->c);
    memset(run, 0, sizeof *run);
}

/* ---- running ---- */

tdm_status stream_run_enqueue(const stream_run *run, const memory_case *item, tdm_stream *stream) {
    tdm_arg args[4];
    int count = 0;
    if (run->a != NULL)
        args[count++] = tdm_arg_block(run->a->block, 0, WORD);
    if (run->b != NULL)
        args[count++] = tdm_arg_block(run->b->block, 0, WORD);
    args[count++] = tdm_arg_block(run->c->block, 0, WORD);
    args[count++] = has_traversal(item) ? tdm_arg_blob(&run->traversal, sizeof run->traversal)
                                        : tdm_arg_s32(run->passes);
    const tdm_launch launch = {.args = args,
                               .arg_count = count,
                               .groups = {run->groups, 1, 1},
                               .group = {run->group, 1, 1}};
    return tdm_enqueue_launch(stream, "probe", run->kernel, &launch);
}

int64_t stream_run_work(const stream_run *run, const memory_case *item) {
    if (item->operation == MEMORY_CHASE)
        return (int64_t)WORD * memory_chase_steps(item);
    if (finds(item))
        return 2 * WORD * run->words;
    if (memory_operation_sums(item->operation))
        return WORD * run->words * run->traversal.rounds;
    return (int64_t)memory_case_traffic(item);
}

size_t stream_run_output_bytes(const stream_run *run, const memory_case *item) {
    if (run->c == NULL)
        return 0;
    if (item->operation == MEMORY_CHASE)
        return CHASE_STATE * (size_t)WORD;
    if (!memory_operation_sums(item->operation))
        return item->bytes / WORD * WORD;
    return WORD * (MEMORY_HEAD_WORDS + (size_t)run->groups * run->group * (size_t)width_of(run));
}

tdm_status stream_run_output(const stream_run *run, const memory_case *item, tdm_stream *stream,
                             void *bytes) {
    size_t skipped = 0;
    if (memory_operation_sums(item->operation)) {
        const uint32_t head[MEMORY_HEAD_WORDS] = {(uint32_t)run->words,
                                                  (uint32_t)((uint64_t)run->words >> 32),
                                                  (uint32_t)run->traversal.rounds, 0};
        memcpy(bytes, head, sizeof head);
        skipped = sizeof head;
    }
    TDM_TRY(tdm_buffer_read(stream, run->c, 0, (char *)bytes + skipped,
                            stream_run_output_bytes(run, item) - skipped));
    return tdm_stream_synchronize(stream);
}
