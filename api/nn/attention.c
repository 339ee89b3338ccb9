/* This function computes scaled dot-product attention. */
#include <math.h>

#include <tandem/nn.h>

#include "api/device/memory/memory_pool.h"
#include "api/tensor/strided_loop.h"
#include "kernels/nn/attention_args.h"

/* These are the parameters of the attention variants. */
enum {
    P_FORM = 0,
    P_ROWS,  /* rows of a tile; decode: most rows of a KV head */
    P_WIDTH, /* most columns of a row, 0: any */
    P_TILE   /* lanes: rows of the smaller tiles */
};
enum {
    FORM_LANES = 1,
    FORM_DECODE,
    FORM_GROUP,
    FORM_REFERENCE
};
enum {
    RANK = 4,
    BLOCK_KEYS = 64,   /* TDM_BLOCK_KEYS of attention_block.h … */
    BLOCK_PITCH = 272, /* … and its TDM_PITCH */
    LEAST_SPLIT_KEYS = 256,
    MOST_GROUPS = 65535, /* along the second and third dimension of a grid on CUDA */
    FEW_LANES = 8,       /* of the smallest variant */
    GROUP_ITEMS = 64
};

typedef struct attention_problem {
    const tdm_tensor *q, *k, *v, *y, *mask, *lengths, *table; /* the last three may be NULL */
    tdm_attention_tensors at;
    tdm_attention_options_arg more;
    tdm_attention_arg arg;
    int64_t batch, heads, kv_heads;
    int64_t rows; /* of a KV head */
    bool apply_preferences;
} attention_problem;

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_rank(const char *name, const tdm_tensor *tensor) {
    return tensor->layout.rank == RANK
               ? TDM_OK
               : tdm_fail(TDM_BAD_SHAPE, "attention: %s has rank %d, must have 4", name,
                          tensor->layout.rank);
}

/* Fails unless dimension d of a tensor has `size` elements. */
static tdm_status check_size(const char *name, const tdm_tensor *tensor, int d, int64_t size,
                             const char *what) {
    char text[TDM_SHAPE_TEXT];
    return tensor->layout.shape[d] == size
               ? TDM_OK
               : tdm_fail(TDM_BAD_SHAPE,
                          "attention: %s has shape %s, but dimension %d must be %lld, %s", name,
                          tdm_layout_text(&tensor->layout, text), d, (long long)size, what);
}

static tdm_status check_shapes(const tdm_tensor *q, const tdm_tensor *k, const tdm_tensor *v,
                               const tdm_tensor *y, bool paged) {
    TDM_TRY(check_rank("q", q));
    TDM_TRY(check_rank("k", k));
    TDM_TRY(check_rank("v", v));
    TDM_TRY(check_rank("y", y));
    if (q->layout.shape[0] > MOST_GROUPS || k->layout.shape[1] > MOST_GROUPS)
        return tdm_fail(TDM_UNSUPPORTED, "attention: %lld sequences of %lld KV heads, at most %d",
                        (long long)q->layout.shape[0], (long long)k->layout.shape[1], MOST_GROUPS);
    const int64_t *const queries = q->layout.shape, *const keys = k->layout.shape;
    if (!paged)
        TDM_TRY(check_size("k", k, 0, queries[0], "the batch of q"));
    TDM_TRY(check_size("k", k, 3, queries[3], "the width of q"));
    TDM_TRY(check_size("v", v, 0, keys[0], paged ? "the pages of k" : "the batch of q"));
    TDM_TRY(check_size("v", v, 1, keys[1], "the heads of k"));
    TDM_TRY(check_size("v", v, 2, keys[2], paged ? "the keys of a page of k" : "the keys of k"));
    for (int d = 0; d < 3; d++)
        TDM_TRY(check_size("y", y, d, queries[d], "as in q"));
    TDM_TRY(check_size("y", y, 3, v->layout.shape[3], "the width of v"));
    if (keys[1] == 0 ? queries[1] != 0 : queries[1] % keys[1] != 0)
        return tdm_fail(TDM_BAD_SHAPE, "attention: the %lld heads of q are no multiple of k's %lld",
                        (long long)queries[1], (long long)keys[1]);
    if (queries[3] > INT32_MAX || v->layout.shape[3] > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "attention: rows of %lld elements are too long",
                        (long long)(queries[3] > INT32_MAX ? queries[3] : v->layout.shape[3]));
    return TDM_OK;
}

static tdm_status check_scales(const char *name, const tdm_tensor *tensor) {
    if (!tensor->scale)
        return tdm_fail(TDM_UNSUPPORTED, "attention: %s is s8 without scales", name);
    if (tensor->zero_point)
        return tdm_fail(TDM_UNSUPPORTED, "attention: %s has zero points", name);
    for (int d = 0; d < RANK - 1; d++) {
        const int64_t size = tensor->layout.shape[d];
        const int64_t block = tensor->block[d];
        if (block != 1 && size > 1)
            return tdm_fail(TDM_UNSUPPORTED,
                            "attention: %lld elements along dimension %d of %s share a scale, must "
                            "be 1",
                            (long long)(block ? block : size), d, name);
    }
    return TDM_OK;
}

static tdm_status check_values(const char *name, const tdm_tensor *tensor) {
    const tdm_dtype dtype = tensor->layout.dtype;
    if (dtype == TDM_S8)
        return check_scales(name, tensor);
    return tdm_is_kernel_float(dtype)
               ? TDM_OK
               : tdm_fail(TDM_UNSUPPORTED,
                          "attention: %s is %s; f32, f16, bf16 and quantized s8 are "
                          "supported",
                          name, tdm_dtype_name(dtype));
}

static tdm_status check_dtypes(const tdm_tensor *q, const tdm_tensor *k, const tdm_tensor *v,
                               const tdm_tensor *y) {
    if (!tdm_is_kernel_float(q->layout.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "attention: no kernel for q of %s, only f32, f16 and bf16",
                        tdm_dtype_name(q->layout.dtype));
    if (q->layout.dtype != y->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "attention: q is %s but y is %s",
                        tdm_dtype_name(q->layout.dtype), tdm_dtype_name(y->layout.dtype));
    TDM_TRY(check_values("k", k));
    return check_values("v", v);
}

/* Checks an optional tensor of s32. */
static tdm_status check_indices(const tdm_stream *stream, const char *name,
                                const tdm_tensor *tensor, int rank, int64_t batch,
                                const tdm_tensor *y) {
    if (!tensor)
        return TDM_OK;
    TDM_TRY(tdm_check_tensor("attention", name, stream, tensor));
    if (tensor->layout.dtype != TDM_S32)
        return tdm_fail(TDM_BAD_DTYPE, "attention: %s is %s, must be s32", name,
                        tdm_dtype_name(tensor->layout.dtype));
    if (tensor->layout.rank != rank)
        return tdm_fail(TDM_BAD_SHAPE, "attention: %s has rank %d, must have %d", name,
                        tensor->layout.rank, rank);
    TDM_TRY(check_size(name, tensor, 0, batch, "the batch of q"));
    return tdm_check_overlap("attention", "y", y, name, tensor, false);
}

static tdm_status check_numbers(const tdm_attention_options *o) {
    if (!isfinite(o->scale))
        return tdm_fail(TDM_BAD_ARGUMENT, "attention: scale is %g, must be finite", o->scale);
    if (!(o->soft_cap >= 0) || isinf(o->soft_cap))
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "attention: soft_cap is %g, must be finite and not negative", o->soft_cap);
    if (o->causal != 0 && o->causal != 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "attention: causal is %d, must be 0 or 1", o->causal);
    if (o->window < 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "attention: window is %lld, must not be negative",
                        (long long)o->window);
    if (o->first_query < -1 || o->first_query > INT32_MAX)
        return tdm_fail(TDM_BAD_ARGUMENT, "attention: first_query is %lld, must be in -1 … %d",
                        (long long)o->first_query, INT32_MAX);
    return TDM_OK;
}

static tdm_status check_overlaps(const tdm_tensor *tensor, const char *name, const tdm_tensor *y) {
    TDM_TRY(tdm_check_overlap("attention", "y", y, name, tensor, false));
    return tensor->scale
               ? tdm_check_overlap("attention", "y", y, "the scales", tensor->scale, false)
               : TDM_OK;
}

static tdm_status check_attention(const tdm_stream *stream, const tdm_tensor *q,
                                  const tdm_tensor *k, const tdm_tensor *v,
                                  const tdm_attention_options *o, const tdm_tensor *y) {
    TDM_TRY(tdm_check_tensor("attention", "q", stream, q));
    TDM_TRY(tdm_check_tensor("attention", "k", stream, k));
    TDM_TRY(tdm_check_tensor("attention", "v", stream, v));
    TDM_TRY(tdm_check_output("attention", "y", stream, y));
    TDM_TRY(check_numbers(o));
    TDM_TRY(check_shapes(q, k, v, y, o->block_table != NULL));
    TDM_TRY(check_dtypes(q, k, v, y));
    TDM_TRY(check_overlaps(q, "q", y));
    TDM_TRY(check_overlaps(k, "k", y));
    TDM_TRY(check_overlaps(v, "v", y));
    TDM_TRY(check_indices(stream, "lengths", o->lengths, 1, q->layout.shape[0], y));
    return check_indices(stream, "block_table", o->block_table, 2, q->layout.shape[0], y);
}

/* ---- the problem ----------------------------------------------------------------------------- */

static tdm_attention_strides strides_of(const int64_t *strides) {
    return (tdm_attention_strides){strides[0], strides[1], strides[2], strides[3]};
}

/* Sets strides, type and group of the scales of k or v. */
static void describe_scales(const tdm_tensor *tensor, tdm_attention_strides *strides, int *type,
                            int *group) {
    const int64_t width = tensor->layout.shape[RANK - 1];
    const int64_t block = tensor->block[RANK - 1];
    *group = (int)(block > 0 && block < width ? block : width > 0 ? width : 1);
    if (!tensor->scale)
        return;
    *strides = strides_of(tensor->scale->layout.strides);
    *type = (int)tensor->scale->layout.dtype;
}

/* Spreads the mask over the scores. */
static tdm_status describe_mask(attention_problem *p, const tdm_stream *stream,
                                const tdm_tensor *mask) {
    tdm_layout scores = p->q->layout;
    int64_t strides[TDM_MAX_RANK];
    scores.shape[3] = p->arg.keys;
    TDM_TRY(tdm_check_tensor("attention", "mask", stream, mask));
    TDM_TRY(tdm_check_overlap("attention", "y", p->y, "mask", mask, false));
    if (!tdm_is_kernel_float(mask->layout.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "attention: mask is %s; f32, f16 and bf16 are supported",
                        tdm_dtype_name(mask->layout.dtype));
    if (!tdm_broadcast_strides(&mask->layout, &scores, strides)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE,
                        "attention: mask of shape %s does not broadcast to the scores, %s",
                        tdm_layout_text(&mask->layout, from), tdm_layout_text(&scores, to));
    }
    p->mask = mask;
    p->more.mask = strides_of(strides);
    p->arg.mask_type = (int)mask->layout.dtype;
    return TDM_OK;
}

/* Sets the scale so that scores are in base 2; see attention_args.h. */
static void set_scale(attention_problem *p, const tdm_attention_options *o) {
    const double log2_e = 1.4426950408889634;
    const double scale =
        o->scale != 0 ? o->scale : 1 / sqrt((double)(p->arg.width ? p->arg.width : 1));
    p->arg.cap = (float)o->soft_cap;
    p->arg.scale = (float)(o->soft_cap > 0 ? scale / o->soft_cap : scale * log2_e);
}

static tdm_status make_problem(attention_problem *p, const tdm_stream *stream,
                               const tdm_attention_options *o) {
    const tdm_layout *const q = &p->q->layout, *const k = &p->k->layout;
    const tdm_tensor *const table = o->block_table;
    p->batch = q->shape[0];
    p->heads = q->shape[1];
    p->kv_heads = k->shape[1];
    p->lengths = o->lengths;
    p->table = table;
    p->at =
        (tdm_attention_tensors){strides_of(q->strides), strides_of(k->strides),
                                strides_of(p->v->layout.strides), strides_of(p->y->layout.strides)};
    p->arg = (tdm_attention_arg){.queries = q->shape[2],
                                 .keys = table ? table->layout.shape[1] * k->shape[2] : k->shape[2],
                                 .first_query = o->first_query,
                                 .window = o->window,
                                 .page_keys = table ? k->shape[2] : 0,
                                 .pages = table ? k->shape[0] : 0,
                                 .splits = 1,
                                 .group = p->kv_heads ? (int)(p->heads / p->kv_heads) : 1,
                                 .width = (int)q->shape[3],
                                 .v_width = (int)p->v->layout.shape[3],
                                 .q_type = (int)q->dtype,
                                 .k_type = (int)k->dtype,
                                 .v_type = (int)p->v->layout.dtype,
                                 .causal = o->causal,
                                 .has_lengths = o->lengths != NULL};
    p->arg.split_keys = p->arg.keys;
    if (o->lengths)
        p->more.length = o->lengths->layout.strides[0];
    if (table) {
        p->more.table_row = table->layout.strides[0];
        p->more.table_at = table->layout.strides[1];
    }
    p->rows = p->arg.queries * p->arg.group;
    describe_scales(p->k, &p->more.k_scale, &p->arg.k_scale_type, &p->arg.k_group);
    describe_scales(p->v, &p->more.v_scale, &p->arg.v_scale_type, &p->arg.v_group);
    set_scale(p, o);
    return o->mask ? describe_mask(p, stream, o->mask) : TDM_OK;
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

static int64_t round_up(int64_t value, int64_t unit) {
    return tdm_ceil_div(value, unit) * unit;
}

/* Returns the floats of local memory that the kernels for CPU cores use. */
static int64_t local_floats(const attention_problem *p, const tdm_variant *variant) {
    const int64_t rows = variant->parameters[P_ROWS], tile = variant->parameters[P_TILE];
    const int64_t width = p->arg.width, v_width = p->arg.v_width;
    const int64_t block = (int64_t)BLOCK_KEYS * BLOCK_PITCH;
    if (variant->parameters[P_FORM] == FORM_LANES)
        return block + rows * (BLOCK_KEYS + round_up(v_width, tile) + width);
    return block + p->rows * (BLOCK_KEYS + round_up(width, 64) + round_up(v_width, 64));
}

/* Returns roughly the iterations of all loops of a work-item of the other kernels. */
static int64_t iterations(const attention_problem *p, const tdm_variant *variant) {
    const int64_t keys = p->arg.keys, width = p->arg.width;
    return variant->parameters[P_FORM] == FORM_GROUP
               ? keys * 4 + variant->parameters[P_WIDTH] + 64
               : keys * (width + 8) * (2 + p->arg.v_width / 8) * 2;
}

/* True if the device has the local memory that tiles of few lanes need. */
static bool lanes_fit(const attention_problem *p, const tdm_device *device) {
    const int64_t floats = (int64_t)BLOCK_KEYS * BLOCK_PITCH +
                           FEW_LANES * (BLOCK_KEYS + p->arg.width + p->arg.v_width);
    return floats * (int64_t)sizeof(float) <= (int64_t)device->info.local_bytes;
}

static const char *refuse_by_preference(const attention_problem *p, const tdm_variant *variant,
                                        const tdm_device *device) {
    const int form = variant->parameters[P_FORM];
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (form == FORM_GROUP && cores && lanes_fit(p, device))
        return "work-groups that share a tile are not for CPU cores";
    if (form == FORM_GROUP && variant->parameters[P_ROWS] == 8 && p->rows > 8)
        return "tiles of eight rows are for fewer rows";
    return NULL;
}

static const char *attention_supports(const void *given, const tdm_variant *variant,
                                      const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const attention_problem *const p = given;
    const int form = variant->parameters[P_FORM];
    const int most = variant->parameters[P_WIDTH];
    if (most > 0 && (p->arg.width > most || p->arg.v_width > most))
        return "the rows are longer than the variant's";
    if (form == FORM_DECODE && p->rows > variant->parameters[P_ROWS])
        return "a KV head has more rows than the variant computes";
    if (form == FORM_LANES || form == FORM_DECODE)
        return local_floats(p, variant) * (int64_t)sizeof(float) > (int64_t)device->info.local_bytes
                   ? "the device has too little local memory"
                   : NULL;
    const char *const too_long = tdm_refuse_long_loop(device, iterations(p, variant), reason);
    return too_long || !p->apply_preferences ? too_long : refuse_by_preference(p, variant, device);
}

static tdm_status select_kernel(tdm_stream *stream, attention_problem *p, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(stream->device, TDM_OP_ATTENTION, "attention", attention_supports,
                                 p, &p->apply_preferences, &variant));
    return tdm_stream_kernel(stream, "attention", variant, kernel);
}

/* ---- the launches ---------------------------------------------------------------------------- */

/* Splits the keys into parts if there are too few tiles to keep the device busy. */
static void split_keys(attention_problem *p, const tdm_device *device, int64_t tiles) {
    const int64_t units = tiles * p->kv_heads * p->batch;
    const int64_t wanted = tdm_ceil_div(tdm_worker_count(device, INT64_MAX, 1), units);
    const int64_t most = tdm_ceil_div(p->arg.keys, LEAST_SPLIT_KEYS);
    const int64_t splits = wanted < most ? wanted : most;
    if (splits <= 1)
        return;
    p->arg.split_keys = round_up(tdm_ceil_div(p->arg.keys, splits), BLOCK_KEYS);
    p->arg.splits = (int)tdm_ceil_div(p->arg.keys, p->arg.split_keys);
}

/* An absent operand is passed as q, which the kernel then does not access for it. */
static tdm_arg present_or(const tdm_tensor *operand, const tdm_tensor *q) {
    return tdm_arg_tensor(operand ? operand : q);
}

static tdm_status enqueue_rows(tdm_stream *stream, const attention_problem *p, tdm_kernel *kernel,
                               int64_t tiles, tdm_arg parts) {
    const int form = kernel->variant->parameters[P_FORM];
    tdm_arg args[TDM_MAX_ARGS] = {tdm_arg_tensor(p->q),
                                  tdm_arg_tensor(p->k),
                                  tdm_arg_tensor(p->v),
                                  tdm_arg_tensor(p->y),
                                  present_or(p->mask, p->q),
                                  present_or(p->lengths, p->q),
                                  present_or(p->table, p->q),
                                  present_or(p->k->scale, p->q),
                                  present_or(p->v->scale, p->q),
                                  parts,
                                  tdm_arg_blob(&p->at, sizeof p->at),
                                  tdm_arg_blob(&p->more, sizeof p->more),
                                  tdm_arg_blob(&p->arg, sizeof p->arg)};
    tdm_launch launch = {.args = args, .arg_count = 13, .group = {1, 1, 1}};
    if (form == FORM_REFERENCE) {
        const int64_t rows = p->batch * p->kv_heads * p->rows;
        args[launch.arg_count++] = tdm_arg_s64(p->kv_heads);
        args[launch.arg_count++] = tdm_arg_s64(rows);
        tdm_grid_items(stream->device, kernel, rows, GROUP_ITEMS, &launch);
        return tdm_enqueue_launch(stream, "attention", kernel, &launch);
    }
    launch.groups[0] = (uint32_t)(tiles * p->arg.splits);
    launch.groups[1] = (uint32_t)p->kv_heads;
    launch.groups[2] = (uint32_t)p->batch;
    if (form == FORM_GROUP)
        launch.group[0] = GROUP_ITEMS;
    else
        args[launch.arg_count++] =
            (tdm_arg){.kind = TDM_ARG_LOCAL,
                      .bytes = (uint32_t)(local_floats(p, kernel->variant) * sizeof(float))};
    return tdm_enqueue_launch(stream, "attention", kernel, &launch);
}

static tdm_status enqueue_join(tdm_stream *stream, const attention_problem *p, tdm_kernel *kernel,
                               tdm_arg parts) {
    const int64_t rows = p->batch * p->heads * p->arg.queries;
    const tdm_arg args[] = {parts,
                            tdm_arg_tensor(p->y),
                            tdm_arg_blob(&p->at.y, sizeof p->at.y),
                            tdm_arg_s64(p->arg.queries),
                            tdm_arg_s64(p->heads),
                            tdm_arg_s64(rows),
                            tdm_arg_s32(p->arg.splits),
                            tdm_arg_s32(p->arg.v_width),
                            tdm_arg_s32(p->arg.q_type)};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    tdm_grid_items(stream->device, kernel, rows * p->arg.v_width, GROUP_ITEMS, &launch);
    return tdm_enqueue_launch(stream, "attention", kernel, &launch);
}

static tdm_status enqueue_in_parts(tdm_stream *stream, const attention_problem *p,
                                   tdm_kernel *kernel, int64_t tiles) {
    const int64_t rows = p->batch * p->heads * p->arg.queries;
    const size_t floats = (size_t)rows * (size_t)p->arg.splits * ((size_t)p->arg.v_width + 2);
    tdm_device *const device = stream->device;
    tdm_kernel *joiner;
    tdm_block *block;
    TDM_TRY(tdm_stream_kernel(stream, "attention", tdm_variant_find("attention_join"), &joiner));
    TDM_TRY(tdm_device_alloc(device, tdm_memory_pool_current(device), floats * sizeof(float),
                             stream->id, &block));
    const tdm_arg parts = tdm_arg_block(block, 0, sizeof(float));
    tdm_status status = enqueue_rows(stream, p, kernel, tiles, parts);
    if (status == TDM_OK)
        status = enqueue_join(stream, p, joiner, parts);
    tdm_block_release(block);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

tdm_status tdm_attention(tdm_stream *stream, const tdm_tensor *q, const tdm_tensor *k,
                         const tdm_tensor *v, const tdm_attention_options *given, tdm_tensor *y) {
    tdm_attention_options room = TDM_ATTENTION_OPTIONS_INIT;
    const tdm_attention_options *const options =
        given ? tdm_struct_read("attention", "options", given, sizeof room, &room) : &room;
    if (!options)
        return TDM_BAD_ARGUMENT;
    attention_problem problem = {.q = q, .k = k, .v = v, .y = y};
    tdm_kernel *kernel;
    TDM_TRY(check_attention(stream, q, k, v, options, y));
    TDM_TRY(make_problem(&problem, stream, options));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;
    if (problem.arg.keys == 0)
        return tdm_tensor_fill(stream, 0.0, y);
    TDM_TRY(select_kernel(stream, &problem, &kernel));
    const int form = kernel->variant->parameters[P_FORM];
    const int64_t tiles = form == FORM_LANES || form == FORM_GROUP
                              ? tdm_ceil_div(problem.rows, kernel->variant->parameters[P_ROWS])
                              : 1;
    if (form != FORM_REFERENCE)
        split_keys(&problem, stream->device, tiles);
    if (problem.arg.splits > 1)
        return enqueue_in_parts(stream, &problem, kernel, tiles);
    return enqueue_rows(stream, &problem, kernel, tiles, tdm_arg_tensor(y));
}
