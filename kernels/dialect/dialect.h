/* The kernel dialect: the only words besides plain C in which the kernel texts are written.
 *
 * A text starts with #include "dialect.h" and is compiled as OpenCL C 1.2 (dialect_opencl.h), which is what stands in a
 * text handed to a driver; and as C++17 (dialect_cxx.h), once more as CUDA device code and once more as host code for the
 * simulator of the tests. Every form defines all of this:
 *
 * Entry         TDM_KERNEL(TDM_ENTRY)(args) or TDM_KERNEL_GROUP(TDM_ENTRY, x, y, z)(args) with a
 *               required group size, or TDM_KERNEL_GROUPS(TDM_ENTRY, x, y, z, groups)(args) where registers are to be few enough
 *               for so many groups at a time on a compute unit that shares them. TDM_ENTRY comes from the define list and is the variant's name.
 * Functions     TDM_DEVICE return_type name(args); TDM_INLINE in its place where each call is to be code of its own
 * Memory        TDM_GLOBAL, TDM_LOCAL qualify pointers; TDM_LOCAL_ARRAY(type, name, count) declares
 *               group-shared memory at the top of a kernel, never handed to a function of the text
 *               (PoCL 3.1 then shares it between the groups of all threads); TDM_LOCAL_ARGUMENT(type, name), the last
 *               parameter of a kernel, is group-shared memory whose size the launch gives, and functions may take it;
 *               TDM_RESTRICT. A buffer is two arguments, a pointer and a 64-bit offset in elements.
 *               tdm_prefetch(p) asks for the cache line of a global address, which need not be valid; may do nothing.
 *               tdm_prefetch_far(p) leaves it out of the innermost cache
 * Ids           tdm_group_{x,y,z}() tdm_groups_{x,y,z}() tdm_item_{x,y,z}() tdm_group_size_{x,y,z}()
 *               tdm_global_{x,y,z}() tdm_global_size_{x,y,z}(); item ids and group sizes are int, the others long
 *               TDM_ITEM_BEGIN; is the first statement of every kernel that has a loop and no barrier. It does nothing, but
 *               makes the rest depend on the item. PoCL 7.0 and 7.1 otherwise split a kernel at loops that all items of
 *               a group pass alike, and run a part that can end in two ways twice where a group has one item.
 * Barrier       tdm_barrier(): all items of the group, local and global memory, uniform control flow only
 * Loops         TDM_UNROLL before a loop of constant bounds; TDM_NO_UNROLL. llvmpipe ends all loops of a
 *               work-item, silently, after 65,535 passes in all: loops over data take several elements a pass.
 *               TDM_UNROLL_PASSES where that alone is why, and a long body is not to be compiled so many times elsewhere.
 *               TDM_FEW_PASSES before a loop that an item of a GPU passes once or seldom comes to: compiled for CUDA it is not unrolled
 *               TDM_REPEAT(N, M) writes out M(0) M(1) … M(N-1), N a power of two up to 16, where the hint does not do
 *
 * Storage       tdm_f32 tdm_f16 tdm_bf16 tdm_s32 tdm_s8 tdm_u8: element types of buffers. f16 and bf16
 *               are storage only; arithmetic is in float. tdm_s4 is a byte of two elements, 2i in the low
 *               nibble; its words take element indices and global pointers, whole vectors even indices.
 * Scalars       float tdm_load_f32|f16|bf16(p, i)            p: any address space, i: element index
 *               float tdm_load_s32|s8|u8(p, i)               converted, round to nearest even
 *               int   tdm_int_s32|s8|u8(p, i)
 *               tdm_store_f32|f16|bf16(x, p, i)              f16, bf16 round to nearest even, NaN stays NaN
 *               tdm_store_int_s32|s8|u8(v, p, i)             saturates
 *               tdm_int_s4(p, i) tdm_store_int_s4(v, p, i)   the store rewrites the whole byte: both
 *                                                            elements of one belong to one work-item
 * Vectors       f32x4 f32x8 f32x16, s32x4 s32x8 s32x16; N below is 4, 8 or 16. + - * / work element by
 *               element between two vectors of one type, never between a vector and a scalar.
 *               f32xN_splat(x) s32xN_splat(v)
 *               f32xN_load_f32|f16|bf16|s32|s8|u8(p, i)      elements i … i+N-1, element alignment suffices
 *               f32xN_store_f32|f16|bf16(x, p, i)
 *               s32xN_load_s32|s8|u8|s4(p, i)   s32xN_store_s32|s8|u8|s4(v, p, i)   the store saturates
 *               f32xN_from_s32(v)   s32xN_from_f32_rte(x)   s32xN_from_f32_rtz(x)   saturating, NaN gives 0
 *               f32xN_number(x)                              x, but 0 where it is a NaN
 *               f32xN_sum(x) f32xN_hmax(x) f32xN_hmin(x)     horizontal, by halves
 *               f32x8_transpose(v) s32x8_transpose(v)        of the matrix whose rows are v[0] to v[7]
 *               f32xN_evens(a, b) f32xN_odds(a, b)           elements 0, 2, … (1, 3, …) of a, then those of b; N 8 or 16
 *               f32xN_select_lt(a, b, x, y)                  element by element a < b ? x : y
 *               f32xN_bits(x) s32xN_float(v)                 the same bits as the other type
 *               f32xN_loada_f32|f16|bf16(p, i)               N 1 or 4: p + i is global and a multiple of N elements' size
 *               f32x4_of(a, b, c, d) s32x4_of(a, b, c, d)
 *               f32xN_from_s32_odd(v)     inexact results keep a set low bit, so that a narrowing to bf16
 *                                         or f16 that follows rounds as if it were the first rounding
 *               Width 1 has the same words: f32x1 is float, s32x1 is int.
 * Math          for float and f32xN alike: tdm_fma(a,b,c) tdm_min tdm_max tdm_abs tdm_exp tdm_log tdm_tanh
 *               tdm_sqrt tdm_rsqrt tdm_rint tdm_floor tdm_erf tdm_erfc tdm_copysign(x, sign).
 *               tdm_min and tdm_max return the other operand when one is NaN; tdm_min_nan and
 *               tdm_max_nan return the NaN. For int and s32xN alike: tdm_int_min(v, w) tdm_int_max(v, w),
 *               and tdm_add_wrap(N, v, w) tdm_sub_wrap tdm_mul_wrap modulo 2^32.
 * Quads         four bytes in one s32, the first in the low byte; of s32xN, N a number or a macro:
 *               tdm_quad(N, v0, v1, v2, v3) from the low bytes of four; tdm_quad_byte(N, q, k) the k-th, sign-extended
 *               tdm_load_quad(p, i) elements i … i+3 of tdm_s8 as one int; s32x8_load_quads(p, i) bytes i … i+31 of a
 *               global buffer as eight
 *               tdm_dot4(N, a, b, c) c + the four products of a's bytes and b's, wrapping, N 1 or 4: a is one word, b and c are s32xN;
 *               b's bytes are signed, a's are where TDM_DOT4_UNSIGNED is 0. TDM_DOT4_KHR, _ARM or _QCOM among the defines
 *               takes the built-in of that extension
 * Conversion    tdm_float(v) from an integer, tdm_int_rte(x) tdm_int_rtz(x) saturating with NaN giving 0;
 *               tdm_float_bits(x) → uint, tdm_bits_float(u) → float; tdm_is_nan(x)
 * Generic dtype TDM_TYPE(DT) TDM_LOAD(DT, p, i) TDM_STORE(DT, x, p, i) TDM_LOADV(N, DT, p, i)
 *               TDM_LOADV_ALIGNED(N, DT, p, i) TDM_STOREV(N, DT, x, p, i), where DT is f32, f16, … or a macro that expands to one
 * Generic width TDM_F32(N) → f32xN, TDM_SPLAT(N, x), TDM_SELECT_LT(N, a, b, x, y), N a number or a macro
 *               TDM_NUMBER(N, x), TDM_BITS(N, x)
 *               TDM_S32(N), TDM_INT_SPLAT(N, v), TDM_INT_LOADV(N, DT, p, i), TDM_INT_STOREV(N, DT, v, p, i)
 *               TDM_STREAMV(N, x, p, i) stores an f32xN, N a number or a macro, to a global address that is a multiple of
 *               its size, past the caches where the device can; TDM_INT_STREAMV(N, DT, v, p, i) an s32xN as s8, u8 or s4 likewise,
 *               in a multiple of its size, f32x16_stream_f16(x, p, i) and _bf16 an f32x16; tdm_stream_end() once after the last;
 *               TDM_CAN_STREAM is defined where those of f32 go past the caches, TDM_CAN_STREAM_NARROW where all do;
 *               tdm_address(p) the address as a number
 *               TDM_LANE(N, x, l) element l of an f32xN or s32xN, N 1 or 4; l is a number as written in the text
 *               TDM_COPYV(N, to, i, from, j) moves N elements of one storage type, bits unchanged
 *               TDM_STREAM_COPYV(N, to, i, from, j) the same past the caches, to + i a multiple of its size; not defined where
 *               a device has no such stores for all types
 *               TDM_LOADV_GLOBAL, TDM_STOREV_GLOBAL, TDM_INT_LOADV_GLOBAL, TDM_INT_STOREV_GLOBAL: as without _GLOBAL, where p is
 *               known to be global: one access where the address allows, and the device does not find that out by itself
 * Copies        tdm_async_copy_16(to, from, bytes_valid) 16 bytes from global to local memory, both aligned to 16, of which
 *               those past bytes_valid are not read and become zeros; tdm_async_copy_4(to, from, bytes_valid) 4 bytes, all or
 *               none of them valid; tdm_async_commit() makes a group of the item's copies so
 *               far, tdm_async_wait(N) waits until at most N groups, a number as written in the text, are under way. The
 *               item's own copies are there after that, those of others after a barrier too. Where a device has no such
 *               copies they are plain ones.
 * Warps         in texts *.cu alone, for 32 neighbouring items that all take part: tdm_warp_lane()
 *               tdm_warp_shuffle(x, lane) tdm_warp_shuffle_xor(x, lanes) tdm_warp_shuffle_down(x, lanes)
 *               tdm_warp_ballot(vote) tdm_warp_barrier()
 * Blobs         tdm_dims { long v[8]; } by value; an array in a blob is indexed by constants only
 *
 *               tdm_mad(a,b,c), for both too: a·b + c with one rounding or two, whichever the device does fast.
 *               tdm_fma is a slow subroutine where the hardware has none, so long sums take tdm_mad unless
 *               their row requires the hardware. TDM_FAST_FMA is defined where the compiler knows that it has.
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

/* A form may leave these out. */
#ifndef TDM_INT_STREAMV
#define TDM_INT_STREAMV(N, DT, v, p, i) TDM_INT_STOREV_GLOBAL(N, DT, v, p, i)
#endif
#ifndef f32x16_stream_f16
#define f32x16_stream_f16(x, p, i) TDM_STOREV_GLOBAL(16, f16, x, p, i)
#define f32x16_stream_bf16(x, p, i) TDM_STOREV_GLOBAL(16, bf16, x, p, i)
#endif

#endif
