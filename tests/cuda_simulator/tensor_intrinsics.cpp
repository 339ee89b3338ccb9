/* This file implements ldmatrix and mma.sync, lane by lane. kernels/dialect/dialect_tensor.h gives
 * the positions of the elements. */
#include "tests/cuda_simulator/scheduler_state.h"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;

/* The PTX ISA calls these indices of a lane groupID and threadID_in_group. */
int lane_g() {
    return tandem_sim_self->lane / 4;
}
int lane_t() {
    return tandem_sim_self->lane % 4;
}

float f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bits of an f16, shifted to the position of f32's bits, give a number 2^112 times too small,
 * for denormals too. The largest exponent is handled separately, because f32 has larger ones. */
float f16_of(uint32_t half) {
    const uint32_t sign = (half & 0x8000u) << 16, rest = (half & 0x7fffu) << 13;
    if (rest >= 0x7c00u << 13)
        return f32_of(sign | 0x7f800000u | rest);
    return f32_of(sign) + (sign != 0 ? -1.0f : 1.0f) * f32_of(rest) * 0x1p112f;
}
float bf16_of(uint32_t half) {
    return f32_of(half << 16);
}

float tf32_of(uint32_t bits) {
    return f32_of(bits & 0xffffe000u);
}

struct row_operand {
    unsigned char bytes[16];
};
/* Each lane contributes its registers of A and B. */
struct mma_operands {
    uint32_t a[4], b[2];
};

/* Continues the sum d over 16 bytes of K with elements of BITS bits. Row `row` of A comes from the
 * lanes from 4·row on, and column `column` of B from the lanes from 4·column on. */
template <float (*element)(uint32_t), int BITS>
float sum_16_bytes(const tandem_sim_exchange<mma_operands> &all, float d, int row, int a,
                   int column, int b) {
    constexpr uint32_t ELEMENT = 0xffffffffu >> (32 - BITS);
    for (int t = 0; t < 4; t++) {
        const uint32_t x = all[row * 4 + t].a[a], y = all[column * 4 + t].b[b];
        for (int bits = 0; bits < 32; bits += BITS)
            d += element(x >> bits & ELEMENT) * element(y >> bits & ELEMENT);
    }
    return d;
}

uint32_t sum_16_bytes(const tandem_sim_exchange<mma_operands> &all, uint32_t d, int row, int a,
                      int column, int b, bool a_signed) {
    for (int t = 0; t < 4; t++) {
        const uint32_t x = all[row * 4 + t].a[a], y = all[column * 4 + t].b[b];
        for (int bits = 0; bits < 32; bits += 8) {
            const int byte = static_cast<int>(x >> bits & 0xffu);
            const int of_a = a_signed ? static_cast<signed char>(byte) : byte;
            d += static_cast<uint32_t>(of_a * static_cast<signed char>(y >> bits));
        }
    }
    return d;
}

template <float (*element)(uint32_t), int BITS>
void multiply(const char *word, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    sim_require_architecture(80, word);
    const tandem_sim_exchange<mma_operands> all(word, ALL_LANES,
                                                {{a[0], a[1], a[2], a[3]}, {b0, b1}});
    for (int i = 0; i < 4; i++) {
        const int column = lane_t() * 2 + i % 2;
        d[i] = sum_16_bytes<element, BITS>(all, d[i], lane_g(), i / 2, column, 0);
        d[i] = sum_16_bytes<element, BITS>(all, d[i], lane_g(), i / 2 + 2, column, 1);
    }
}

} // namespace

/* A row is read when its lane arrives. Later changes by other lanes of the warp are not seen. */
void tandem_sim_matrices_load(uint32_t (&r)[4], const void *row, bool turned) {
    row_operand own;
    if (reinterpret_cast<uintptr_t>(row) % sizeof own != 0)
        tandem_sim_fail_address("ldmatrix of a row at %p, which is no multiple of 16", row);
    sim_require_shared(*sim_thread_running()->home, row, sizeof own, "ldmatrix of a row at");
    memcpy(&own, row, sizeof own);
    const tandem_sim_exchange<row_operand> all(turned ? "ldmatrix.trans" : "ldmatrix", ALL_LANES,
                                               own);
    for (int q = 0; q < 4; q++) {
        unsigned char bytes[4];
        for (int x = 0; x < 4; x++) {
            const int from = turned ? lane_t() * 2 + x / 2 : lane_g(),
                      at = turned ? lane_g() * 2 + x % 2 : lane_t() * 4 + x;
            bytes[x] = all[q * 8 + from].bytes[at];
        }
        memcpy(&r[q], bytes, sizeof bytes);
    }
}

void tandem_sim_matrices_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    multiply<f16_of, 16>("mma.m16n8k16.f16", d, a, b0, b1);
}
void tandem_sim_matrices_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    multiply<bf16_of, 16>("mma.m16n8k16.bf16", d, a, b0, b1);
}
void tandem_sim_matrices_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    multiply<tf32_of, 32>("mma.m16n8k8.tf32", d, a, b0, b1);
}

void tandem_sim_matrices_f16_half(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
    const tandem_sim_exchange<mma_operands> all("mma.m16n8k8.f16", ALL_LANES,
                                                {{a0, a1, 0, 0}, {b, 0}});
    for (int i = 0; i < 4; i++)
        d[i] = sum_16_bytes<f16_of, 16>(all, d[i], lane_g(), i / 2, lane_t() * 2 + i % 2, 0);
}

void tandem_sim_matrices_int(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             bool a_signed) {
    const char *const word = a_signed ? "mma.m16n8k32.s8" : "mma.m16n8k32.u8";
    sim_require_architecture(80, word);
    const tandem_sim_exchange<mma_operands> all(word, ALL_LANES,
                                                {{a[0], a[1], a[2], a[3]}, {b0, b1}});
    for (int i = 0; i < 4; i++) {
        const int column = lane_t() * 2 + i % 2;
        const uint32_t half =
            sum_16_bytes(all, static_cast<uint32_t>(d[i]), lane_g(), i / 2, column, 0, a_signed);
        d[i] = static_cast<int>(sum_16_bytes(all, half, lane_g(), i / 2 + 2, column, 1, a_signed));
    }
}

void tandem_sim_matrices_int_half(int &d0, int &d1, uint32_t a, uint32_t b, bool a_signed) {
    const tandem_sim_exchange<mma_operands> all(a_signed ? "mma.m8n8k16.s8" : "mma.m8n8k16.u8",
                                                ALL_LANES, {{a, 0, 0, 0}, {b, 0}});
    int *const d[2] = {&d0, &d1};
    for (int i = 0; i < 2; i++) {
        *d[i] = static_cast<int>(sum_16_bytes(all, static_cast<uint32_t>(*d[i]), lane_g(), 0,
                                              lane_t() * 2 + i, 0, a_signed));
    }
}
