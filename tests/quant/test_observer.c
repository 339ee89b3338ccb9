/* Tensor observers give the bits of the host's observer on the same numbers, for any view, any
 * division into pieces and any failure.
 * ctest: device timeout=120 cost=2 debug */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "quant/observer.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

static const tdm_dtype dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_observer_kind kinds[] = {TDM_OBSERVER_MINMAX, TDM_OBSERVER_MOVING_AVERAGE,
                                          TDM_OBSERVER_PERCENTILE, TDM_OBSERVER_MSE,
                                          TDM_OBSERVER_KL};

/* The quantized types and ranges for which results are computed. */
static const struct {
    tdm_dtype dtype;
    tdm_quant_range range;
    tdm_quant_symmetry symmetry;
} codes[] = {
    {TDM_S8, {-128, 127}, TDM_QUANT_ASYMMETRIC}, {TDM_S8, {-127, 127}, TDM_QUANT_SYMMETRIC},
    {TDM_U8, {0, 255}, TDM_QUANT_ASYMMETRIC},    {TDM_U8, {0, 255}, TDM_QUANT_SYMMETRIC},
    {TDM_S4, {-8, 7}, TDM_QUANT_ASYMMETRIC},     {TDM_S4, {-7, 7}, TDM_QUANT_SYMMETRIC}};

enum {
    CODES = sizeof codes / sizeof codes[0],
    MAX_CHANNELS = 8,
    PIECE = 65536 /* elements that are copied to the host at once */
};

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- an observer and its oracle ---- */

typedef struct observer_pair {
    tdm_observer *observer;
    tdm_quant_observer *host; /* sees the same numbers, dense and all at once */
    tdm_observer_desc desc;
} observer_pair;

static observer_pair observer_pair_create(tdm_observer_kind kind, int axis, int64_t channels,
                                          int64_t inner) {
    const tdm_quant_observer_options options = {(tdm_quant_observer_kind)kind, channels, inner,
                                                99.0, 0.25};
    const size_t bytes = tdm_quant_observer_bytes(&options);
    observer_pair t = {.desc = TDM_OBSERVER_DESC_INIT};
    t.desc.kind = kind;
    t.desc.axis = axis;
    t.desc.channels = channels;
    t.desc.percent = options.percent;
    t.desc.momentum = options.momentum;
    TEST_OK(tdm_observer_create(&t.desc, &t.observer));
    TEST_OK(tdm_quant_observer_init(&options, malloc(bytes), bytes, &t.host, NULL));
    return t;
}

static void observer_pair_destroy(observer_pair *t) {
    tdm_observer_destroy(t->observer);
    free(t->host);
}

static void observer_pair_observe(observer_pair *t, const test_device *device,
                                  const test_array *x) {
    const size_t unit = (size_t)tdm_dtype_info(x->layout.dtype)->unit_bytes;
    const int64_t count = test_array_count(x);
    unsigned char *const dense = malloc((size_t)count * unit + 1);
    assert_non_null(dense);
    for (int64_t i = 0; i < count; i++)
        memcpy(dense + (size_t)i * unit, test_array_bits(x, i), unit);
    TEST_OK(tdm_observer_observe(t->observer, device->stream, x->tensor));
    TEST_OK(tdm_quant_observe(t->host, x->layout.dtype, dense, count, NULL));
    free(dense);
}

static void expect_same_counts(const observer_pair *t) {
    tdm_observer_counts counts = {.struct_size = sizeof counts};
    const tdm_quant_seen seen = tdm_quant_observer_seen(t->host);
    TEST_OK(tdm_observer_seen(t->observer, &counts));
    if (counts.numbers != seen.numbers || counts.nans != seen.nans ||
        counts.infinities != seen.infinities)
        test_case_fail("%llu numbers, %llu NaN, %llu infinities seen, not %llu, %llu, %llu",
                       (unsigned long long)counts.numbers, (unsigned long long)counts.nans,
                       (unsigned long long)counts.infinities, (unsigned long long)seen.numbers,
                       (unsigned long long)seen.nans, (unsigned long long)seen.infinities);
}

/* True if both numbers have the same bits; neither may be NaN. */
static bool same_bits(float a, float b) {
    return a == b && !signbit(a) == !signbit(b);
}

static void expect_same_for(const observer_pair *t, int code) {
    const int64_t channels = t->desc.channels;
    const tdm_quant_symmetry symmetry = codes[code].symmetry;
    float low[MAX_CHANNELS], high[MAX_CHANNELS], scales[MAX_CHANNELS];
    int32_t zeros[MAX_CHANNELS];
    TEST_OK(tdm_observer_bounds(t->observer, codes[code].dtype, symmetry == TDM_QUANT_SYMMETRIC,
                                low, high, channels));
    TEST_OK(tdm_observer_parameters(t->observer, codes[code].dtype, symmetry == TDM_QUANT_SYMMETRIC,
                                    scales, zeros, channels));
    for (int64_t c = 0; c < channels; c++) {
        const tdm_quant_bounds bounds =
            tdm_quant_observer_bounds(t->host, c, symmetry, codes[code].range);
        const tdm_quant_parameters p = tdm_quant_derive(symmetry, bounds, codes[code].range);
        if (!same_bits(low[c], bounds.minimum) || !same_bits(high[c], bounds.maximum))
            test_case_fail("codes %d, channel %lld: bounds are %a, %a, not %a, %a", code,
                           (long long)c, (double)low[c], (double)high[c], (double)bounds.minimum,
                           (double)bounds.maximum);
        if (!same_bits(scales[c], p.scale) || zeros[c] != p.zero_point)
            test_case_fail("codes %d, channel %lld: parameters are %a, %d, not %a, %d", code,
                           (long long)c, (double)scales[c], zeros[c], (double)p.scale,
                           p.zero_point);
    }
}

static void expect_same(const observer_pair *t, int codes_asked) {
    expect_same_counts(t);
    for (int code = 0; code < codes_asked; code++)
        expect_same_for(t, code);
}

/* ---- views ---- */

typedef struct view_case {
    int rank;
    int64_t shape[4];
    int axis;
} view_case;

static const view_case views[] = {{0, {0}, -1},         {1, {7}, -1},      {2, {5, 3}, 0},
                                  {3, {4, 5, 6}, 1},    {3, {4, 5, 6}, 2}, {4, {2, 3, 4, 5}, -1},
                                  {4, {2, 3, 4, 5}, 1}, {3, {4, 0, 3}, 2}};

static int64_t inner_of(const view_case *v) {
    int64_t inner = 1;
    for (int d = v->axis + 1; v->axis >= 0 && d < v->rank; d++)
        inner *= v->shape[d];
    return inner;
}

/* Observes three batches of one shape: numbers of many sizes, every bit pattern, small numbers. */
static void observe_views(const test_device *device, tdm_observer_kind kind, const view_case *v,
                          tdm_dtype dtype, test_placement placement) {
    static const test_data_kind data[] = {TEST_DATA_WIDE, TEST_DATA_ANY_BITS, TEST_DATA_UNIT};
    observer_pair t =
        observer_pair_create(kind, v->axis, v->axis < 0 ? 1 : v->shape[v->axis], inner_of(v));
    for (int batch = 0; batch < 3; batch++) {
        test_array x;
        test_array_create(&x, device, dtype, v->rank, v->shape, placement);
        test_array_fill(&x, data[batch], (uint64_t)batch + 1);
        observer_pair_observe(&t, device, &x);
        test_array_destroy(&x);
    }
    expect_same(&t, kind == TDM_OBSERVER_MINMAX ? CODES : 1);
    observer_pair_destroy(&t);
}

/* Each case of an observer kind with a histogram runs with only one of the dtypes, in turn. */
DEVICE_TEST(every_view_gives_the_bits_of_the_host) {
    for (int k = 0; k < (int)(sizeof kinds / sizeof kinds[0]); k++)
        for (int v = 0; v < (int)(sizeof views / sizeof views[0]); v++)
            for (int d = 0; d < 3; d++)
                for (int p = 0; p < TEST_PLACEMENTS; p++)
                    if (kinds[k] <= TDM_OBSERVER_MOVING_AVERAGE || (k + v + p) % 3 == d)
                        observe_views(device, kinds[k], &views[v], dtypes[d], (test_placement)p);
}

/* ---- pieces ---- */

static void observe_large(const test_device *device, tdm_observer_kind kind, tdm_dtype dtype,
                          const view_case *v, test_placement placement) {
    test_array x;
    observer_pair t =
        observer_pair_create(kind, v->axis, v->axis < 0 ? 1 : v->shape[v->axis], inner_of(v));
    test_array_create(&x, device, dtype, v->rank, v->shape, placement);
    test_array_fill(&x, TEST_DATA_UNIT, 11);
    observer_pair_observe(&t, device, &x);
    test_array_put(&x, test_array_count(&x) - 1, 64.0); /* the very last element */
    test_array_put(&x, 0, -(double)INFINITY);
    test_array_send(&x);
    observer_pair_observe(&t, device, &x);
    expect_same(&t, 1);
    test_array_destroy(&x);
    observer_pair_destroy(&t);
}

DEVICE_TEST(tensors_longer_than_a_piece) {
    const view_case flat = {1, {PIECE + 1}, -1}, rows = {4, {2, 2, 3, 22000}, 2},
                    long_rows = {2, {2, PIECE + 3}, 0}, thin = {2, {PIECE / 3 + 5, 4}, 1};
    observe_large(device, TDM_OBSERVER_MOVING_AVERAGE, TDM_F32, &flat, TEST_OFFSET);
    observe_large(device, TDM_OBSERVER_PERCENTILE, TDM_BF16, &rows, TEST_DENSE);
    observe_large(device, TDM_OBSERVER_MOVING_AVERAGE, TDM_F16, &long_rows, TEST_DENSE);
    observe_large(device, TDM_OBSERVER_MINMAX, TDM_F16, &thin, TEST_PADDED);
}

/* Rank and inner dimensions differ between batches. One batch is a slice, one is a broadcast, and
 * some work is still pending. */
DEVICE_TEST(batches_of_other_shapes) {
    const float expected_low[2] = {-3.0f, -4.0f}, expected_high[2] = {5.0f, 7.0f};
    tdm_observer_desc desc = TDM_OBSERVER_DESC_INIT;
    desc.axis = 1;
    desc.channels = 2;
    tdm_observer *observer;
    TEST_OK(tdm_observer_create(&desc, &observer));
    test_array flat, deep;
    test_array_create(&flat, device, TDM_F32, 2, DIMS(2, 3), TEST_DENSE);
    test_array_create(&deep, device, TDM_F32, 3, DIMS(1, 2, 2), TEST_PADDED);
    const double flat_values[] = {-3, -4, 100, 1, 2, -100}, deep_values[] = {0, 5, 6, 7};
    for (int i = 0; i < 6; i++)
        test_array_put(&flat, i, flat_values[i]);
    for (int i = 0; i < 4; i++)
        test_array_put(&deep, i, deep_values[i]);
    test_array_send(&flat);
    test_array_send(&deep);
    tdm_tensor *slice, *wide;
    TEST_OK(tdm_tensor_slice(flat.tensor, 1, 0, 2, 1, &slice));
    TEST_OK(tdm_tensor_broadcast(deep.tensor, 3, DIMS(4, 2, 2), &wide));
    TEST_OK(tdm_observer_observe(observer, device->stream, slice));
    TEST_OK(tdm_observer_observe(observer, device->stream, wide));
    float low[2], high[2];
    TEST_OK(tdm_observer_bounds(observer, TDM_S8, 0, low, high, 2));
    assert_memory_equal(low, expected_low, sizeof low);
    assert_memory_equal(high, expected_high, sizeof high);
    TEST_OK(tdm_tensor_fill(device->stream, -8.0, deep.tensor));
    TEST_OK(tdm_observer_observe(observer, device->stream, deep.tensor));
    TEST_OK(tdm_observer_bounds(observer, TDM_S8, 0, low, high, 2));
    assert_true(low[0] == -8.0f && low[1] == -8.0f);
    tdm_tensor_destroy(slice);
    tdm_tensor_destroy(wide);
    test_array_destroy(&flat);
    test_array_destroy(&deep);
    tdm_observer_destroy(observer);
}

/* ---- merging ---- */

DEVICE_TEST(merged_observers) {
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        test_array x[2];
        observer_pair whole = observer_pair_create(kinds[k], 0, 3, 50),
                      part = observer_pair_create(kinds[k], 0, 3, 50);
        expect_same(&whole, CODES); /* nothing has been observed */
        for (int i = 0; i < 2; i++) {
            test_array_create(&x[i], device, TDM_F32, 2, DIMS(3, 50), TEST_TRANSPOSED);
            test_array_fill(&x[i], i ? TEST_DATA_UNIT : TEST_DATA_WIDE, 30);
            observer_pair_observe(i ? &part : &whole, device, &x[i]);
        }
        TEST_OK(tdm_observer_merge(whole.observer, part.observer));
        assert_int_equal(tdm_quant_observer_merge(whole.host, part.host, NULL), TDM_OK);
        expect_same(&whole, CODES);
        expect_same(&part, 1);
        for (int i = 0; i < 2; i++)
            test_array_destroy(&x[i]);
        observer_pair_destroy(&whole);
        observer_pair_destroy(&part);
    }
}

/* ---- refusals ---- */

DEVICE_TEST(descriptions_that_are_refused) {
    (void)device;
    static const size_t size = sizeof(tdm_observer_desc);
    const struct {
        tdm_observer_desc desc;
        const char *part;
    } rows[] = {
        {{7, TDM_OBSERVER_MINMAX, -1, 1, 0, 0}, "is 7, but this library's struct"},
        {{size, (tdm_observer_kind)6, -1, 1, 0, 0}, "kind is 6"},
        {{size, TDM_OBSERVER_MINMAX, -2, 1, 0, 0}, "axis is -2"},
        {{size, TDM_OBSERVER_MINMAX, TDM_MAX_RANK, 1, 0, 0}, "axis is 8"},
        {{size, TDM_OBSERVER_MINMAX, -1, 2, 0, 0}, "channels is 2, must be 1"},
        {{size, TDM_OBSERVER_MINMAX, 0, 0, 0, 0}, "channels is 0"},
        {{size, TDM_OBSERVER_MINMAX, 0, INT64_MAX, 0, 0}, "too many for the address space"},
        {{size, TDM_OBSERVER_MINMAX, -1, 1, 100.5, 0}, "percent is 100.5"},
        {{size, TDM_OBSERVER_MINMAX, -1, 1, 0, -0.5}, "momentum is -0.5"},
    };
    tdm_observer *observer;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        observer = (tdm_observer *)(uintptr_t)1;
        TEST_REFUSED(tdm_observer_create(&rows[i].desc, &observer), TDM_BAD_ARGUMENT, rows[i].part);
        assert_null(observer);
    }
    TEST_REFUSED(tdm_observer_create(NULL, &observer), TDM_BAD_ARGUMENT, "desc is NULL");
    TEST_REFUSED(tdm_observer_create(&rows[1].desc, NULL), TDM_BAD_ARGUMENT, "observer is NULL");
    tdm_observer_destroy(NULL);
}

static void refuse_batches(const test_device *device, tdm_observer *observer) {
    tdm_stream *const stream = device->stream;
    tdm_tensor *tensor, *integers, *row;
    tdm_graph *graph;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(4, 3), &tensor));
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 2, DIMS(4, 2), &integers));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 1, DIMS(2), &row));
    TEST_REFUSED(tdm_observer_observe(NULL, stream, tensor), TDM_BAD_ARGUMENT, "observer is NULL");
    TEST_REFUSED(tdm_observer_observe(observer, NULL, tensor), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_observer_observe(observer, stream, NULL), TDM_BAD_ARGUMENT, "tensor is NULL");
    TEST_REFUSED(tdm_observer_observe(observer, stream, integers), TDM_UNSUPPORTED, "tensor is");
    TEST_REFUSED(tdm_observer_observe(observer, stream, row), TDM_BAD_SHAPE, "axis is 1");
    TEST_REFUSED(tdm_observer_observe(observer, stream, tensor), TDM_BAD_SHAPE, "2 channels");
    TEST_OK(tdm_stream_begin_recording(stream));
    TEST_REFUSED(tdm_observer_observe(observer, stream, tensor), TDM_BAD_STATE, "recording");
    TEST_OK(tdm_stream_end_recording(stream, &graph));
    tdm_graph_destroy(graph);
    tdm_tensor_destroy(tensor);
    tdm_tensor_destroy(integers);
    tdm_tensor_destroy(row);
}

static void refuse_results(const tdm_observer *observer) {
    tdm_observer_counts counts = {.struct_size = 1};
    float low[2], high[2];
    int32_t zeros[2];
    TEST_REFUSED(tdm_observer_seen(observer, &counts), TDM_BAD_ARGUMENT,
                 "is 1, but this library's struct");
    TEST_REFUSED(tdm_observer_seen(observer, NULL), TDM_BAD_ARGUMENT, "counts is NULL");
    TEST_REFUSED(tdm_observer_seen(NULL, &counts), TDM_BAD_ARGUMENT, "observer is NULL");
    TEST_REFUSED(tdm_observer_bounds(NULL, TDM_S8, 0, low, high, 2), TDM_BAD_ARGUMENT,
                 "observer is NULL");
    TEST_REFUSED(tdm_observer_bounds(observer, TDM_S8, 0, NULL, high, 2), TDM_BAD_ARGUMENT,
                 "minimums is NULL");
    TEST_REFUSED(tdm_observer_bounds(observer, TDM_S8, 0, low, NULL, 2), TDM_BAD_ARGUMENT,
                 "maximums is NULL");
    TEST_REFUSED(tdm_observer_bounds(observer, TDM_S8, 0, low, high, 3), TDM_BAD_ARGUMENT,
                 "channels is 3, but the observer has 2");
    TEST_REFUSED(tdm_observer_bounds(observer, TDM_S32, 0, low, high, 2), TDM_BAD_DTYPE,
                 "dtype is s32");
    TEST_REFUSED(tdm_observer_parameters(observer, TDM_F16, 0, low, zeros, 2), TDM_BAD_DTYPE,
                 "dtype is f16");
    TEST_REFUSED(tdm_observer_parameters(observer, TDM_S8, 0, NULL, zeros, 2), TDM_BAD_ARGUMENT,
                 "scales is NULL");
    TEST_REFUSED(tdm_observer_parameters(observer, TDM_S8, 0, low, NULL, 2), TDM_BAD_ARGUMENT,
                 "zero_points is NULL");
}

DEVICE_TEST(calls_that_are_refused) {
    observer_pair t = observer_pair_create(TDM_OBSERVER_MINMAX, 1, 2, 1);
    observer_pair other = observer_pair_create(TDM_OBSERVER_MSE, 1, 2, 1);
    refuse_batches(device, t.observer);
    refuse_results(t.observer);
    TEST_REFUSED(tdm_observer_merge(NULL, t.observer), TDM_BAD_ARGUMENT, "observer is NULL");
    TEST_REFUSED(tdm_observer_merge(t.observer, NULL), TDM_BAD_ARGUMENT, "from is NULL");
    TEST_REFUSED(tdm_observer_merge(t.observer, t.observer), TDM_BAD_ARGUMENT,
                 "from and observer are the same");
    TEST_REFUSED(tdm_observer_merge(t.observer, other.observer), TDM_BAD_ARGUMENT, "2 channels");
    expect_same(&t, 1); /* still nothing has been observed */
    observer_pair_destroy(&t);
    observer_pair_destroy(&other);
}

/* ---- failures ---- */

/* The call that fails in a trial: the nth driver call, or the nth host allocation. */
typedef enum trial_fault {
    FAULT_DRIVER,
    FAULT_HOST
} trial_fault;

/* Observes a batch on a stream of its own. `calls` receives the number of calls that could fail. */
static tdm_status observe_with_fault(const test_device *device, tdm_observer *observer,
                                     const tdm_tensor *tensor, trial_fault fault, long nth,
                                     long *calls) {
    tdm_stream *stream;
    TEST_OK(tdm_stream_create(device->device, &stream));
    const long allocations = counted_host_calls();
    if (fault == FAULT_HOST)
        counted_host_fail_at(nth);
    else
        tdm_fault_plant(NULL, nth, -6, false);
    const tdm_status status = tdm_observer_observe(observer, stream, tensor);
    *calls = fault == FAULT_HOST ? counted_host_calls() - allocations : tdm_fault_clear();
    counted_host_recover();
    tdm_stream_destroy(stream);
    return status;
}

/* Returns true if the call fails; checks that a failed call leaves the observer unchanged. */
static bool trial_fails(const test_device *device, trial_fault fault, long nth, long *calls) {
    test_array before, x;
    observer_pair t = observer_pair_create(TDM_OBSERVER_PERCENTILE, -1, 1, 1);
    test_array_create(&before, device, TDM_F16, 1, DIMS(9), TEST_DENSE);
    test_array_create(&x, device, TDM_F16, 1, DIMS(PIECE + 100), TEST_DENSE);
    test_array_fill(&before, TEST_DATA_UNIT, 1);
    test_array_fill(&x, TEST_DATA_WIDE, 2);
    observer_pair_observe(&t, device, &before);
    const tdm_status status = observe_with_fault(device, t.observer, x.tensor, fault, nth, calls);
    if (status != TDM_OK)
        expect_same(&t, 1);
    test_array_destroy(&before);
    test_array_destroy(&x);
    observer_pair_destroy(&t);
    return status != TDM_OK;
}

DEVICE_TEST(a_batch_that_fails_is_not_seen) {
    for (int fault = FAULT_DRIVER; fault <= FAULT_HOST; fault++) {
        long failed = 0;
        /* The loop ends when a run makes fewer calls than `nth`. */
        for (long nth = 1, calls = 0; calls >= nth - 1; nth++)
            failed += trial_fails(device, (trial_fault)fault, nth, &calls);
        assert_true(failed >= 2);
    }
}

int main(void) {
    return counted_host_install() ? test_run_all(test_devices_setup, test_devices_teardown) : 1;
}
