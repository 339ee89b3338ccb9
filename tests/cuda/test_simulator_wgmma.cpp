// Tests wgmma on the simulator. Multiplications in all layouts are compared with a loop, and
// missing operations must be detected.
#include <cmath>

#include "tests/cuda/simulator_trial.h"

enum {
    A_AT = 0,
    B_AT = 16384,
    PRODUCT_FAULT_NONE = 0,
    NO_FENCE,
    NO_WAIT,
    OTHER_SWIZZLE,
    OTHER_LANES
};

struct product_case {
    tandem_sim_element element;
    int n;
    int swizzle;           /* 0 to 3: 16, 32, 64 or 128 bytes are contiguous */
    bool a_lines, b_lines; /* contiguous along rows of A, along columns of B */
    int steps;             /* number of multiplications, each over 32 bytes of K */
};

static int bytes_of(tandem_sim_element element) {
    return element == TANDEM_SIM_F16 || element == TANDEM_SIM_BF16 ? 2 : 1;
}

/*
 * Returns the offset of element (line, p) in a tile of `lines` lines. The tile consists of pieces.
 * A piece has the swizzle's number of bytes along the contiguous direction, and 8 elements along
 * the other one. Pieces follow each other along that other direction first. Within a piece the
 * order is that of place_in_tensor_map. */
static size_t place_in_tile(const product_case &c, bool along_lines, int lines, int line, int p) {
    const int bytes = bytes_of(c.element), span = (16 << c.swizzle) / bytes;
    const int fast = along_lines ? line : p, slow = along_lines ? p : line;
    const int slow_count = along_lines ? c.steps * 32 / bytes : lines;
    const int piece = fast / span * (slow_count / 8) + slow / 8;
    const int byte = fast % span * bytes, chunks = 1 << c.swizzle;
    const int chunk = byte / 16, position = slow % 8 * chunks + chunk;
    const int moved = chunk ^ (position / 8 % chunks);
    return static_cast<size_t>(piece * 128 * chunks + (slow % 8 * chunks + moved) * 16 + byte % 16);
}

/* Returns a descriptor of this tile. Its strides lead to the next piece along the contiguous
 * direction and along the other one. */
static uint64_t descriptor(const product_case &c, bool along_lines, int lines, const char *tile,
                           int step, int swizzle) {
    static const uint64_t modes[4] = {0, 3, 2, 1};
    const int bytes = bytes_of(c.element), depth = 32 / bytes;
    const uint64_t piece = 128u << c.swizzle;
    const int slow_count = along_lines ? c.steps * depth : lines;
    const uint64_t next_fast = piece * static_cast<uint64_t>(slow_count / 8);
    const char *const start =
        tile + (along_lines      ? step * depth / 8 * static_cast<int>(piece)
                : c.swizzle == 0 ? step * 2 * static_cast<int>(next_fast)
                                 : step * 32 % (16 << c.swizzle) +
                                       step * 32 / (16 << c.swizzle) * static_cast<int>(next_fast));
    const bool exchanged = along_lines && c.swizzle == 0;
    const uint64_t leading = exchanged ? piece : next_fast, stride = exchanged ? next_fast : piece;
    return (tandem_sim_shared_address(start) >> 4) | leading >> 4 << 16 | stride >> 4 << 32 |
           modes[swizzle] << 62;
}

static void multiply(product_case c, const char *a, const char *b, void *out, int fault) {
    char *const tile = dynamic();
    uint32_t d[128];
    if (item() == 0) {
        memcpy(tile + A_AT, a, 16384);
        memcpy(tile + B_AT, b, 32768);
    }
    for (uint32_t &r : d) {
        const float one = 1.0f;
        memcpy(&r, &one, sizeof r);
    }
    tandem_sim_barrier(__LINE__);
    const int swizzle = fault == OTHER_SWIZZLE ? c.swizzle ^ 1 : c.swizzle;
    if (fault != NO_FENCE)
        tandem_sim_multiply_fence();
    for (int s = 0; s < c.steps; s++) {
        const int of = fault == OTHER_LANES && item() % 32 == 9 ? 0 : s;
        tandem_sim_multiply({c.n, c.element, c.element, c.a_lines, c.b_lines,
                             descriptor(c, c.a_lines, 64, tile + A_AT, of, swizzle),
                             descriptor(c, c.b_lines, c.n, tile + B_AT, s, swizzle), s > 0},
                            d);
    }
    tandem_sim_multiply_commit();
    if (fault == NO_WAIT)
        memcpy(static_cast<uint32_t *>(out) + item() * 128, d, sizeof d);
    tandem_sim_multiply_wait(0);
    if (fault != NO_WAIT)
        memcpy(static_cast<uint32_t *>(out) + item() * 128, d, sizeof d);
}
TANDEM_SIM_REGISTER(multiply, "multiply", 128, 1, 1, 90);

/* Returns small numbers that all types represent exactly. */
static int value_of(int line, int p, int salt) {
    return (line * 7 + p * 3 + line * p % 5 + salt) % 9 - 4;
}

static void put(tandem_sim_element element, char *at, int value) {
    const float real = static_cast<float>(value);
    uint32_t bits = 0;
    memcpy(&bits, &real, sizeof bits);
    if (element == TANDEM_SIM_S8 || element == TANDEM_SIM_U8) {
        *at = static_cast<char>(value);
    } else if (element == TANDEM_SIM_BF16) {
        const uint16_t half = static_cast<uint16_t>(bits >> 16);
        memcpy(at, &half, sizeof half);
    } else { // f16 has five bits of exponent instead of eight
        const uint32_t magnitude = bits & 0x7fffffffu;
        const uint16_t half = static_cast<uint16_t>(
            (bits >> 16 & 0x8000u) | (magnitude == 0 ? 0 : (magnitude >> 13) - (112u << 10)));
        memcpy(at, &half, sizeof half);
    }
}

static int signed_value(tandem_sim_element element, int value) {
    return element == TANDEM_SIM_U8 ? static_cast<unsigned char>(value) : value;
}

static std::vector<char> tile_of(const product_case &c, bool along_lines, int lines, int salt) {
    std::vector<char> tile(32768, 0x55);
    for (int line = 0; line < lines; line++) {
        for (int p = 0; p < c.steps * 32 / bytes_of(c.element); p++) {
            put(c.element, &tile[place_in_tile(c, along_lines, lines, line, p)],
                value_of(line, p, salt));
        }
    }
    return tile;
}

static const product_case products[] = {
    {TANDEM_SIM_F16, 256, 3, false, false, 2}, {TANDEM_SIM_F16, 64, 3, true, false, 4},
    {TANDEM_SIM_F16, 128, 3, false, true, 4},  {TANDEM_SIM_BF16, 128, 3, true, true, 2},
    {TANDEM_SIM_BF16, 64, 2, false, false, 4}, {TANDEM_SIM_F16, 64, 2, true, true, 2},
    {TANDEM_SIM_BF16, 32, 1, false, false, 2}, {TANDEM_SIM_F16, 48, 1, true, true, 1},
    {TANDEM_SIM_F16, 24, 0, false, false, 2},  {TANDEM_SIM_BF16, 40, 0, true, true, 2},
    {TANDEM_SIM_S8, 128, 3, false, false, 4},  {TANDEM_SIM_U8, 64, 2, false, false, 2},
    {TANDEM_SIM_S8, 24, 1, false, false, 1},   {TANDEM_SIM_U8, 16, 0, false, false, 1},
};

static sim_outcome multiply_case(sim_worker &worker, const product_case &c, int fault,
                                 std::vector<uint32_t> &out) {
    const std::vector<char> a = tile_of(c, c.a_lines, 64, 1), b = tile_of(c, c.b_lines, c.n, 2);
    trial t;
    t.kernel = "multiply";
    out.assign(128 * 128, 0);
    return run(worker, t, c, a.data(), b.data(), static_cast<void *>(out.data()), fault);
}

/* Returns the register that holds element (i, j), by the fragment layout of PTX. */
static uint32_t register_of(const std::vector<uint32_t> &out, int i, int j) {
    const int warp = i / 16, thread = warp * 32 + i % 8 * 4 + j % 8 / 2;
    const int at = j / 8 * 4 + i % 16 / 8 * 2 + j % 2;
    return out[static_cast<size_t>(thread * 128 + at)];
}

static bool product_is_right(const product_case &c, const std::vector<uint32_t> &out) {
    const int depth = c.steps * 32 / bytes_of(c.element);
    for (int i = 0; i < 64; i++) {
        for (int j = 0; j < c.n; j++) {
            int sum = 0;
            for (int p = 0; p < depth; p++) {
                sum += signed_value(c.element, value_of(i, p, 1)) *
                       signed_value(c.element, value_of(j, p, 2));
            }
            const uint32_t bits = register_of(out, i, j);
            float real = 0;
            memcpy(&real, &bits, sizeof real);
            if (bytes_of(c.element) == 2 ? real != static_cast<float>(sum)
                                         : static_cast<int>(bits) != sum)
                return false;
        }
    }
    return true;
}

TEST(products_of_all_layouts) {
    for (const product_case &c : products) {
        sim_worker worker;
        std::vector<uint32_t> out;
        assert_int_equal(multiply_case(worker, c, PRODUCT_FAULT_NONE, out), SIM_DONE);
        if (!product_is_right(c, out)) {
            fail_msg("element %d, n %d, swizzle %d, lines %d %d", c.element, c.n, c.swizzle,
                     c.a_lines, c.b_lines);
        }
    }
}

TEST(products_show_what_is_missing) {
    sim_worker worker;
    std::vector<uint32_t> out;
    assert_int_equal(multiply_case(worker, products[0], NO_WAIT, out), SIM_DONE);
    for (int i = 0; i < 128; i++) {
        float real = 0;
        memcpy(&real, &out[static_cast<size_t>(i)], sizeof real);
        assert_true(std::isnan(real));
    }
    assert_int_equal(multiply_case(worker, products[0], OTHER_SWIZZLE, out), SIM_DONE);
    assert_false(product_is_right(products[0], out));
    assert_int_equal(multiply_case(worker, products[0], NO_FENCE, out), SIM_LAUNCH_FAILED);
    assert_true(worker.message().find("wgmma.fence") != std::string::npos);
    assert_int_equal(multiply_case(worker, products[0], OTHER_LANES, out), SIM_LAUNCH_FAILED);
    assert_true(worker.message().find("other products") != std::string::npos);
}

TEST(bytes_are_contiguous_along_depth) {
    sim_worker worker;
    std::vector<uint32_t> out;
    product_case c = products[10];
    c.b_lines = true;
    assert_int_equal(multiply_case(worker, c, PRODUCT_FAULT_NONE, out), SIM_LAUNCH_FAILED);
}

/* The multiplication uses the contents of shared memory at the time of the wait. `early`: the
 * operands are overwritten before the wait. */
static void overwrite_too_early(product_case c, const char *a, const char *b, float *out,
                                int early) {
    char *const tile = dynamic();
    float d[128] = {0};
    if (item() == 0) {
        memcpy(tile + A_AT, a, 16384);
        memcpy(tile + B_AT, b, 32768);
    }
    tandem_sim_barrier(__LINE__);
    tandem_sim_multiply_fence();
    tandem_sim_multiply({c.n, c.element, c.element, false, false,
                         descriptor(c, false, 64, tile + A_AT, 0, c.swizzle),
                         descriptor(c, false, c.n, tile + B_AT, 0, c.swizzle), false},
                        d);
    tandem_sim_multiply_commit();
    if (early != 0)
        memset(tile, 0, 49152);
    tandem_sim_multiply_wait(0);
    tandem_sim_barrier(__LINE__);
    memset(tile, 0, 49152);
    out[item()] = d[0];
}
TANDEM_SIM_REGISTER(overwrite_too_early, "overwrite_too_early", 128, 1, 1, 90);

TEST(products_read_at_the_wait) {
    const product_case c = {TANDEM_SIM_F16, 64, 3, false, false, 1};
    const std::vector<char> a = tile_of(c, false, 64, 1), b = tile_of(c, false, c.n, 2);
    for (int early = 0; early < 2; early++) {
        sim_worker worker;
        trial t;
        t.kernel = "overwrite_too_early";
        std::vector<float> out(128, -1);
        assert_int_equal(run(worker, t, c, a.data(), b.data(), out.data(), early), SIM_DONE);
        bool zero = true;
        for (const float x : out)
            zero = zero && x == 0;
        assert_int_equal(zero, early);
    }
}

TEST_MAIN(enter_device, leave_device)
