/* The dialect's words for compute capability 9.0a: mbarriers, copies by tensor maps and products of warpgroups, for texts *.cu
 * alone. Part of the texts that include it.
 *
 * Shared memory that they touch is TDM_LOCAL_ARGUMENT's. A warpgroup is 128 neighbouring items, its first a multiple of 128.
 *
 * TDM_TENSOR_MAP(name)          a kernel's parameter: where a tensor of three dimensions is, and the box of it that a copy takes
 * tdm_tensor_prefetch(map)      asks for the map, not for the tensor
 * tdm_tensor_load(to, map, x, y, z, barrier)  by one item: the box at (x, y, z), what is outside of the tensor being zeros; its bytes
 *                               arrive at `barrier`. `to` is aligned to 1024
 * tdm_tensor_load_shared(to, map, x, y, z, barrier, groups)  the same for the groups of a cluster whose ranks are bits of `groups`: to
 *                               that place of each, and to that barrier of each
 * tdm_tensor_store(map, x, y, z, from)  by one item: the box from shared memory to (x, y, z), but what is outside of the tensor; from is
 *                               aligned to 1024
 * tdm_tensor_store_commit(), tdm_tensor_store_wait(N)  by the same item: until at most N groups of its stores, a number as written in
 *                               the text, still read shared memory
 * tdm_tensor_read(p)            16 bytes of what a load has brought, by an item, as s32x4; tdm_proxy_fence() follows
 * tdm_proxy_fence()             by each item that wrote what a store is to read, or read what a load is to overwrite, before the barrier or
 *                               the arrival that comes before the copy
 *
 * tdm_mbarrier                  eight bytes of shared memory: a phase ends when as many have arrived as tdm_mbarrier_init(b, count)
 *                               said, and all bytes that tdm_mbarrier_expect(b, bytes), an arrival itself, had it wait for
 * tdm_mbarrier_init_fence()     by the item that made them, before a barrier of the group
 * tdm_mbarrier_arrive(b)        one arrival
 * tdm_mbarrier_wait(b, parity)  until the phase of that parity is over, 0 being that of the first
 *
 * tdm_cluster_barrier()         of all items of a cluster's groups: before any reaches for another's memory (the maker of mbarriers has
 *                               called tdm_mbarrier_init_fence() then), and before one leaves that others may still reach for
 * tdm_mbarrier_arrive_at(b, rank)  one arrival at that barrier of a group of the cluster, which tells that the item has read something,
 *                               not that it has written; a group's rank along x is tdm_group_x() modulo their number
 *
 * tdm_multiply_f16<TA, TB>(d, a, b, adds)     by a warpgroup: D = A·B, plus D where `adds`; 64 rows, 2·(elements of d) columns, 32
 *                               bytes of K. A and B are descriptors of shared memory; TA, TB 1: contiguous along M, N in place of K.
 *                               _bf16 likewise; _s8 and _u8 (A of u8) in s32, without TA and TB
 * tdm_multiply_descriptor(p, leading, stride)  of operands in rows of 128 bytes that copies have swizzled; pieces of 8 rows are
 *                               `stride` bytes apart; where the contiguous direction is not K its pieces of 128 bytes `leading` bytes
 * tdm_multiply_fence() before the products of a group; tdm_multiply_commit() behind them; tdm_multiply_wait(N) until at most N
 *                               groups, a number as written in the text, are under way: d is not touched before
 *   lane l of warp w of the group, d[i]:   row 16·w + l / 4 + 8·(i / 2 % 2), column 8·(i / 4) + 2·(l % 4) + i % 2
 *
 * tdm_part_barrier(index, items)  by so many items of a group, whole warps: a barrier of them, one of 15 that do not know each other
 *
 * tdm_pair_f16(x0, x1), tdm_pair_bf16(x0, x1)  two floats rounded to those, x0 in the low half
 *
 * tdm_registers_fewer(N), tdm_registers_more(N)  by a warpgroup: how many registers its items have from here on */
#ifndef TDM_DIALECT_HOPPER_H
#define TDM_DIALECT_HOPPER_H

typedef ulong tdm_mbarrier;

#ifdef __CUDACC__

struct alignas(64) tdm_tensor_map {
    ulong opaque[16];
};
#define TDM_TENSOR_MAP(name) const __grid_constant__ tdm_tensor_map name

TDM_DEVICE uint tdm_shared_address(const void *p) {
    return (uint)__cvta_generic_to_shared(p);
}
TDM_DEVICE void tdm_tensor_prefetch(const tdm_tensor_map &map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}
TDM_DEVICE void tdm_tensor_load(void *to, const tdm_tensor_map &map, int x, int y, int z,
                                tdm_mbarrier *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];"
                 :
                 : "r"(tdm_shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z),
                   "r"(tdm_shared_address(barrier))
                 : "memory");
}
TDM_DEVICE void tdm_tensor_load_shared(void *to, const tdm_tensor_map &map, int x, int y, int z,
                                       tdm_mbarrier *barrier, uint groups) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :
                 : "r"(tdm_shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z),
                   "r"(tdm_shared_address(barrier)), "h"((ushort)groups)
                 : "memory");
}
TDM_DEVICE void tdm_tensor_store(const tdm_tensor_map &map, int x, int y, int z, const void *from) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                 :
                 : "l"(&map), "r"(x), "r"(y), "r"(z), "r"(tdm_shared_address(from))
                 : "memory");
}
#define tdm_tensor_store_commit() asm volatile("cp.async.bulk.commit_group;" : : : "memory")
#define tdm_tensor_store_wait(pending)                                                             \
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory")
#define tdm_proxy_fence() asm volatile("fence.proxy.async.shared::cta;" : : : "memory")
TDM_DEVICE s32x4 tdm_tensor_read(const unsigned char *p) {
    return *(const s32x4 *)p;
}
TDM_DEVICE void tdm_mbarrier_init(tdm_mbarrier *barrier, uint count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(tdm_shared_address(barrier)), "r"(count)
                 : "memory");
}
TDM_DEVICE void tdm_mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
TDM_DEVICE void tdm_mbarrier_expect(tdm_mbarrier *barrier, uint bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(tdm_shared_address(barrier)), "r"(bytes)
                 : "memory");
}
TDM_DEVICE void tdm_mbarrier_arrive(tdm_mbarrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(tdm_shared_address(barrier))
                 : "memory");
}
TDM_DEVICE void tdm_mbarrier_wait(tdm_mbarrier *barrier, uint parity) {
    uint done;
    do
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(tdm_shared_address(barrier)), "r"(parity)
                     : "memory");
    while (!done);
}
/* Without .release.cluster, for which ptxas waits for the item's stores to all of the device: only reads go before. */
TDM_DEVICE void tdm_mbarrier_arrive_at(tdm_mbarrier *barrier, int rank) {
    asm volatile("{\n\t.reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
                 :
                 : "r"(tdm_shared_address(barrier)), "r"(rank)
                 : "memory");
}
TDM_DEVICE void tdm_cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" : : : "memory");
}

#define tdm_multiply_fence() asm volatile("wgmma.fence.sync.aligned;" : : : "memory")
#define tdm_multiply_commit() asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory")
#define tdm_multiply_wait(pending)                                                                 \
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory")
#define tdm_part_barrier(index, items)                                                             \
    asm volatile("barrier.sync.aligned %0, %1;" : : "n"(index), "n"(items) : "memory")
#define tdm_registers_fewer(count)                                                                 \
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count))
#define tdm_registers_more(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count))

TDM_DEVICE uint tdm_pair_f16(float x0, float x1) {
    uint both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x1), "f"(x0));
    return both;
}
TDM_DEVICE uint tdm_pair_bf16(float x0, float x1) {
    uint both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x1), "f"(x0));
    return both;
}

/* The registers of D as operands, and their numbers in the instruction's text. */
#define TDM_HOPPER_D8_(l, i)                                                                       \
    l(d[i]), l(d[i + 1]), l(d[i + 2]), l(d[i + 3]), l(d[i + 4]), l(d[i + 5]), l(d[i + 6]),         \
        l(d[i + 7])
#define TDM_HOPPER_D64_(l, i)                                                                      \
    TDM_HOPPER_D8_(l, i), TDM_HOPPER_D8_(l, i + 8), TDM_HOPPER_D8_(l, i + 16),                     \
        TDM_HOPPER_D8_(l, i + 24), TDM_HOPPER_D8_(l, i + 32), TDM_HOPPER_D8_(l, i + 40),           \
        TDM_HOPPER_D8_(l, i + 48), TDM_HOPPER_D8_(l, i + 56)
#define TDM_HOPPER_T10_(p)                                                                         \
    "%" #p "0, %" #p "1, %" #p "2, %" #p "3, %" #p "4, %" #p "5, %" #p "6, %" #p "7, %" #p         \
    "8, %" #p "9, "
#define TDM_HOPPER_T60_                                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TDM_HOPPER_T10_(1) TDM_HOPPER_T10_(2)               \
        TDM_HOPPER_T10_(3) TDM_HOPPER_T10_(4) TDM_HOPPER_T10_(5)
#define TDM_HOPPER_T64_ TDM_HOPPER_T60_ "%60, %61, %62, %63"
#define TDM_HOPPER_T128_                                                                           \
    TDM_HOPPER_T60_ TDM_HOPPER_T10_(6) TDM_HOPPER_T10_(7) TDM_HOPPER_T10_(8) TDM_HOPPER_T10_(9)    \
        TDM_HOPPER_T10_(10) TDM_HOPPER_T10_(11) "%120, %121, %122, %123, %124, %125, %126, %127"

#define TDM_HOPPER_FLOAT_(name, columns, registers, text, list, a, b, s, ta, tb, type)             \
    template <int TA, int TB>                                                                      \
    TDM_DEVICE void name(float(&d)[registers], ulong a_descriptor, ulong b_descriptor, int adds) { \
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" s ", 0;\n\t"                         \
                     "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type          \
                     " {" text "}, %" a ", %" b ", p, 1, 1, %" ta ", %" tb ";\n\t}"                \
                     : list                                                                        \
                     : "l"(a_descriptor), "l"(b_descriptor), "r"(adds), "n"(TA), "n"(TB));         \
    }
#define TDM_HOPPER_FLOATS_(name, type)                                                             \
    TDM_HOPPER_FLOAT_(name, "256", 128, TDM_HOPPER_T128_,                                          \
                      TDM_HOPPER_LIST_(TDM_HOPPER_D64_("+f", 0), TDM_HOPPER_D64_("+f", 64)),       \
                      "128", "129", "130", "131", "132", type)                                     \
    TDM_HOPPER_FLOAT_(name, "128", 64, TDM_HOPPER_T64_,                                            \
                      TDM_HOPPER_LIST_(TDM_HOPPER_D64_("+f", 0)), "64", "65", "66", "67", "68",    \
                      type)
#define TDM_HOPPER_LIST_(...) __VA_ARGS__
TDM_HOPPER_FLOATS_(tdm_multiply_f16, "f16")
TDM_HOPPER_FLOATS_(tdm_multiply_bf16, "bf16")

#define TDM_HOPPER_INT_(name, columns, count, text, list, a, b, s, type)                           \
    TDM_DEVICE void name(int(&d)[count], ulong a_descriptor, ulong b_descriptor, int adds) {       \
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" s ", 0;\n\t"                         \
                     "wgmma.mma_async.sync.aligned.m64n" columns "k32.s32." type ".s8 {" text      \
                     "}, %" a ", %" b ", p;\n\t}"                                                  \
                     : list                                                                        \
                     : "l"(a_descriptor), "l"(b_descriptor), "r"(adds));                           \
    }
#define TDM_HOPPER_INTS_(name, type)                                                               \
    TDM_HOPPER_INT_(name, "256", 128, TDM_HOPPER_T128_,                                            \
                    TDM_HOPPER_LIST_(TDM_HOPPER_D64_("+r", 0), TDM_HOPPER_D64_("+r", 64)), "128",  \
                    "129", "130", type)                                                            \
    TDM_HOPPER_INT_(name, "128", 64, TDM_HOPPER_T64_, TDM_HOPPER_LIST_(TDM_HOPPER_D64_("+r", 0)),  \
                    "64", "65", "66", type)
TDM_HOPPER_INTS_(tdm_multiply_s8, "s8")
TDM_HOPPER_INTS_(tdm_multiply_u8, "u8")

#else

typedef tandem_sim_tensor_map tdm_tensor_map;
#define TDM_TENSOR_MAP(name) const tdm_tensor_map name

#define tdm_shared_address(p) tandem_sim_shared_address(p)
#define tdm_tensor_prefetch(map) ((void)(map))
TDM_DEVICE void tdm_tensor_load(void *to, const tdm_tensor_map &map, int x, int y, int z,
                                tdm_mbarrier *barrier) {
    const int at[3] = {x, y, z};
    tandem_sim_tensor_load(to, &map, at, 3, barrier, 0);
}
TDM_DEVICE void tdm_tensor_load_shared(void *to, const tdm_tensor_map &map, int x, int y, int z,
                                       tdm_mbarrier *barrier, uint groups) {
    const int at[3] = {x, y, z};
    tandem_sim_tensor_load(to, &map, at, 3, barrier, groups);
}
TDM_DEVICE void tdm_tensor_store(const tdm_tensor_map &map, int x, int y, int z, const void *from) {
    const int at[3] = {x, y, z};
    tandem_sim_tensor_store(&map, at, 3, from);
}
#define tdm_tensor_store_commit() tandem_sim_tensor_store_commit()
#define tdm_tensor_store_wait(pending) tandem_sim_tensor_store_wait(pending)
#define tdm_proxy_fence() tandem_sim_proxy_fence()
TDM_DEVICE s32x4 tdm_tensor_read(const unsigned char *p) {
    tandem_sim_shared_read(p);
    return *(const s32x4 *)p;
}
TDM_DEVICE uint tdm_pair_f16(float x0, float x1) {
    return (uint)tdm_cxx_f16_narrow(x0) | (uint)tdm_cxx_f16_narrow(x1) << 16;
}
TDM_DEVICE uint tdm_pair_bf16(float x0, float x1) {
    return (uint)tdm_cxx_bf16_narrow(x0) | (uint)tdm_cxx_bf16_narrow(x1) << 16;
}
#define tdm_mbarrier_init(barrier, count) tandem_sim_mbarrier_init(barrier, count)
#define tdm_mbarrier_init_fence() tandem_sim_mbarrier_init_fence()
#define tdm_mbarrier_expect(barrier, bytes) tandem_sim_mbarrier_arrive(barrier, bytes)
#define tdm_mbarrier_arrive(barrier) tandem_sim_mbarrier_arrive(barrier, 0)
#define tdm_mbarrier_wait(barrier, parity) tandem_sim_mbarrier_wait(barrier, parity, __LINE__)
#define tdm_mbarrier_arrive_at(barrier, rank) tandem_sim_mbarrier_arrive_rank(barrier, rank)
#define tdm_cluster_barrier() tandem_sim_cluster_barrier(__LINE__)
#define tdm_multiply_fence() tandem_sim_multiply_fence()
#define tdm_multiply_commit() tandem_sim_multiply_commit()
#define tdm_multiply_wait(pending) tandem_sim_multiply_wait(pending)
#define tdm_part_barrier(index, items) tandem_sim_named_barrier(index, items)
#define tdm_registers_fewer(count) tandem_sim_set_registers(count)
#define tdm_registers_more(count) tandem_sim_set_registers(count)

#define TDM_HOPPER_FLOATS_(name, element)                                                          \
    template <int TA, int TB, int N>                                                               \
    TDM_DEVICE void name(float(&d)[N], ulong a, ulong b, int adds) {                               \
        tandem_sim_multiply({2 * N, element, element, TA != 0, TB != 0, a, b, adds != 0}, d);      \
    }
TDM_HOPPER_FLOATS_(tdm_multiply_f16, TANDEM_SIM_F16)
TDM_HOPPER_FLOATS_(tdm_multiply_bf16, TANDEM_SIM_BF16)
#define TDM_HOPPER_INT_(name, element)                                                             \
    template <int N> TDM_DEVICE void name(int(&d)[N], ulong a, ulong b, int adds) {                \
        tandem_sim_multiply({2 * N, element, TANDEM_SIM_S8, false, false, a, b, adds != 0}, d);    \
    }
TDM_HOPPER_INT_(tdm_multiply_s8, TANDEM_SIM_S8)
TDM_HOPPER_INT_(tdm_multiply_u8, TANDEM_SIM_U8)

#endif

TDM_DEVICE ulong tdm_multiply_descriptor(const void *p, uint leading, uint stride) {
    return (ulong)((tdm_shared_address(p) & 0x3ffffu) >> 4) | (ulong)(leading >> 4) << 16 |
           (ulong)(stride >> 4) << 32 | (ulong)1 << 62;
}

#endif
