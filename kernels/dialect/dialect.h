/* The kernel dialect: besides plain C, kernel sources use only the words listed here.
 *
 * A kernel source starts with #include "dialect.h". It is compiled as OpenCL C 1.2
 * (dialect_opencl.h), which is the form that a driver receives. It is also compiled as C++17
 * (dialect_cxx.h): once as CUDA device code, and once as host code for the simulator of the tests.
 * Every form defines all of this:
 *
 * Entry         TDM_KERNEL(TDM_ENTRY)(args) or TDM_KERNEL_GROUP(TDM_ENTRY, x, y, z)(args) with a
 *               required work-group size. TDM_KERNEL_GROUPS(TDM_ENTRY, x, y, z, groups)(args) also
 *               limits registers, so that `groups` work-groups fit on a compute unit at a time.
 *               TDM_ENTRY comes from the define list and is the variant's name.
 * Functions     TDM_DEVICE return_type name(args); TDM_INLINE instead requests inlining of every
 *               call
 * Memory        TDM_GLOBAL, TDM_LOCAL qualify pointers. TDM_LOCAL_ARRAY(type, name, count) declares
 *               group-shared memory at the top of a kernel. It is never passed to a function: PoCL
 *               3.1 would then share it between the work-groups of all threads.
 *               TDM_LOCAL_ARGUMENT(type, name), the last parameter of a kernel, is group-shared
 *               memory whose size the launch gives. It may be passed to functions.
 *               TDM_RESTRICT is `restrict` where that is supported. A buffer is two arguments, a
 *               pointer and a 64-bit offset in elements.
 *               tdm_prefetch(p) prefetches the cache line of a global address, which need not be
 *               valid; it may do nothing. tdm_prefetch_far(p) skips the innermost cache.
 * Ids           tdm_group_{x,y,z}() tdm_groups_{x,y,z}() tdm_item_{x,y,z}()
 *               tdm_group_size_{x,y,z}() tdm_global_{x,y,z}() tdm_global_size_{x,y,z}(); work-item
 *               ids and work-group sizes are int, the others long.
 *               TDM_ITEM_BEGIN; is the first statement of every kernel with a loop and no barrier.
 *               It has no effect except that the rest depends on the work-item. Otherwise PoCL 7.0
 *               and 7.1 split a kernel at loops that all work-items of a group run alike. A part
 *               with two exits then runs twice if the group has one work-item.
 * Barrier       tdm_barrier(): all work-items of the group, local and global memory, uniform
 *               control flow only
 * Loops         TDM_UNROLL before a loop of constant bounds; TDM_NO_UNROLL. llvmpipe silently ends
 *               all loops of a work-item after 65,535 iterations in total, so loops over data take
 *               several elements per iteration. TDM_UNROLL_PASSES is for loops unrolled for that
 *               reason alone; CUDA unrolls them only by 4.
 *               TDM_FEW_PASSES before a loop that a GPU work-item runs once or rarely reaches: CUDA
 *               does not unroll it.
 *               TDM_REPEAT(N, M) expands to M(0) M(1) … M(N-1), N a power of two up to 16, for
 *               places where the unroll hint is not enough.
 *
 * Storage       tdm_f32 tdm_f16 tdm_bf16 tdm_s32 tdm_s8 tdm_u8: element types of buffers. f16 and
 *               bf16 are storage only; arithmetic is in float. tdm_s4 is a byte of two elements;
 *               element 2i is in the low nibble of byte i. The words for s4 take element indices
 *               and global pointers; those for vectors take even indices.
 * Scalars       float tdm_load_f32|f16|bf16(p, i)            p: any address space, i: element index
 *               float tdm_load_s32|s8|u8(p, i)               converted, round to nearest even
 *               int   tdm_int_s32|s8|u8(p, i)
 *               tdm_store_f32|f16|bf16(x, p, i)              f16, bf16 round to nearest even, NaN
 *                                                            stays NaN
 *               tdm_store_int_s32|s8|u8(v, p, i)             saturates
 *               tdm_int_s4(p, i) tdm_store_int_s4(v, p, i)   the store rewrites the whole byte, so
 *                                                            one work-item owns both of its
 *                                                            elements
 * Vectors       f32x4 f32x8 f32x16, s32x4 s32x8 s32x16; N below is 4, 8 or 16. + - * / work element
 *               by element between two vectors of one type, never between a vector and a scalar.
 *               f32xN_splat(x) s32xN_splat(v)
 *               f32xN_load_f32|f16|bf16|s32|s8|u8(p, i)      elements i … i+N-1; element alignment
 *                                                            suffices
 *               f32xN_store_f32|f16|bf16(x, p, i)
 *               s32xN_load_s32|s8|u8|s4(p, i)
 *               s32xN_store_s32|s8|u8|s4(v, p, i)            saturates
 *               f32xN_from_s32(v)   s32xN_from_f32_rte(x)   s32xN_from_f32_rtz(x)   saturating, NaN
 *                                                            gives 0
 *               f32xN_number(x)                              x, but 0 for a NaN
 *               f32xN_sum(x) f32xN_hmax(x) f32xN_hmin(x)     horizontal, by halves
 *               f32x8_transpose(v) s32x8_transpose(v)        transposes rows v[0] to v[7]
 *               f32xN_evens(a, b) f32xN_odds(a, b)           elements 0, 2, … (1, 3, …) of a, then
 *                                                            those of b; N 8 or 16
 *               f32xN_select_lt(a, b, x, y)                  element by element a < b ? x : y
 *               f32xN_bits(x) s32xN_float(v)                 the bits as the other type
 *               f32xN_loada_f32|f16|bf16(p, i)               N 1 or 4; p + i is global and a
 *                                                            multiple of the size of N elements
 *               f32x4_of(a, b, c, d) s32x4_of(a, b, c, d)
 *               f32xN_from_s32_odd(v)     an inexact result keeps a set low bit (round to odd), so
 *                                         that narrowing it to bf16 or f16 gives the correctly
 *                                         rounded value
 *               Width 1 has these words too: f32x1 is float, s32x1 is int.
 * Math          for both float and f32xN: tdm_fma(a,b,c) tdm_min tdm_max tdm_abs tdm_exp tdm_log
 *               tdm_tanh tdm_sqrt tdm_rsqrt tdm_rint tdm_floor tdm_erf tdm_erfc
 *               tdm_copysign(x, sign).
 *               tdm_min and tdm_max return the other operand if one is NaN; tdm_min_nan and
 *               tdm_max_nan return the NaN. For both int and s32xN: tdm_int_min(v, w)
 *               tdm_int_max(v, w), and tdm_add_wrap(N, v, w) tdm_sub_wrap tdm_mul_wrap modulo 2^32.
 *               tdm_mad(a,b,c) is a·b + c with one or two roundings, whichever is fast on the
 *               device. tdm_fma is a slow subroutine without hardware support. Long sums therefore
 *               use tdm_mad unless their variant requires the hardware. TDM_FAST_FMA is defined if
 *               the compiler knows that the hardware has it.
 * Quads         four bytes in one s32, the first in the low byte; N of s32xN is a number or a
 *               macro:
 *               tdm_quad(N, v0, v1, v2, v3) packs the low bytes of four values;
 *               tdm_quad_byte(N, q, k) is the k-th byte, sign-extended
 *               tdm_load_quad(p, i) loads elements i … i+3 of tdm_s8 as one int;
 *               s32x8_load_quads(p, i) loads bytes i … i+31 of a global buffer as eight
 *               tdm_dot4(N, a, b, c) is c plus the four products of the bytes of a and b, wrapping,
 *               N 1 or 4. a is one word, b and c are s32xN. Bytes of b are signed; bytes of a are
 *               signed if TDM_DOT4_UNSIGNED is 0. The define TDM_DOT4_KHR, _ARM or _QCOM selects
 *               the built-in of that extension.
 * Conversion    tdm_float(v) from an integer, tdm_int_rte(x) tdm_int_rtz(x) saturating with NaN
 *               giving 0; tdm_float_bits(x) → uint, tdm_bits_float(u) → float; tdm_is_nan(x)
 * Generic dtype TDM_TYPE(DT) TDM_LOAD(DT, p, i) TDM_STORE(DT, x, p, i) TDM_LOADV(N, DT, p, i)
 *               TDM_LOADV_ALIGNED(N, DT, p, i) TDM_STOREV(N, DT, x, p, i), where DT is f32, f16, …
 *               or a macro that expands to one
 * Generic width TDM_F32(N) → f32xN, TDM_SPLAT(N, x), TDM_SELECT_LT(N, a, b, x, y),
 *               TDM_NUMBER(N, x), TDM_BITS(N, x), TDM_S32(N), TDM_INT_SPLAT(N, v),
 *               TDM_INT_LOADV(N, DT, p, i), TDM_INT_STOREV(N, DT, v, p, i); N is a number or a
 *               macro
 *               TDM_LANE(N, x, l) element l of an f32xN or s32xN, N 1 or 4; l is a literal number
 *               TDM_COPYV(N, to, i, from, j) copies N elements of one storage type, bits unchanged
 *               TDM_LOADV_GLOBAL, TDM_STOREV_GLOBAL, TDM_INT_LOADV_GLOBAL, TDM_INT_STOREV_GLOBAL:
 *               like the words without _GLOBAL, for a p that is known to be global. They use one
 *               access if the address is aligned, where the device does not find that out by
 *               itself.
 *               tdm_address(p) the address as a number
 * Non-temporal  These words store non-temporally where the device can. The address is global and a
 *               multiple of the stored size.
 *               TDM_STREAMV(N, x, p, i) stores an f32xN, N a number or a macro
 *               TDM_INT_STREAMV(N, DT, v, p, i) stores an s32xN as s8, u8 or s4
 *               f32x16_stream_f16(x, p, i) and f32x16_stream_bf16 store an f32x16
 *               TDM_STREAM_COPYV(N, to, i, from, j) is TDM_COPYV with non-temporal stores; it is
 *               not defined if a device lacks them for some type
 *               tdm_stream_end() once after the last store
 *               TDM_CAN_STREAM is defined if f32 stores are non-temporal, TDM_CAN_STREAM_NARROW if
 *               the stores of all types are
 * Copies        tdm_async_copy_16(to, from, bytes_valid) copies 16 bytes from global to local
 *               memory, both aligned to 16. Bytes past bytes_valid are not read and become zeros.
 *               tdm_async_copy_4(to, from, bytes_valid) copies 4 bytes, all or none of them valid.
 *               tdm_async_commit() makes a group of the work-item's copies so far.
 *               tdm_async_wait(N) waits until at most N groups are pending; N is a literal number.
 *               After that the work-item sees its own copies, and after a barrier those of others.
 *               Devices without such copies use plain ones.
 * Warps         only in sources *.cu, for 32 neighbouring work-items that all take part:
 *               tdm_warp_lane() tdm_warp_shuffle(x, lane) tdm_warp_shuffle_xor(x, lanes)
 *               tdm_warp_shuffle_down(x, lanes) tdm_warp_ballot(vote) tdm_warp_barrier()
 * Structs       tdm_dims { long v[8]; } is passed by value; an array in an argument struct is
 *               indexed by constants only
 *
 * Contraction is off: a multiply and an add are fused only where tdm_fma or tdm_mad is written. */
#ifndef TDM_DIALECT_H
#define TDM_DIALECT_H

#define TDM_CAT2_(a, b) a##b
#define TDM_CAT2(a, b) TDM_CAT2_(a, b)
#define TDM_CAT4_(a, b, c, d) a##b##c##d
#define TDM_CAT4(a, b, c, d) TDM_CAT4_(a, b, c, d)

#define TDM_TYPE(DT) TDM_CAT2(tdm_, DT)
#define TDM_LOAD(DT, p, i) TDM_CAT2(tdm_load_, DT)(p, i)
#define TDM_STORE(DT, x, p, i) TDM_CAT2(tdm_store_, DT)(x, p, i)
#define TDM_F32(N) TDM_CAT2(f32x, N)
#define TDM_SPLAT(N, x) TDM_CAT4(f32x, N, _, splat)(x)
#define TDM_SELECT_LT(N, a, b, x, y) TDM_CAT4(f32x, N, _select, _lt)(a, b, x, y)
#define TDM_LOADV(N, DT, p, i) TDM_CAT4(f32x, N, _load_, DT)(p, i)
#define TDM_LANE(N, x, l) TDM_CAT2(tdm_lane_, N)(x, l)
#define TDM_LOADV_ALIGNED(N, DT, p, i) TDM_CAT4(f32x, N, _loada_, DT)(p, i)
#define TDM_STOREV(N, DT, x, p, i) TDM_CAT4(f32x, N, _store_, DT)(x, p, i)

#define TDM_NUMBER(N, x) TDM_CAT4(f32x, N, _, number)(x)
#define TDM_BITS(N, x) TDM_CAT4(f32x, N, _, bits)(x)

#define TDM_S32(N) TDM_CAT2(s32x, N)
#define TDM_INT_SPLAT(N, v) TDM_CAT4(s32x, N, _, splat)(v)
#define TDM_INT_LOADV(N, DT, p, i) TDM_CAT4(s32x, N, _load_, DT)(p, i)
#define TDM_INT_STOREV(N, DT, v, p, i) TDM_CAT4(s32x, N, _store_, DT)(v, p, i)
#define TDM_COPYV(N, to, i, from, j) TDM_CAT2(tdm_copy_, N)(to, i, from, j)

/* Vectors of one element. */
typedef float f32x1;
typedef int s32x1;
#define f32x1_splat(x) (x)
#define f32x1_load_f32(p, i) tdm_load_f32(p, i)
#define f32x1_load_f16(p, i) tdm_load_f16(p, i)
#define f32x1_load_bf16(p, i) tdm_load_bf16(p, i)
#define f32x1_loada_f32(p, i) tdm_load_f32(p, i)
#define f32x1_loada_f16(p, i) tdm_load_f16(p, i)
#define f32x1_loada_bf16(p, i) tdm_load_bf16(p, i)
#define f32x1_store_f32(x, p, i) tdm_store_f32(x, p, i)
#define f32x1_store_f16(x, p, i) tdm_store_f16(x, p, i)
#define f32x1_store_bf16(x, p, i) tdm_store_bf16(x, p, i)
#define f32x1_from_s32(v) tdm_float(v)
#define f32x1_select_lt(a, b, x, y) ((a) < (b) ? (x) : (y))
#define f32x1_sum(x) (x)
#define f32x1_hmax(x) (x)
#define f32x1_hmin(x) (x)
#define f32x1_bits(x) ((int)tdm_float_bits(x))
#define s32x1_splat(v) (v)
#define s32x1_load_s32(p, i) tdm_int_s32(p, i)
#define s32x1_load_s8(p, i) tdm_int_s8(p, i)
#define s32x1_load_u8(p, i) tdm_int_u8(p, i)
#define s32x1_load_s4(p, i) tdm_int_s4(p, i)
#define s32x1_store_s32(v, p, i) tdm_store_int_s32(v, p, i)
#define s32x1_store_s8(v, p, i) tdm_store_int_s8(v, p, i)
#define s32x1_store_u8(v, p, i) tdm_store_int_u8(v, p, i)
#define s32x1_store_s4(v, p, i) tdm_store_int_s4(v, p, i)
#define s32x1_from_f32_rte(x) tdm_int_rte(x)
#define s32x1_from_f32_rtz(x) tdm_int_rtz(x)
#define tdm_lane_1(x, l) (x)
#define tdm_copy_1(to, i, from, j) ((to)[i] = (from)[j])

#define TDM_REPEAT(N, M) TDM_CAT2(TDM_REPEAT_, N)(M)
#define TDM_REPEAT_1(M) M(0)
#define TDM_REPEAT_2(M) M(0) M(1)
#define TDM_REPEAT_4(M) TDM_REPEAT_2(M) M(2) M(3)
#define TDM_REPEAT_8(M) TDM_REPEAT_4(M) M(4) M(5) M(6) M(7)
#define TDM_REPEAT_16(M) TDM_REPEAT_8(M) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)

typedef struct {
    long v[8];
} tdm_dims;

#ifndef TDM_DIALECT_CXX
#include "dialect_opencl.h"
#endif

/* Forms of the dialect without these words use plain stores. */
#ifndef TDM_INT_STREAMV
#define TDM_INT_STREAMV(N, DT, v, p, i) TDM_INT_STOREV_GLOBAL(N, DT, v, p, i)
#endif
#ifndef f32x16_stream_f16
#define f32x16_stream_f16(x, p, i) TDM_STOREV_GLOBAL(16, f16, x, p, i)
#define f32x16_stream_bf16(x, p, i) TDM_STOREV_GLOBAL(16, bf16, x, p, i)
#endif

#endif
