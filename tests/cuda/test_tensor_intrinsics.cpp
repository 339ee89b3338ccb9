// Tests the tensor-core operations as host code. The expected results follow the formulas of the
// PTX ISA's chapters "Matrix Fragments for mma.*" and "ldmatrix". They define the matrix element in
// each register of each lane. The matrices have no symmetry.
#include <cmath>
#include <cstring>
#include <vector>

#include "dialect_cxx.h"

#include "dialect_tensor.h"

#include "tests/cuda_simulator/scheduler.h"
#include "tests/support/test_case.h"

/* ---- the formulas ---- */

enum {
    LANES = 32,
    ROWS = 16,
    COLUMNS = 8,
    MAX_K = 32
};

struct place {
    int row, column;
};
static int group_of(int lane) {
    return lane >> 2;
}
static int in_group(int lane) {
    return lane % 4;
}

/* Returns the position of element i of a lane's fragment of A or B. The elements have 16 bits, and
 * the shape is m16n8k16. m16n8k8 uses the first four elements of A and two of B. */
static place a_place_16(int lane, int i) {
    const bool upper = i < 2 || (i >= 4 && i < 6);
    return {upper ? group_of(lane) : group_of(lane) + 8,
            in_group(lane) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
static place b_place_16(int lane, int i) {
    return {in_group(lane) * 2 + (i & 1) + (i < 2 ? 0 : 8), group_of(lane)};
}
/* These positions are for m16n8k32 with 8-bit elements. */
static place a_place_8(int lane, int i) {
    const bool upper = i < 4 || (i >= 8 && i < 12);
    return {upper ? group_of(lane) : group_of(lane) + 8,
            in_group(lane) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}
static place b_place_8(int lane, int i) {
    return {in_group(lane) * 4 + (i & 3) + (i < 4 ? 0 : 16), group_of(lane)};
}
/* These positions are for m16n8k8 with tf32 numbers. */
static place a_place_32(int lane, int i) {
    return {group_of(lane) + (i == 1 || i == 3 ? 8 : 0), in_group(lane) + (i < 2 ? 0 : 4)};
}
static place b_place_32(int lane, int i) {
    return {in_group(lane) + (i == 0 ? 0 : 4), group_of(lane)};
}
/* These positions of sums hold for all shapes with 16 rows. */
static place d_place(int lane, int i) {
    return {i < 2 ? group_of(lane) : group_of(lane) + 8, in_group(lane) * 2 + (i & 1)};
}

/* ---- kernels: one warp each ---- */

struct registers {
    uint32_t a[4], b[2];
    float f[4];
    int s[4];
};

enum word {
    F16,
    BF16,
    F16_HALF,
    F16_OF_HALVES,
    TF32,
    S8,
    U8,
    S8_HALF,
    U8_HALF,
    S8_OF_HALVES,
    U8_OF_HALVES
};

static void multiply(registers *of_lanes, int word) {
    registers &r = of_lanes[tandem_sim_self->lane];
    switch (word) {
    case F16:
        tdm_matrices_f16(r.f, r.a, r.b[0], r.b[1]);
        break;
    case BF16:
        tdm_matrices_bf16(r.f, r.a, r.b[0], r.b[1]);
        break;
    case F16_HALF:
        tdm_matrices_f16_half(r.f, r.a[0], r.a[1], r.b[0]);
        break;
    case F16_OF_HALVES:
        tdm_matrices_f16_of_halves(r.f, r.a, r.b[0], r.b[1]);
        break;
    case TF32:
        tdm_matrices_tf32(r.f, r.a, r.b[0], r.b[1]);
        break;
    case S8:
        tdm_matrices_s8(r.s, r.a, r.b[0], r.b[1]);
        break;
    case U8:
        tdm_matrices_u8(r.s, r.a, r.b[0], r.b[1]);
        break;
    case S8_HALF:
        tdm_matrices_s8_half(r.s[0], r.s[1], r.a[0], r.b[0]);
        break;
    case U8_HALF:
        tdm_matrices_u8_half(r.s[0], r.s[1], r.a[0], r.b[0]);
        break;
    case S8_OF_HALVES:
        tdm_matrices_s8_of_halves(r.s, r.a, r.b[0], r.b[1]);
        break;
    default:
        tdm_matrices_u8_of_halves(r.s, r.a, r.b[0], r.b[1]);
    }
}
TANDEM_SIM_REGISTER(multiply, "multiply", LANES, 1, 1, 0);

/* Copies the four matrices to shared memory with their rows in another order, and loads them from
 * there. */
enum {
    ROW_ELEMENTS = 8,
    MATRIX_ELEMENTS = 64,
    MATRICES = 4
};
static void load(const ushort *matrices, registers *of_lanes, int turned, int shift, int outside) {
    TDM_LOCAL_ARRAY(ushort, tile, MATRICES * MATRIX_ELEMENTS + ROW_ELEMENTS);
    const int lane = tandem_sim_self->lane, at = lane * 5 % LANES * ROW_ELEMENTS;
    for (int x = 0; x < ROW_ELEMENTS; x++)
        tile[at + x] = matrices[lane * ROW_ELEMENTS + x];
    tdm_warp_barrier();
    const void *const row = outside ? matrices : tile + at + shift;
    if (turned)
        tdm_matrices_load_turned(of_lanes[lane].a, row);
    else
        tdm_matrices_load(of_lanes[lane].a, row);
}
TANDEM_SIM_REGISTER(load, "load", LANES, 1, 1, 0);

template <typename... Values>
static sim_outcome run_on(int architecture, sim_worker &worker, const char *kernel,
                          Values... values) {
    void *const pointers[] = {static_cast<void *>(&values)...};
    const sim_launch launch = {sim_kernel_find(kernel),
                               pointers,
                               {LANES, 1, 1},
                               {1, 1, 1},
                               {1, 1, 1},
                               0,
                               48 * 1024,
                               architecture};
    assert_non_null(launch.kernel);
    return worker.run(launch);
}
template <typename... Values>
static sim_outcome run(sim_worker &worker, const char *kernel, Values... values) {
    return run_on(0, worker, kernel, values...);
}

/* ---- loads ---- */

TEST(loads_give_each_lane_its_part) {
    sim_worker worker;
    ushort matrices[MATRICES * MATRIX_ELEMENTS];
    for (int i = 0; i < MATRICES * MATRIX_ELEMENTS; i++)
        matrices[i] = static_cast<ushort>(i * 257 + 3);
    for (int turned = 0; turned < 2; turned++) {
        registers lanes[LANES] = {};
        assert_int_equal(
            run(worker, "load", static_cast<const ushort *>(matrices), +lanes, turned, 0, 0),
            SIM_DONE);
        for (int lane = 0; lane < LANES; lane++)
            for (int q = 0; q < MATRICES; q++)
                for (int x = 0; x < 2; x++) {
                    const int line = group_of(lane), along = in_group(lane) * 2 + x;
                    const int element = turned ? along * 8 + line : line * 8 + along;
                    assert_int_equal(lanes[lane].a[q] >> (16 * x) & 0xffff,
                                     matrices[q * MATRIX_ELEMENTS + element]);
                }
    }
}

TEST(wrong_loads_fail) {
    sim_worker worker;
    alignas(16) const ushort matrices[MATRICES * MATRIX_ELEMENTS] = {};
    registers lanes[LANES] = {};
    const ushort *const from = matrices;
    assert_int_equal(run(worker, "load", from, +lanes, 0, 4, 0), SIM_ILLEGAL_ADDRESS);
    assert_non_null(strstr(worker.message().c_str(), "no multiple of 16"));
    assert_int_equal(run(worker, "load", from, +lanes, 1, 0, 1), SIM_ILLEGAL_ADDRESS);
    assert_non_null(strstr(worker.message().c_str(), "not in the block's shared memory"));
}

/* ---- multiplications of 16-bit elements ---- */

static int random_below(int end) {
    static uint64_t bits = 20251123;
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((bits >> 33) % static_cast<uint64_t>(end));
}

typedef float widen(ushort bits);
typedef ushort narrow(float x);

static uint32_t two(ushort low, ushort high) {
    return low | static_cast<uint32_t>(high) << 16;
}

struct matrices_16 {
    float a[ROWS][16], b[16][COLUMNS], d[ROWS][COLUMNS];
};

/* Continues the sums d over k, ascending; each step is a multiplication and an addition. */
static void multiply_plainly(matrices_16 &m, int k) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            for (int p = 0; p < k; p++)
                m.d[i][j] += m.a[i][p] * m.b[p][j];
}

static void check_16(int word, int k, const matrices_16 &given, narrow *bits) {
    sim_worker worker;
    registers lanes[LANES] = {};
    matrices_16 m = given;
    for (int lane = 0; lane < LANES; lane++) {
        ushort a[8] = {}, b[4] = {};
        for (int i = 0; i < k / 2; i++) {
            const place at = a_place_16(lane, i);
            a[i] = bits(m.a[at.row][at.column]);
        }
        for (int i = 0; i < k / 4; i++) {
            const place at = b_place_16(lane, i);
            b[i] = bits(m.b[at.row][at.column]);
        }
        for (int r = 0; r < 4; r++) {
            lanes[lane].a[r] = two(a[2 * r], a[2 * r + 1]);
            const place at = d_place(lane, r);
            lanes[lane].f[r] = m.d[at.row][at.column];
        }
        lanes[lane].b[0] = two(b[0], b[1]);
        lanes[lane].b[1] = two(b[2], b[3]);
    }
    assert_int_equal(run(worker, "multiply", +lanes, word), SIM_DONE);
    multiply_plainly(m, k);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) {
            const place at = d_place(lane, i);
            const float expected = m.d[at.row][at.column], got = lanes[lane].f[i];
            if (std::isnan(expected))
                assert_true(std::isnan(got));
            else
                assert_int_equal(tdm_float_bits(got), tdm_float_bits(expected));
        }
}

static matrices_16 random_16(narrow *bits, widen *value, int which) {
    static const ushort special[] = {0x0001, 0x83ff, 0x7bff, 0x0400,
                                     0x8000, 0x7c00, 0xfc00, 0x7e01};
    matrices_16 m;
    for (int i = 0; i < 16 * 16; i++)
        (&m.a[0][0])[i] = value(bits(static_cast<float>(random_below(4001) - 2000) / 512));
    for (int i = 0; i < 16 * COLUMNS; i++)
        (&m.b[0][0])[i] = value(bits(static_cast<float>(random_below(4001) - 2000) / 300));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        (&m.d[0][0])[i] = static_cast<float>(random_below(1000000) - 500000) / 7;
    for (int i = 0; which > 0 && i < 8; i++)
        m.a[random_below(ROWS)][random_below(16)] = value(special[i]);
    return m;
}

TEST(sums_of_16_bits) {
    for (int which = 0; which < 20; which++) {
        const matrices_16 f16 = random_16(tdm_cxx_f16_narrow, tdm_cxx_f16_widen, which % 2);
        const matrices_16 bf16 = random_16(tdm_cxx_bf16_narrow, tdm_cxx_bf16_widen, which % 2);
        check_16(F16, 16, f16, tdm_cxx_f16_narrow);
        check_16(BF16, 16, bf16, tdm_cxx_bf16_narrow);
        check_16(F16_HALF, 8, f16, tdm_cxx_f16_narrow);
        check_16(F16_OF_HALVES, 16, f16, tdm_cxx_f16_narrow);
    }
}

/* ---- multiplications of tf32 ---- */

/* Returns the tf32 part of a number. The low 13 bits must not count. */
static float shortened(float x) {
    return tdm_bits_float(tdm_float_bits(x) & 0xffffe000u);
}
static float random_32(int which, int i) {
    static const uint32_t special[] = {0x00002001u, 0x80001fffu, 0x7f7fffffu, 0x7f801000u,
                                       0xff800000u, 0x7fc00001u, 0x00000001u, 0x80002000u};
    if (which % 2 == 1 && random_below(24) == 0)
        return tdm_bits_float(special[i % 8]);
    return static_cast<float>(random_below(0x7fffffff) - 0x3fffffff) / 1e8f;
}

static void check_32(int which) {
    sim_worker worker;
    registers lanes[LANES] = {};
    float a[ROWS][8], b[8][COLUMNS], d[ROWS][COLUMNS];
    for (int i = 0; i < ROWS * 8; i++)
        (&a[0][0])[i] = random_32(which, i);
    for (int i = 0; i < 8 * COLUMNS; i++)
        (&b[0][0])[i] = random_32(0, i);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        (&d[0][0])[i] = random_32(0, i);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) {
            const place of_a = a_place_32(lane, i), of_d = d_place(lane, i);
            lanes[lane].a[i] = tdm_float_bits(a[of_a.row][of_a.column]);
            lanes[lane].f[i] = d[of_d.row][of_d.column];
            if (i < 2)
                lanes[lane].b[i] =
                    tdm_float_bits(b[b_place_32(lane, i).row][b_place_32(lane, i).column]);
        }
    assert_int_equal(run(worker, "multiply", +lanes, TF32), SIM_DONE);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) {
            const place at = d_place(lane, i);
            float sum = d[at.row][at.column];
            for (int p = 0; p < 8; p++)
                sum += shortened(a[at.row][p]) * shortened(b[p][at.column]);
            if (std::isnan(sum))
                assert_true(std::isnan(lanes[lane].f[i]));
            else
                assert_int_equal(tdm_float_bits(lanes[lane].f[i]), tdm_float_bits(sum));
        }
}

TEST(sums_of_tf32) {
    for (int which = 0; which < 10; which++)
        check_32(which);
}

/* ---- multiplications of 8-bit elements ---- */

struct matrices_8 {
    int a[ROWS][MAX_K], b[MAX_K][COLUMNS];
    uint32_t d[ROWS][COLUMNS];
};

static void put_byte(uint32_t *words, int i, int value) {
    words[i / 4] |= (static_cast<uint32_t>(value) & 0xffu) << (i % 4 * 8);
}

/* Checks m16n8k32. If `half` is set, checks m8n8k16, in which a lane has the first four elements
 * and two sums. */
static void check_8(int word, bool half, bool a_signed) {
    sim_worker worker;
    registers lanes[LANES] = {};
    matrices_8 m;
    const int k = half ? 16 : 32, rows = half ? 8 : ROWS;
    for (int i = 0; i < ROWS * MAX_K; i++)
        (&m.a[0][0])[i] = random_below(256) - (a_signed ? 128 : 0);
    for (int i = 0; i < MAX_K * COLUMNS; i++)
        (&m.b[0][0])[i] = random_below(256) - 128;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        // The initial sums come near the limits of s32.
        (&m.d[0][0])[i] = static_cast<uint32_t>(random_below(0x7fffffff)) * 2u;
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < k / 2; i++) {
            const place at = a_place_8(lane, i);
            if (at.row < rows && at.column < k && (!half || i < 4))
                put_byte(lanes[lane].a, i, m.a[at.row][at.column]);
        }
        for (int i = 0; i < k / 4; i++) {
            const place at = b_place_8(lane, i);
            put_byte(lanes[lane].b, i, m.b[at.row][at.column]);
        }
        for (int i = 0; i < 4; i++)
            lanes[lane].s[i] = static_cast<int>(m.d[d_place(lane, i).row][d_place(lane, i).column]);
    }
    assert_int_equal(run(worker, "multiply", +lanes, word), SIM_DONE);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < (half ? 2 : 4); i++) {
            const place at = d_place(lane, i);
            uint32_t sum = m.d[at.row][at.column];
            for (int p = 0; p < k; p++)
                sum += static_cast<uint32_t>(m.a[at.row][p] * m.b[p][at.column]);
            assert_int_equal(static_cast<uint32_t>(lanes[lane].s[i]), sum);
        }
}

TEST(sums_of_8_bits) {
    for (int times = 0; times < 5; times++) {
        check_8(S8, false, true);
        check_8(U8, false, false);
        check_8(S8_HALF, true, true);
        check_8(U8_HALF, true, false);
        check_8(S8_OF_HALVES, false, true);
        check_8(U8_OF_HALVES, false, false);
    }
}

/* ---- operations of devices before 8.0 ---- */

TEST(whole_instructions_are_of_8_0) {
    sim_worker worker;
    registers lanes[LANES] = {};
    for (const int word : {F16, BF16, TF32, S8, U8}) {
        assert_int_equal(run_on(75, worker, "multiply", +lanes, word), SIM_LAUNCH_FAILED);
        assert_non_null(strstr(worker.message().c_str(), "is of compute capability 8.0"));
        assert_int_equal(run_on(80, worker, "multiply", +lanes, word), SIM_DONE);
    }
    for (const int word : {F16_HALF, F16_OF_HALVES, S8_HALF, U8_HALF, S8_OF_HALVES, U8_OF_HALVES})
        assert_int_equal(run_on(75, worker, "multiply", +lanes, word), SIM_DONE);
}

/* ---- two numbers to a register ---- */

TEST(bytes_and_pairs) {
    assert_int_equal(tdm_bytes_of(0x33221100u, 0x77665544u, 0x7150u), 0x77115500u);
    assert_int_equal(tdm_bytes_of(0x33221100u, 0x77665544u, 0x0123u), 0x00112233u);
    // The sums are 1032 - 1027 and 2048 + 1, a tie to even; then -1.5 + 1.5 and the greatest f16
    // twice.
    assert_int_equal(tdm_pair_add_f16(0x68006408u, 0x3c00e403u), 0x68004500u);
    assert_int_equal(tdm_pair_add_f16(0x7bffbe00u, 0x7bff3e00u), 0x7c000000u);
    // The sums are 136 - 129 and 256 + 1, a tie to even.
    assert_int_equal(tdm_pair_add_bf16(0x43804308u, 0x3f80c301u), 0x438040e0u);
}

TEST_MAIN(NULL, NULL)
