/*
 * This file implements warpgroup matrix multiply (wgmma). Each warp computes 16 of the 64 rows when
 * its lanes wait. It uses the contents of shared memory at that time. Registers of the result hold
 * these elements:
 *
 *   lane l of warp w, register i:
 *     row 16·w + l / 4 + 8·(i / 2 % 2),   column 8·(i / 4) + 2·(l % 4) + i % 2
 */
#include <cmath>

#include "tests/cuda_simulator/scheduler_state.h"
#include "tests/cuda_simulator/tensor_map.h"

namespace {

enum {
    WARP_ROWS = 16,
    WARPGROUP = 128,
    DEPTH_BYTES = 32,
    MAX_DEPTH = 32,
    MAX_COLUMNS = 256,
    SCRATCH_WORDS = WARP_ROWS * MAX_DEPTH + MAX_COLUMNS * (MAX_DEPTH + WARP_ROWS)
};

int element_bytes(tandem_sim_element element) {
    return element == TANDEM_SIM_F16 || element == TANDEM_SIM_BF16 ? 2 : 1;
}

/* ---- shared memory by descriptors ---- */

/* The fields of a descriptor have 14 bits each, in units of 16 bytes. */
struct matrix_view {
    uint32_t start, leading, stride;
    int swizzle_bits; /* 0: none */
    uint32_t span;    /* bytes of a row of the pattern */
};

matrix_view view_of(uint64_t descriptor) {
    static const int bits_of_mode[4] = {0, 3, 2, 1};
    const auto field = [descriptor](int shift) {
        return (static_cast<uint32_t>(descriptor >> shift) & 0x3fffu) * 16;
    };
    const int bits = bits_of_mode[descriptor >> 62];
    if ((descriptor >> 49 & 7u) != 0)
        tandem_sim_fail("a matrix descriptor with a base offset, which is not simulated");
    return matrix_view{field(0), field(16), field(32), bits, 16u << bits};
}

/* Returns the byte offset of element (line, depth) before the swizzle; a line is a row of A or a
 * column of B. */
uint32_t place_along_depth(const matrix_view &view, uint32_t line, uint32_t depth_byte) {
    const uint32_t at = view.start + line / 8 * view.stride;
    if (view.swizzle_bits == 0)
        return at + line % 8 * 16 + depth_byte / 16 * view.leading + depth_byte % 16;
    return at + line % 8 * view.span + depth_byte;
}
uint32_t place_along_lines(const matrix_view &view, uint32_t line_byte, uint32_t depth) {
    if (view.swizzle_bits == 0) {
        return view.start + line_byte / 16 * view.stride + line_byte % 16 +
               depth / 8 * view.leading + depth % 8 * 16;
    }
    return view.start + line_byte / view.span * view.leading + line_byte % view.span +
           depth / 8 * view.stride + depth % 8 * view.span;
}

float wide(uint16_t bits, bool is_bf16) {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value = 0;
    if (is_bf16) {
        memcpy(&value, &word, sizeof value);
        return value;
    }
    const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 31) {
        value = fraction != 0 ? NAN : INFINITY;
    } else {
        value = exponent == 0 ? static_cast<float>(fraction) * 0x1p-24f
                              : std::ldexp(static_cast<float>(1024 + fraction),
                                           static_cast<int>(exponent) - 25);
    }
    return (bits & 0x8000u) != 0 ? -value : value;
}

/* The table holds all 65,536 values, because a multiplication needs many. */
const float *wide_table(bool is_bf16) {
    static const std::vector<float> tables = [] {
        std::vector<float> made(2u << 16);
        for (uint32_t bits = 0; bits < 1u << 16; bits++) {
            made[bits] = wide(static_cast<uint16_t>(bits), false);
            made[(1u << 16) + bits] = wide(static_cast<uint16_t>(bits), true);
        }
        return made;
    }();
    return tables.data() + (is_bf16 ? 1u << 16 : 0);
}

float element_value(const char *place, tandem_sim_element element, float /* of this type */) {
    uint16_t bits = 0;
    memcpy(&bits, place, sizeof bits);
    return wide_table(element == TANDEM_SIM_BF16)[bits];
}
int32_t element_value(const char *place, tandem_sim_element element, int32_t /* of this type */) {
    const unsigned char byte = static_cast<unsigned char>(*place);
    return element == TANDEM_SIM_S8 ? static_cast<signed char>(byte) : byte;
}

struct operand {
    matrix_view view;
    tandem_sim_element element;
    bool transposed;
};

/* Reads `lines` lines from line `first` on. Element (line, depth) is stored in to[depth · lines +
 * line]. */
template <typename T>
void read_lines(sim_block &block, const operand &from, uint32_t first, uint32_t lines, T *to) {
    const uint32_t bytes = static_cast<uint32_t>(element_bytes(from.element));
    for (uint32_t line = 0; line < lines; line++) {
        for (uint32_t p = 0; p < DEPTH_BYTES / bytes; p++) {
            const uint32_t at = from.transposed
                                    ? place_along_lines(from.view, (first + line) * bytes, p)
                                    : place_along_depth(from.view, first + line, p * bytes);
            const uint32_t address = sim_swizzled(at, from.view.swizzle_bits);
            const char *const place = sim_shared_place(block, address & 0x3ffffu);
            if (place == nullptr)
                tandem_sim_fail_address("a matrix descriptor reaches shared address %#x", address);
            to[p * lines + line] = element_value(place, from.element, T());
        }
    }
}

/* ---- registers ---- */

sim_held_registers *held_of(sim_thread *thread, const void *d) {
    for (sim_held_registers &held : thread->hopper.held)
        if (held.d == d)
            return &held;
    return nullptr;
}

template <typename T> T *registers_of(sim_held_registers *held) {
    static_assert(sizeof(T) == sizeof(uint32_t), "a register");
    return reinterpret_cast<T *>(held->values);
}

/* ---- multiplications ---- */

float plus(float x, float y) {
    return x + y;
}
int32_t plus(int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}

/* Computes one multiplication for the 16 rows of the warp whose first lane is `lanes`; `index` is
 * its position in the list of each lane. */
template <typename T> void multiply_rows(sim_thread *lanes, size_t index) {
    std::vector<uint32_t> &scratch = sim_worker_running->product_scratch;
    scratch.resize(SCRATCH_WORDS);
    T *const a = reinterpret_cast<T *>(scratch.data()), *const b = a + WARP_ROWS * MAX_DEPTH;
    T *const sums = b + MAX_COLUMNS * MAX_DEPTH;
    const tandem_sim_product product = lanes->hopper.products[index].product;
    const int n = product.n, depth = DEPTH_BYTES / element_bytes(product.a_element);
    sim_block &block = *lanes->home;
    read_lines(block, {view_of(product.a), product.a_element, product.a_transposed},
               static_cast<uint32_t>(lanes->warp % 4 * WARP_ROWS), WARP_ROWS, a);
    read_lines(block, {view_of(product.b), product.b_element, product.b_transposed}, 0,
               static_cast<uint32_t>(n), b);
    memset(sums, 0, sizeof(T) * static_cast<size_t>(WARP_ROWS * n));
    for (int p = 0; p < depth; p++) {
        for (int i = 0; i < WARP_ROWS; i++) {
            const T factor = a[p * WARP_ROWS + i];
            for (int j = 0; j < n; j++)
                sums[i * n + j] += factor * b[p * n + j];
        }
    }
    for (int l = 0; l < SIM_WARP; l++) {
        T *const d = registers_of<T>(held_of(lanes + l, lanes[l].hopper.products[index].d));
        for (int r = 0; r < n / 2; r++) {
            const int row = l / 4 + 8 * (r / 2 % 2), column = 8 * (r / 4) + 2 * (l % 4) + r % 2;
            const T sum = sums[row * n + column];
            d[r] = product.adds ? plus(d[r], sum) : sum;
        }
    }
}

bool same_product(const tandem_sim_product &x, const tandem_sim_product &y) {
    return x.n == y.n && x.a == y.a && x.b == y.b && x.adds == y.adds &&
           x.a_transposed == y.a_transposed && x.b_transposed == y.b_transposed &&
           x.a_element == y.a_element && x.b_element == y.b_element;
}

void require_equal_lanes(const sim_thread *lanes, size_t count) {
    for (int l = 0; l < SIM_WARP; l++) {
        const std::vector<sim_pending_product> &own = lanes[l].hopper.products,
                                               &first = lanes->hopper.products;
        bool equal = own.size() == first.size() &&
                     lanes[l].hopper.product_groups == lanes->hopper.product_groups;
        for (size_t i = 0; equal && i < count; i++)
            equal = same_product(own[i].product, first[i].product);
        if (!equal) {
            tandem_sim_fail("wgmma: lane %d of warp %d has asked for other products than lane 0", l,
                            lanes->warp);
        }
    }
}

/* Gives registers their values when no pending multiplication writes them any more. */
void release_registers(sim_thread_hopper &own) {
    for (size_t i = own.held.size(); i-- > 0;) {
        const sim_held_registers &held = own.held[i];
        bool busy = false;
        for (const sim_pending_product &pending : own.products)
            busy = busy || pending.d == held.d;
        if (!busy) {
            memcpy(held.d, held.values, static_cast<size_t>(held.count) * sizeof(uint32_t));
            own.held.erase(own.held.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

void finish_groups(sim_thread *lanes, size_t groups) {
    const size_t done = lanes->hopper.product_groups[groups - 1];
    require_equal_lanes(lanes, done);
    for (size_t i = 0; i < done; i++)
        if (element_bytes(lanes->hopper.products[i].product.a_element) == 2)
            multiply_rows<float>(lanes, i);
        else
            multiply_rows<int32_t>(lanes, i);
    for (int l = 0; l < SIM_WARP; l++) {
        sim_thread_hopper &own = lanes[l].hopper;
        own.products.erase(own.products.begin(),
                           own.products.begin() + static_cast<std::ptrdiff_t>(done));
        own.product_groups.erase(own.product_groups.begin(),
                                 own.product_groups.begin() + static_cast<std::ptrdiff_t>(groups));
        for (size_t &end : own.product_groups)
            end -= done;
        release_registers(own);
    }
}

} // namespace

/* ---- the operations ---- */

static void require_shape(const tandem_sim_product &product) {
    const bool wide_elements = element_bytes(product.a_element) == 2;
    const bool fits = wide_elements ? product.n % 8 == 0 && product.a_element == product.b_element
                                    : (product.n == 8 || product.n == 24 || product.n % 16 == 0) &&
                                          element_bytes(product.b_element) == 1;
    if (product.n < 8 || product.n > MAX_COLUMNS || !fits) {
        tandem_sim_fail("wgmma: no product of %d columns and elements %d, %d", product.n,
                        product.a_element, product.b_element);
    }
    if (!wide_elements && (product.a_transposed || product.b_transposed))
        tandem_sim_fail("wgmma: operands of 8 bits are contiguous along K");
    if (sim_thread_running()->home->threads % WARPGROUP != 0) {
        tandem_sim_fail("wgmma: %d threads are no whole warpgroups",
                        sim_thread_running()->home->threads);
    }
}

void tandem_sim_multiply(const tandem_sim_product &product, void *d) {
    sim_thread_hopper &own = sim_thread_running()->hopper;
    require_shape(product);
    if (!own.fenced)
        tandem_sim_fail("wgmma: no wgmma.fence before the first product of a group");
    if (held_of(sim_thread_running(), d) == nullptr) {
        sim_held_registers held = {d, product.n / 2, {0}};
        memcpy(held.values, d, static_cast<size_t>(held.count) * sizeof(uint32_t));
        own.held.push_back(held);
        sim_fill_with_nan(d, static_cast<size_t>(held.count) * sizeof(uint32_t));
    }
    own.products.push_back(sim_pending_product{product, d});
}

void tandem_sim_multiply_fence() {
    sim_thread_running()->hopper.fenced = true;
}

void tandem_sim_multiply_commit() {
    sim_thread_hopper &own = sim_thread_running()->hopper;
    own.product_groups.push_back(own.products.size());
    own.fenced = false;
}

/* The last lane that arrives computes for all lanes. */
void tandem_sim_multiply_wait(int pending) {
    sim_thread *const thread = sim_thread_running();
    const tandem_sim_exchange<int> all("wgmma.wait_group", 0xffffffffu, pending);
    const size_t groups = thread->hopper.product_groups.size(), kept = static_cast<size_t>(pending);
    if (groups > kept)
        finish_groups(thread - thread->lane, groups - kept);
}
