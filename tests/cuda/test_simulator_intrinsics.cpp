// Tests the scheduler under the kernels: the result of each operation, and the failure of a kernel
// that lacks one.
#include <cmath>
#include <vector>

#include "tests/cuda_simulator/scheduler.h"
#include "tests/support/test_case.h"

/* ---- kernels ---- */

static int item(int d) {
    return tandem_sim_self->item[d];
}
static const tandem_sim_block *block() {
    return tandem_sim_self->block;
}
template <typename T> static T *shared_array(const void *site, size_t count) {
    return static_cast<T *>(tandem_sim_shared(site, count * sizeof(T)));
}

static void count_threads(int *counts) {
    const tandem_sim_block *const b = block();
    long at = 0;
    for (int d = 2; d >= 0; d--)
        at = at * b->groups[d] * b->size[d] + b->group[d] * b->size[d] + item(d);
    counts[at]++;
}
TANDEM_SIM_REGISTER(count_threads, "count_threads", 0, 0, 0, 0);

/* Reverses each block through shared memory. `with` selects the barriers that the kernel has. */
enum {
    FIRST_BARRIER = 1,
    SECOND_BARRIER = 2,
    BOTH_BARRIERS = 3
};
static void reverse_twice(float *data, int with) {
    static const char site = 0;
    const int n = block()->size[0], i = item(0);
    float *const tile = shared_array<float>(&site, static_cast<size_t>(n));
    data += block()->group[0] * n;
    for (int pass = 0; pass < 2; pass++) {
        tile[i] = data[i] + 1;
        if (with & FIRST_BARRIER)
            tandem_sim_barrier(__LINE__);
        data[i] = tile[n - 1 - i];
        if (with & SECOND_BARRIER)
            tandem_sim_barrier(__LINE__);
    }
}
TANDEM_SIM_REGISTER(reverse_twice, "reverse_twice", 0, 0, 0, 0);

static void leave_early(int who) {
    if (item(0) != who)
        tandem_sim_barrier(__LINE__);
}
TANDEM_SIM_REGISTER(leave_early, "leave_early", 0, 0, 0, 0);

static void two_barriers() {
    if (item(0) < 16)
        tandem_sim_barrier(__LINE__);
    else
        tandem_sim_barrier(__LINE__);
}
TANDEM_SIM_REGISTER(two_barriers, "two_barriers", 0, 0, 0, 0);

/* Copies in three stages of 16 bytes per thread. `kept` groups may be pending when the first stage
 * is read. */
static void copy_in_stages(const float *from, float *to, int kept, int bytes) {
    static const char site = 0;
    const int n = block()->size[0], i = item(0);
    float *const stages = shared_array<float>(&site, static_cast<size_t>(3 * n * 4));
    for (int s = 0; s < 3; s++) {
        tandem_sim_async_copy(stages + (s * n + i) * 4, from + (s * n + i) * 4, bytes);
        tandem_sim_async_commit();
    }
    for (int s = 0; s < 3; s++) {
        tandem_sim_async_wait(kept - s > 0 ? kept - s : 0);
        tandem_sim_barrier(__LINE__);
        for (int k = 0; k < 4; k++)
            to[(s * n + i) * 4 + k] = stages[(s * n + (i + 1) % n) * 4 + k];
    }
}
TANDEM_SIM_REGISTER(copy_in_stages, "copy_in_stages", 0, 0, 0, 0);

static void wrong_copy(const char *from, int shift, int outside) {
    static const char site = 0;
    char *const tile = shared_array<char>(&site, 64);
    tandem_sim_async_copy(outside ? const_cast<char *>(from) : tile, from + shift, 16);
}
TANDEM_SIM_REGISTER(wrong_copy, "wrong_copy", 0, 0, 0, 0);

/* The kernel has two forms; one is for devices before 8.0. */
static void early_form(int *form) {
    *form = 75;
}
TANDEM_SIM_REGISTER_BEFORE(early_form, "two_forms", 0, 0, 0, 0, 80);
static void later_form(int *form) {
    *form = 80;
}
TANDEM_SIM_REGISTER(later_form, "two_forms", 0, 0, 0, 0);

static void shuffles(uint32_t *out) {
    const uint32_t all = 0xffffffffu, self = static_cast<uint32_t>(item(0));
    uint32_t *const row = out + self * 6;
    row[0] = tandem_sim_shuffle(all, self, 5);
    row[1] = tandem_sim_shuffle_xor(all, self, 9);
    row[2] = tandem_sim_shuffle_up(all, self, 3, 16);
    row[3] = tandem_sim_shuffle_down(all, self, 3, 8);
    row[4] = tandem_sim_ballot(all, self % 3 == 0);
    const uint32_t half = item(0) % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
    row[5] = tandem_sim_shuffle_xor(half, self, 2);
}
TANDEM_SIM_REGISTER(shuffles, "shuffles", 0, 0, 0, 0);

enum {
    LANE_MISSING,
    LANE_ELSEWHERE,
    LANE_NOT_IN_MASK,
    SOURCE_NOT_IN_MASK
};
static void bad_shuffle(int how) {
    const int lane = tandem_sim_self->lane;
    if (how == LANE_MISSING && lane == 7)
        return;
    if (how == LANE_ELSEWHERE && lane == 7) {
        tandem_sim_ballot(0xffffffffu, true);
        return;
    }
    const uint32_t mask = how == LANE_NOT_IN_MASK || how == SOURCE_NOT_IN_MASK ? 0xffffu : ~0u;
    if (how == SOURCE_NOT_IN_MASK && lane >= 16)
        return;
    tandem_sim_shuffle(mask, lane, 20);
}
TANDEM_SIM_REGISTER(bad_shuffle, "bad_shuffle", 0, 0, 0, 0);

static void see_shared(float *out) {
    static const char site = 0;
    float *const tile = shared_array<float>(&site, 8);
    float *const dynamic = static_cast<float *>(tandem_sim_dynamic_shared());
    out[block()->group[0] * 2] = tile[7];
    out[block()->group[0] * 2 + 1] = dynamic[3];
    tile[7] = dynamic[3] = 1;
}
TANDEM_SIM_REGISTER(see_shared, "see_shared", 1, 1, 1, 0);

static void take_shared(int bytes) {
    static const char first = 0, second = 0;
    tandem_sim_shared(&first, 1024);
    tandem_sim_shared(&second, static_cast<size_t>(bytes));
}
TANDEM_SIM_REGISTER(take_shared, "take_shared", 0, 0, 0, 0);

/* Two warps meet at a named barrier to pass a number. The other warps never reach it. */
static void hand_over(int *out) {
    static const char site = 0;
    int *const shared = shared_array<int>(&site, 32);
    const int warp = tandem_sim_self->warp, lane = tandem_sim_self->lane;
    if (warp > 1)
        return;
    if (warp == 1)
        shared[lane] = lane * 2;
    tandem_sim_named_barrier(3, 64);
    if (warp == 0)
        out[lane] = shared[31 - lane];
}
TANDEM_SIM_REGISTER(hand_over, "hand_over", 128, 1, 1, 0);

static void ask_neighbour(int *out, int with_barrier) {
    static const char site = 0;
    int *const shared = shared_array<int>(&site, 1);
    const tandem_sim_block *const b = block();
    if (item(0) == 0)
        *shared = static_cast<int>(b->group[0]);
    if (with_barrier)
        tandem_sim_cluster_barrier(__LINE__);
    const int rank = (b->cluster_rank + 1) % b->cluster_size;
    const int *const theirs = static_cast<int *>(tandem_sim_cluster_shared(shared, rank));
    out[b->group[0] * b->size[0] + item(0)] = *theirs;
    tandem_sim_cluster_barrier(__LINE__); /* otherwise the neighbour could leave before */
}
TANDEM_SIM_REGISTER(ask_neighbour, "ask_neighbour", 0, 0, 0, 90);

/* ---- running them ---- */

struct trial {
    const char *kernel;
    int block[3] = {1, 1, 1};
    long grid[3] = {1, 1, 1};
    int cluster = 1;
    size_t dynamic_bytes = 0;
    int architecture = 0;
};

template <typename... Values>
static sim_outcome run(sim_worker &worker, const trial &t, Values... values) {
    void *const pointers[] = {static_cast<void *>(&values)..., nullptr};
    const int architecture = t.architecture != 0 ? t.architecture : sim_any_architecture;
    const sim_launch launch = {sim_kernel_find(t.kernel, architecture),
                               pointers,
                               {t.block[0], t.block[1], t.block[2]},
                               {t.grid[0], t.grid[1], t.grid[2]},
                               {t.cluster, 1, 1},
                               t.dynamic_bytes,
                               48 * 1024,
                               t.architecture};
    assert_non_null(launch.kernel);
    return worker.run(launch);
}

static trial line(const char *kernel, int threads, long blocks) {
    trial t;
    t.kernel = kernel;
    t.block[0] = threads;
    t.grid[0] = blocks;
    return t;
}

static bool says(const sim_worker &worker, const char *part) {
    return worker.message().find(part) != std::string::npos;
}

TEST(each_thread_runs_once) {
    sim_worker worker;
    std::vector<int> counts(4 * 3 * 2 * 5 * 2 * 3, 0);
    trial t;
    t.kernel = "count_threads";
    const int size[3] = {4, 3, 2}, groups[3] = {5, 2, 3};
    for (int d = 0; d < 3; d++) {
        t.block[d] = size[d];
        t.grid[d] = groups[d];
    }
    assert_int_equal(run(worker, t, counts.data()), SIM_DONE);
    for (const int count : counts)
        assert_int_equal(count, 1);
}

static bool reverses(sim_worker &worker, int with) {
    const int n = 96, blocks = 4;
    std::vector<float> data(n * blocks);
    for (size_t i = 0; i < data.size(); i++)
        data[i] = static_cast<float>(i);
    assert_int_equal(run(worker, line("reverse_twice", n, blocks), data.data(), with), SIM_DONE);
    for (size_t i = 0; i < data.size(); i++)
        if (data[i] != static_cast<float>(i) + 2)
            return false;
    return true;
}

TEST(barriers_order) {
    sim_worker worker;
    assert_true(reverses(worker, BOTH_BARRIERS));
}

TEST(a_missing_barrier_shows) {
    sim_worker worker;
    assert_false(reverses(worker, FIRST_BARRIER));
    assert_false(reverses(worker, SECOND_BARRIER));
    assert_false(reverses(worker, 0));
    assert_true(reverses(worker, BOTH_BARRIERS));
}

TEST(a_divergent_barrier_fails) {
    sim_worker worker;
    for (int who = 0; who < 64; who += 63) {
        assert_int_equal(run(worker, line("leave_early", 64, 2), who), SIM_LAUNCH_FAILED);
        assert_true(says(worker, "kernel leave_early"));
        assert_true(says(worker, "63 wait at a barrier of the block"));
    }
    assert_int_equal(run(worker, line("two_barriers", 64, 1)), SIM_LAUNCH_FAILED);
    assert_true(says(worker, "divergent control flow"));
    assert_true(reverses(worker, BOTH_BARRIERS)); /* the worker continues to work */
}

/* Returns the number of elements of `to` that have the expected value from `from`. Returns -1 if
 * another element is not a NaN. */
static int arrived(sim_worker &worker, int kept, int bytes) {
    const int n = 32, count = 3 * n * 4;
    alignas(16) static float from[3 * 32 * 4];
    std::vector<float> to(static_cast<size_t>(count), -5.0f);
    for (int i = 0; i < count; i++)
        from[i] = static_cast<float>(i + 1);
    assert_int_equal(run(worker, line("copy_in_stages", n, 1), static_cast<const float *>(from),
                         to.data(), kept, bytes),
                     SIM_DONE);
    int good = 0;
    for (int i = 0; i < count; i++) {
        const int stage = i / (n * 4), thread = i / 4 % n, k = i % 4;
        const float wanted = k * 4 < bytes ? from[(stage * n + (thread + 1) % n) * 4 + k] : 0.0f;
        const float got = to[static_cast<size_t>(i)];
        if (got != wanted && !std::isnan(got))
            return -1;
        good += got == wanted;
    }
    return good;
}

TEST(copies_arrive_at_their_wait) {
    sim_worker worker;
    assert_int_equal(arrived(worker, 2, 16), 3 * 32 * 4);
    assert_int_equal(arrived(worker, 2, 8), 3 * 32 * 4);
    assert_int_equal(arrived(worker, 2, 0), 3 * 32 * 4);
    /* Each stage waits for one group too few. Some threads still get the data, because the
     * neighbour has run ahead. */
    assert_in_range(arrived(worker, 3, 16), 0, 3 * 32 * 4 * 3 / 4);
}

TEST(wrong_copies_fail) {
    sim_worker worker;
    alignas(16) static const char from[64] = {0};
    const char *const at = from;
    assert_int_equal(run(worker, line("wrong_copy", 1, 1), at, 0, 0), SIM_DONE);
    assert_int_equal(run(worker, line("wrong_copy", 1, 1), at, 4, 0), SIM_ILLEGAL_ADDRESS);
    assert_true(says(worker, "multiples of 16"));
    assert_int_equal(run(worker, line("wrong_copy", 1, 1), at, 0, 1), SIM_ILLEGAL_ADDRESS);
    assert_true(says(worker, "not in the block's shared memory"));
}

TEST(copies_run_on_from_8_0_on) {
    sim_worker worker;
    alignas(16) static const char bytes[32] = {0};
    trial t = line("wrong_copy", 1, 1);
    t.architecture = 75;
    assert_int_equal(run(worker, t, +bytes, 0, 0), SIM_LAUNCH_FAILED);
    assert_true(says(worker, "cp.async is of compute capability 8.0"));
    t.architecture = 80;
    assert_int_equal(run(worker, t, +bytes, 0, 0), SIM_DONE);
}

TEST(each_device_gets_its_form) {
    sim_worker worker;
    const int forms[][2] = {{75, 75}, {79, 75}, {80, 80}, {90, 80}, {sim_any_architecture, 80}};
    for (const int(&row)[2] : forms) {
        int form = 0;
        trial t = line("two_forms", 1, 1);
        t.architecture = row[0];
        assert_int_equal(run(worker, t, &form), SIM_DONE);
        assert_int_equal(form, row[1]);
    }
    assert_non_null(sim_kernel_find("ask_neighbour", 90));
    assert_null(sim_kernel_find("ask_neighbour", 89));
}

TEST(lanes_exchange) {
    sim_worker worker;
    std::vector<uint32_t> out(64 * 6);
    assert_int_equal(run(worker, line("shuffles", 64, 1), out.data()), SIM_DONE);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t *const row = &out[i * 6], lane = i % 32, warp = i / 32 * 32;
        uint32_t votes = 0;
        for (uint32_t l = 0; l < 32; l++)
            votes |= (warp + l) % 3 == 0 ? 1u << l : 0u;
        assert_int_equal(row[0], warp + 5);
        assert_int_equal(row[1], i ^ 9u);
        assert_int_equal(row[2], lane % 16 >= 3 ? i - 3 : i);
        assert_int_equal(row[3], lane % 8 + 3 < 8 ? i + 3 : i);
        assert_int_equal(row[4], votes);
        assert_int_equal(row[5], i ^ 2u);
    }
}

TEST(wrong_exchanges_fail) {
    sim_worker worker;
    const char *const words[] = {"31 for lanes of their warp", "for lanes of their warp",
                                 "not in its mask", "a shuffle from lane 20"};
    for (int how = LANE_MISSING; how <= SOURCE_NOT_IN_MASK; how++) {
        assert_int_equal(run(worker, line("bad_shuffle", 32, 1), how), SIM_LAUNCH_FAILED);
        if (how != LANE_ELSEWHERE)
            assert_true(says(worker, words[how]));
    }
}

TEST(shared_memory_begins_as_nan) {
    sim_worker worker;
    std::vector<float> out(6, 0.0f);
    trial t = line("see_shared", 1, 3);
    t.dynamic_bytes = 16;
    assert_int_equal(run(worker, t, out.data()), SIM_DONE);
    for (const float x : out)
        assert_true(std::isnan(x));
}

TEST(shared_memory_has_a_limit) {
    sim_worker worker;
    assert_int_equal(run(worker, line("take_shared", 1, 1), 47 * 1024), SIM_DONE);
    assert_int_equal(worker.static_bytes(), 48 * 1024);
    assert_int_equal(run(worker, line("take_shared", 1, 1), 47 * 1024 + 1), SIM_LAUNCH_FAILED);
    assert_true(says(worker, "shared memory"));
}

TEST(named_barriers) {
    sim_worker worker;
    std::vector<int> out(32, -1);
    assert_int_equal(run(worker, line("hand_over", 128, 1), out.data()), SIM_DONE);
    for (int l = 0; l < 32; l++)
        assert_int_equal(out[static_cast<size_t>(l)], (31 - l) * 2);
}

TEST(clusters_run_together) {
    sim_worker worker;
    std::vector<int> out(4 * 8, -1);
    trial t = line("ask_neighbour", 4, 8);
    t.cluster = 4;
    assert_int_equal(run(worker, t, out.data(), 1), SIM_DONE);
    for (int b = 0; b < 8; b++)
        assert_int_equal(out[static_cast<size_t>(b * 4 + 3)], b / 4 * 4 + (b + 1) % 4);
    assert_int_equal(run(worker, t, out.data(), 0), SIM_DONE);
    int wrong = 0;
    for (int b = 0; b < 8; b++)
        wrong += out[static_cast<size_t>(b * 4)] != b / 4 * 4 + (b + 1) % 4;
    assert_true(wrong > 0);
}

TEST_MAIN(NULL, NULL)
