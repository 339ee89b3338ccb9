/* The dialect's words for compute capability 9.0a: mbarriers, tensor-map copies and warpgroup
 * matrix multiplication. Only sources *.cu include this file.
 *
 * The words work on shared memory of TDM_LOCAL_ARGUMENT. A warpgroup is 128 neighbouring
 * work-items; the index of its first is a multiple of 128. N is always a literal number.
 *
 * TDM_TENSOR_MAP(name)          kernel parameter: a tensor-map descriptor. It describes a tensor of
 *                               three dimensions and the box of it that one copy moves.
 * tdm_tensor_prefetch(map)      prefetches the descriptor, not the tensor
 * tdm_tensor_load(to, map, x, y, z, barrier)
 *                               by one work-item: loads the box at (x, y, z); elements outside of
 *                               the tensor become zeros. The bytes arrive at `barrier`. `to` is
 *                               aligned to 1024 bytes.
 * tdm_tensor_load_shared(to, map, x, y, z, barrier, groups)
 *                               multicast load: `groups` is a bit mask of ranks in the cluster. The
 *                               box goes to offset `to` of each of these groups and arrives at
 *                               `barrier` of each.
 * tdm_tensor_store(map, x, y, z, from)
 *                               by one work-item: stores the box from shared memory at (x, y, z);
 *                               elements outside of the tensor are dropped. `from` is aligned to
 *                               1024 bytes.
 * tdm_tensor_store_commit(), tdm_tensor_store_wait(N)
 *                               by the same work-item: waits until at most N groups of its stores
 *                               still read shared memory
 * tdm_tensor_read(p)            reads 16 bytes of loaded data as s32x4; tdm_proxy_fence() must
 *                               follow
 * tdm_proxy_fence()             by each work-item that wrote data for a store, or read data that a
 *                               load will overwrite. It goes before the barrier or arrival that
 *                               precedes the copy.
 *
 * tdm_mbarrier                  eight bytes of shared memory. A phase ends after the number of
 *                               arrivals given by tdm_mbarrier_init(b, count), and after all bytes
 *                               announced by tdm_mbarrier_expect(b, bytes). That call is an arrival
 *                               too.
 * tdm_mbarrier_init_fence()     by the work-item that initialized mbarriers, before a work-group
 *                               barrier
 * tdm_mbarrier_arrive(b)        one arrival
 * tdm_mbarrier_wait(b, parity)  waits until the phase of that parity is over; the first phase has
 *                               parity 0
 *
 * tdm_cluster_barrier()         by all work-items of a cluster. It comes before the first access to
 *                               another group's memory, and before a group exits whose memory
 *                               others may still access. tdm_mbarrier_init_fence() comes before it.
 * tdm_mbarrier_arrive_at(b, rank)
 *                               one arrival at barrier b of another group of the cluster. It
 *                               signals that the work-item has read data, not that it has written
 *                               some. The rank along x is tdm_group_x() modulo the number of
 *                               groups.
 *
 * tdm_multiply_f16<TA, TB>(d, a, b, adds)
 *                               by a warpgroup: D = A·B, plus D if `adds`; 64 rows, 2·(elements of
 *                               d) columns, 32 bytes of K. a and b are shared-memory descriptors.
 *                               TA or TB is 1 if the operand is contiguous along M or N instead of
 *                               K. _bf16 likewise; _s8 and _u8 (A is u8) give s32, without TA and
 *                               TB.
 * tdm_multiply_descriptor(p, leading, stride)
 *                               for operands in rows of 128 bytes that tensor-map copies have
 *                               swizzled. Blocks of 8 rows are `stride` bytes apart. If the
 *                               contiguous direction is not K, its blocks of 128 bytes are
 *                               `leading` bytes apart.
 * tdm_multiply_fence()          before the multiplications of a group
 * tdm_multiply_commit()         after them
 * tdm_multiply_wait(N)          waits until at most N groups are pending; d is not accessed before.
 *                               Lane l of warp w of the warpgroup holds in d[i] the element of
 *                               row 16·w + l / 4 + 8·(i / 2 % 2),
 *                               column 8·(i / 4) + 2·(l % 4) + i % 2.
 *
 * tdm_part_barrier(index, items)  a barrier of `items` work-items of a work-group, whole warps.
 *                               There are 15 independent ones.
 *
 * tdm_pair_f16(x0, x1), tdm_pair_bf16(x0, x1)
 *                               two floats, rounded and packed, x0 in the low half
 *
 * tdm_registers_fewer(N), tdm_registers_more(N)
 *                               by a warpgroup: sets the registers per work-item from here on */
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
/* This omits .release.cluster: with it, ptxas waits for the work-item's stores to reach the whole
 * device. Only reads come before the arrival. */
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

/* These list the registers of D as operands, and their numbers in the instruction string. */
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
