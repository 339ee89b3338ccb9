// Tests the operations of compute capability 9.0a. Each one gives the result of an independent
// formulation. A kernel that lacks one fails.
#include "tests/cuda/simulator_trial.h"

/* ---- mbarriers ---- */

enum {
    RIGHT,
    ARRIVES_TOO_OFTEN,
    OVERWRITES,
    NO_BARRIER
};

/* Thread 0 passes 8 numbers to all other threads, one number per phase. */
static void hand_over_in_phases(int *out, int how) {
    uint64_t *const full = reinterpret_cast<uint64_t *>(dynamic()), *const empty = full + 1;
    int *const slot = reinterpret_cast<int *>(full + 2);
    const uint32_t readers = static_cast<uint32_t>(tandem_sim_self->block->threads - 1);
    if (item() == 0 && how != NO_BARRIER) {
        tandem_sim_mbarrier_init(full, 1);
        tandem_sim_mbarrier_init(empty, readers);
    }
    tandem_sim_barrier(__LINE__);
    for (uint32_t i = 0; i < 8; i++) {
        if (item() == 0) {
            tandem_sim_mbarrier_wait(empty, (i & 1u) ^ 1u, __LINE__);
            *slot = static_cast<int>(i * i);
            tandem_sim_mbarrier_arrive(full, how == ARRIVES_TOO_OFTEN ? 16 : 0);
            if (how == ARRIVES_TOO_OFTEN)
                tandem_sim_mbarrier_arrive(full, 0);
            if (how == OVERWRITES) {
                *reinterpret_cast<int *>(empty) = 0;
                reinterpret_cast<int *>(empty)[1] = 0;
            }
        } else {
            tandem_sim_mbarrier_wait(full, i & 1u, __LINE__);
            out[i * readers + static_cast<uint32_t>(item()) - 1] = *slot;
            tandem_sim_mbarrier_arrive(empty, 0);
        }
    }
}
TANDEM_SIM_REGISTER(hand_over_in_phases, "hand_over_in_phases", 0, 0, 0, 90);

static trial phases() {
    trial t;
    t.kernel = "hand_over_in_phases";
    t.threads = 64;
    return t;
}

TEST(mbarriers_have_phases) {
    sim_worker worker;
    std::vector<int> out(8 * 63, -1);
    assert_int_equal(run(worker, phases(), out.data(), static_cast<int>(RIGHT)), SIM_DONE);
    for (size_t i = 0; i < out.size(); i++)
        assert_int_equal(out[i], i / 63 * (i / 63));
}

TEST(mbarriers_tell_what_is_wrong) {
    std::vector<int> out(8 * 63, -1);
    fails(phases(), "misses 0", out.data(), static_cast<int>(ARRIVES_TOO_OFTEN));
    fails(phases(), "written over", out.data(), static_cast<int>(OVERWRITES));
    fails(phases(), "there is no mbarrier", out.data(), static_cast<int>(NO_BARRIER));
}

static void wait_forever() {
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(dynamic());
    if (item() == 0) {
        tandem_sim_mbarrier_init(barrier, 2);
        tandem_sim_mbarrier_arrive(barrier, 0);
    }
    tandem_sim_barrier(__LINE__);
    tandem_sim_mbarrier_wait(barrier, 0, __LINE__);
}
TANDEM_SIM_REGISTER(wait_forever, "wait_forever", 0, 0, 0, 90);

TEST(phase_that_never_completes_is_a_deadlock) {
    trial t;
    t.kernel = "wait_forever";
    fails(t, "128 at an mbarrier");
}

enum {
    WELL,
    UNFENCED,
    EARLY,
    UNAWAITED,
    UNAWAITED_AND_BARRIER,
    WAITS_ELSEWHERE
};

/* Block 1 of a cluster waits for an arrival of every thread of both blocks. */
static void arrive_from_afar(int *out, int how) {
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(dynamic());
    const tandem_sim_block *const block = tandem_sim_self->block;
    int *const slot = reinterpret_cast<int *>(barrier + 1);
    if (item() == 0) {
        tandem_sim_mbarrier_init(barrier, static_cast<uint32_t>(2 * block->threads));
        if (how != UNFENCED)
            tandem_sim_mbarrier_init_fence();
    }
    if (how == EARLY) {
        tandem_sim_barrier(__LINE__);
        tandem_sim_barrier(__LINE__); /* the other block has begun by now */
    } else {
        tandem_sim_cluster_barrier(__LINE__);
    }
    static_cast<int *>(
        tandem_sim_cluster_shared(slot, 1))[block->cluster_rank * block->threads + item()] = item();
    tandem_sim_mbarrier_arrive_rank(barrier, 1);
    if (how == WAITS_ELSEWHERE) {
        tandem_sim_mbarrier_wait(static_cast<uint64_t *>(tandem_sim_cluster_shared(barrier, 1)), 0,
                                 __LINE__);
    } else if (block->cluster_rank == 1 && how != UNAWAITED && how != UNAWAITED_AND_BARRIER) {
        tandem_sim_mbarrier_wait(barrier, 0, __LINE__);
        out[item()] = slot[block->threads - 1 - item()] + slot[2 * block->threads - 1 - item()];
    }
    if (how == UNAWAITED_AND_BARRIER)
        tandem_sim_cluster_barrier(__LINE__);
}
TANDEM_SIM_REGISTER(arrive_from_afar, "arrive_from_afar", 0, 0, 0, 90);

TEST(blocks_of_a_cluster_arrive) {
    sim_worker worker;
    trial t;
    t.kernel = "arrive_from_afar";
    t.cluster = 2;
    std::vector<int> out(128, -1);
    assert_int_equal(run(worker, t, out.data(), static_cast<int>(WELL)), SIM_DONE);
    for (int i = 0; i < 128; i++)
        assert_int_equal(out[static_cast<size_t>(i)], 2 * (127 - i));
    assert_int_equal(run(worker, t, out.data(), static_cast<int>(UNAWAITED_AND_BARRIER)), SIM_DONE);
    fails(t, "without a fence", out.data(), static_cast<int>(UNFENCED));
    fails(t, "without a barrier of the cluster", out.data(), static_cast<int>(EARLY));
    fails(t, "may have left", out.data(), static_cast<int>(UNAWAITED));
    fails(t, "of another block", out.data(), static_cast<int>(WAITS_ELSEWHERE));
}

/* Block 1 waits at barriers of its own until block 0 has left. Then it accesses block 0. */
static void reach_for_the_left() {
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(dynamic());
    const tandem_sim_block *const block = tandem_sim_self->block;
    if (item() == 0) {
        tandem_sim_mbarrier_init(barrier, 2);
        tandem_sim_mbarrier_init_fence();
    }
    tandem_sim_cluster_barrier(__LINE__);
    if (block->cluster_rank == 1) {
        for (int i = 0; i < 4; i++)
            tandem_sim_barrier(__LINE__);
        if (item() == 0)
            tandem_sim_mbarrier_arrive_rank(barrier, 0);
    }
}
TANDEM_SIM_REGISTER(reach_for_the_left, "reach_for_the_left", 0, 0, 0, 90);

TEST(blocks_that_have_left_are_out_of_reach) {
    trial t;
    t.kernel = "reach_for_the_left";
    t.cluster = 2;
    fails(t, "has left");
}

/* ---- bulk copies ---- */

enum {
    HEIGHT = 19,
    DEPTH = 3,
    PITCH = 96 /* elements of 2 bytes */
};

struct box_case {
    unsigned swizzle;
    uint32_t box[3];
    int at[3];
    uint32_t step; /* step between copied rows */
};

static tandem_sim_tensor_map map_of(const std::vector<uint16_t> &data, const box_case &c) {
    tandem_sim_tensor_map map;
    const uint64_t sizes[3] = {85, HEIGHT, DEPTH}, strides[2] = {PITCH * 2, PITCH * HEIGHT * 2};
    const uint32_t steps[3] = {1, c.step, 1};
    assert_int_equal(cuTensorMapEncodeTiled(
                         reinterpret_cast<CUtensorMap *>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
                         const_cast<uint16_t *>(data.data()), sizes, strides, c.box, steps,
                         CU_TENSOR_MAP_INTERLEAVE_NONE, c.swizzle,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                     CUDA_SUCCESS);
    return map;
}

/* Stores the contents of the target before and after the wait. */
static void fetch_box(tandem_sim_tensor_map map, const int *at, uint16_t *early, uint16_t *out,
                      int bytes, int expected) {
    char *const tile = dynamic();
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(tile + 32768);
    if (item() == 0) {
        tandem_sim_mbarrier_init(barrier, 1);
        tandem_sim_mbarrier_init_fence();
        memset(tile, 0, static_cast<size_t>(bytes));
        tandem_sim_mbarrier_arrive(barrier, static_cast<uint32_t>(expected));
        tandem_sim_tensor_load(tile, &map, at, 3, barrier, 0);
    }
    tandem_sim_barrier(__LINE__);
    if (item() == 1)
        memcpy(early, tile, static_cast<size_t>(bytes));
    tandem_sim_mbarrier_wait(barrier, 0, __LINE__);
    if (item() == 2)
        memcpy(out, tile, static_cast<size_t>(bytes));
}
TANDEM_SIM_REGISTER(fetch_box, "fetch_box", 0, 0, 0, 90);

static std::vector<uint16_t> numbered_tensor() {
    std::vector<uint16_t> data(PITCH * HEIGHT * DEPTH);
    for (size_t i = 0; i < data.size(); i++)
        data[i] = static_cast<uint16_t>(i + 1);
    return data;
}

/*
 * Returns the offset of element x of row r of a box, in elements. Rows are counted through all
 * planes. A row consists of 16-byte chunks. A swizzle over 2, 4 or 8 chunks changes their order
 * from one 128-byte line to the next. */
static size_t index_in_box(size_t x, size_t r, size_t row_elements, unsigned swizzle) {
    const size_t chunks = row_elements / 8, chunk = x / 8;
    const size_t line = (r * chunks + chunk) / 8;
    const size_t moved = swizzle == 0 ? chunk : chunk ^ (line % (1u << swizzle));
    return (r * chunks + moved) * 8 + x % 8;
}

static uint16_t element_at(const std::vector<uint16_t> &data, int x, int y, int z) {
    const bool inside = x >= 0 && x < 85 && y >= 0 && y < HEIGHT && z >= 0 && z < DEPTH;
    return inside ? data[static_cast<size_t>((z * HEIGHT + y) * PITCH + x)] : uint16_t(0);
}

static void expect_box(const std::vector<uint16_t> &data, const box_case &c,
                       const std::vector<uint16_t> &out) {
    const uint32_t rows = (c.box[1] + c.step - 1) / c.step;
    for (uint32_t z = 0; z < c.box[2]; z++) {
        for (uint32_t y = 0; y < rows; y++) {
            for (uint32_t x = 0; x < c.box[0]; x++) {
                const uint16_t wanted = element_at(data, c.at[0] + static_cast<int>(x),
                                                   c.at[1] + static_cast<int>(y * c.step),
                                                   c.at[2] + static_cast<int>(z));
                assert_int_equal(out[index_in_box(x, z * rows + y, c.box[0], c.swizzle)], wanted);
            }
        }
    }
}

static trial fetching() {
    trial t;
    t.kernel = "fetch_box";
    t.threads = 32;
    return t;
}

static const box_case boxes[] = {
    {0, {24, 5, 2}, {0, 0, 0}, 1},   {0, {64, 8, 1}, {40, 15, 2}, 1},
    {1, {16, 16, 1}, {-4, 8, 1}, 1}, {2, {32, 9, 1}, {8, -3, 0}, 1},
    {3, {64, 16, 2}, {64, 3, 2}, 1}, {3, {64, 32, 1}, {0, 0, -1}, 1},
    {3, {64, 16, 1}, {16, 2, 1}, 2}, {0, {8, 7, 1}, {80, 0, 0}, 3},
};

static size_t box_elements(const box_case &c) {
    return static_cast<size_t>(c.box[0]) * ((c.box[1] + c.step - 1) / c.step) * c.box[2];
}

TEST(boxes_arrive_swizzled_and_filled) {
    const std::vector<uint16_t> data = numbered_tensor();
    for (const box_case &c : boxes) {
        sim_worker worker;
        const size_t count = box_elements(c);
        std::vector<uint16_t> early(count), out(count);
        const int bytes = static_cast<int>(count * 2);
        assert_int_equal(run(worker, fetching(), map_of(data, c), static_cast<const int *>(c.at),
                             early.data(), out.data(), bytes, bytes),
                         SIM_DONE);
        expect_box(data, c, out);
        // The target was overwritten with NaNs, and the data has not arrived yet.
        for (const uint16_t element : early)
            assert_true(element == 0xffe5);
    }
}

TEST(copies_must_be_waited_for_in_full) {
    const std::vector<uint16_t> data = numbered_tensor();
    std::vector<uint16_t> early(2048), out(2048);
    const box_case &c = boxes[0];
    const int bytes = static_cast<int>(box_elements(c) * 2);
    fails(fetching(), "deadlock", map_of(data, c), static_cast<const int *>(c.at), early.data(),
          out.data(), bytes, bytes + 16);
}

TEST(maps_that_the_hardware_cannot_read) {
    std::vector<uint16_t> data = numbered_tensor();
    tandem_sim_tensor_map map;
    const uint32_t ones[3] = {1, 1, 1};
    const auto encode = [&](uint64_t pitch, uint32_t width, unsigned swizzle, size_t offset) {
        const uint64_t sizes[2] = {85, HEIGHT}, strides[1] = {pitch};
        const uint32_t box[2] = {width, 4};
        return cuTensorMapEncodeTiled(
            reinterpret_cast<CUtensorMap *>(&map), CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
            data.data() + offset, sizes, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    const size_t aligned = (16 - reinterpret_cast<uintptr_t>(data.data()) % 16) % 16 / 2;
    assert_int_equal(encode(192, 64, 3, aligned), CUDA_SUCCESS);
    assert_int_equal(encode(190, 64, 3, aligned), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(160, 64, 3, aligned), CUDA_ERROR_INVALID_VALUE); // overlapping rows
    assert_int_equal(encode(192, 72, 3, aligned), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(192, 4, 0, aligned), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(192, 64, 3, aligned + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
    const CUresult without = encode(192, 64, 3, aligned);
    assert_int_equal(enter_device(nullptr), 0);
    assert_int_equal(without, CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* Block r of the two copies half r of the box to the blocks in the mask `groups`. Each block in the
 * mask `waiting` waits for the whole box. */
static void fetch_for_all(tandem_sim_tensor_map map, uint16_t *out, int groups, int waiting) {
    char *const tile = dynamic();
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(tile + 32768);
    const int rank = tandem_sim_self->block->cluster_rank;
    if (item() == 0) {
        tandem_sim_mbarrier_init(barrier, 1);
        tandem_sim_mbarrier_init_fence();
        tandem_sim_mbarrier_arrive(barrier, 2048);
    }
    tandem_sim_cluster_barrier(__LINE__);
    if (item() == 0) {
        const int at[3] = {0, 8 * rank, 1};
        tandem_sim_tensor_load(tile + 1024 * rank, &map, at, 3, barrier,
                               static_cast<uint32_t>(groups));
    }
    if ((waiting >> rank & 1) != 0)
        tandem_sim_mbarrier_wait(barrier, 0, __LINE__);
    if (item() == 5)
        memcpy(out + 1024 * rank, tile, 2048);
    tandem_sim_cluster_barrier(__LINE__);
}
TANDEM_SIM_REGISTER(fetch_for_all, "fetch_for_all", 0, 0, 0, 90);

TEST(multicast_reaches_all_blocks) {
    const std::vector<uint16_t> data = numbered_tensor();
    const box_case half = {3, {64, 8, 1}, {0, 0, 1}, 1}, whole = {3, {64, 16, 1}, {0, 0, 1}, 1};
    sim_worker worker;
    trial t = fetching();
    t.kernel = "fetch_for_all";
    t.cluster = 2;
    std::vector<uint16_t> out(2048);
    const tandem_sim_tensor_map map = map_of(data, half);
    assert_int_equal(run(worker, t, map, out.data(), 3, 3), SIM_DONE);
    for (int rank = 0; rank < 2; rank++)
        expect_box(data, whole, std::vector<uint16_t>(out.begin() + 1024 * rank, out.end()));
    fails(t, "64 at an mbarrier", map, out.data(), 0, 3); // each block has its own half
    fails(t, "32 at an mbarrier", map, out.data(), 1, 3); // block 0 has both
    fails(t, "block 2 of a cluster of 2", map, out.data(), 7, 3);
    fails(t, "under way", map, out.data(), 3, 0);
    fails(t, "without a wait for a bulk copy", map, out.data(), 3, 1);
}

/* Copies a box in, and out again one row lower. `waits` is 0 without a wait for the store, 1 with
 * it, and 2 without a fence before the store. */
static void move_box(tandem_sim_tensor_map map, tandem_sim_tensor_map to, int waits) {
    char *const tile = dynamic();
    uint64_t *const barrier = reinterpret_cast<uint64_t *>(tile + 32768);
    const int at[3] = {64, 8, 1}, below[3] = {64, 9, 1};
    if (item() != 0 || tandem_sim_self->block->group[0] != 0)
        return;
    tandem_sim_mbarrier_init(barrier, 1);
    tandem_sim_mbarrier_init_fence();
    tandem_sim_mbarrier_arrive(barrier, 2048);
    tandem_sim_tensor_load(tile, &map, at, 3, barrier, 0);
    tandem_sim_mbarrier_wait(barrier, 0, __LINE__);
    if (waits != 2)
        tandem_sim_proxy_fence();
    tandem_sim_tensor_store(&to, below, 3, tile);
    tandem_sim_tensor_store_commit();
    if (waits != 0)
        tandem_sim_tensor_store_wait(0);
}
TANDEM_SIM_REGISTER(move_box, "move_box", 0, 0, 0, 90);

TEST(stores_stay_inside) {
    const std::vector<uint16_t> data = numbered_tensor();
    std::vector<uint16_t> target(data.size(), 7);
    const box_case c = {3, {64, 16, 1}, {0, 0, 0}, 1};
    sim_worker worker;
    trial t = fetching();
    t.kernel = "move_box";
    assert_int_equal(run(worker, t, map_of(data, c), map_of(target, c), 1), SIM_DONE);
    for (int i = 0; i < static_cast<int>(target.size()); i++) {
        const int x = i % PITCH, y = i / PITCH % HEIGHT, z = i / PITCH / HEIGHT;
        const bool written = z == 1 && x >= 64 && x < 85 && y >= 9;
        assert_int_equal(target[static_cast<size_t>(i)],
                         written ? element_at(data, x, y - 1, z) : 7);
    }
    fails(t, "bulk stores under way", map_of(data, c), map_of(target, c), 0);
    fails(t, "without fence.proxy.async", map_of(data, c), map_of(target, c), 2);
}

/*
 * Thread 1 reads a box that has arrived. Thread 0 then loads the next one to the same location.
 * `fences` selects the proxy fence. 0: thread 0 has it before the load. 1: thread 1 has it after
 * its read. 2: nobody has it. 3: thread 1 has it before its read. */
static void read_and_overwrite(tandem_sim_tensor_map map, int fences) {
    char *const tile = dynamic();
    uint64_t *const full = reinterpret_cast<uint64_t *>(tile + 32768), *const empty = full + 1;
    const int at[3] = {64, 8, 1};
    if (item() == 0) {
        tandem_sim_mbarrier_init(full, 1);
        tandem_sim_mbarrier_init(empty, 1);
        tandem_sim_mbarrier_init_fence();
    }
    tandem_sim_barrier(__LINE__);
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (item() == 0) {
            tandem_sim_mbarrier_wait(empty, turn ^ 1u, __LINE__);
            tandem_sim_mbarrier_arrive(full, 2048);
            if (fences == 0)
                tandem_sim_proxy_fence();
            tandem_sim_tensor_load(tile, &map, at, 3, full, 0);
            tandem_sim_mbarrier_wait(full, turn, __LINE__);
        } else if (item() == 1) {
            tandem_sim_mbarrier_wait(full, turn, __LINE__);
            if (fences == 3)
                tandem_sim_proxy_fence();
            tandem_sim_shared_read(tile + 2000);
            if (fences == 1)
                tandem_sim_proxy_fence();
            tandem_sim_mbarrier_arrive(empty, 0);
        }
    }
}
TANDEM_SIM_REGISTER(read_and_overwrite, "read_and_overwrite", 0, 0, 0, 90);

TEST(reads_are_fenced_before_a_copy_overwrites) {
    const std::vector<uint16_t> data = numbered_tensor();
    const box_case c = {3, {64, 16, 1}, {0, 0, 0}, 1};
    sim_worker worker;
    trial t = fetching();
    t.kernel = "read_and_overwrite";
    for (int again = 0; again < 2; again++) // the last reads of a launch need no fence
        assert_int_equal(run(worker, t, map_of(data, c), 1), SIM_DONE);
    fails(t, "has read without fence.proxy.async", map_of(data, c), 0);
    fails(t, "has read without fence.proxy.async", map_of(data, c), 2);
    fails(t, "has read without fence.proxy.async", map_of(data, c), 3);
}

TEST_MAIN(enter_device, leave_device)
