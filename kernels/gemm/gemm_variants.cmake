# GEMM of floats: families, tiles and types. Parameters of a variant (TDM_GEMM_P_* in
# api/gemm/gemm_internal.h): family; rows and columns of the tile; types of A and B (0: any);
# work-items of a group; bytes of local memory; and one more whose meaning depends on the family.
#
# A type list `f32 f16` is one variant for each type. B may have another type than A, as in `TYPES
# f32/f16`.

set(family_reference 1)
set(family_tiled 2)
set(family_panel 3)
set(family_small_m 4)
set(family_tensor 5)
set(family_wgmma 6)

# Sets `a` and `b` to the types of A and B, and `tag` to the part of a name that stands for both:
# "f32" or "f32s8".
macro(split_types types)
  string(REPLACE "/" ";" both "${types}")
  list(GET both 0 a)
  list(GET both -1 b)
  set(tag "${a}")
  if(NOT a STREQUAL b)
    string(APPEND tag "${b}")
  endif()
endmacro()

# Sets `bits_define` to the define BITS of kernels that expand quantized weights of type `b`.
macro(set_bits_define)
  set(bits_define "")
  if(b STREQUAL "s8")
    set(bits_define BITS=8)
  elseif(b STREQUAL "s4")
    set(bits_define BITS=4)
  endif()
endmacro()

# Small-M GEMM on CPU cores: the columns of B are read once, NR at a time, in vectors of VW floats.
#   REGISTERS  vector registers of the CPU, which limit the rows that are computed at a time
function(gemm_small_m)
  cmake_parse_arguments(V "" "NR;VW;REGISTERS;ARCH" "TYPES" ${ARGN})
  foreach(type IN LISTS V_TYPES)
    variant(NAME gemm_${type}_small_m_${V_NR} OP GEMM SOURCE gemm_small_m.cl ARCH ${V_ARCH}
            DEFINES NR=${V_NR} VW=${V_VW} REGISTERS=${V_REGISTERS} BT=${type}
            PARAMETERS ${family_small_m} 4 ${V_NR} 0 ${storage_${type}} 1)
  endforeach()
endfunction()

# Blocked GEMM on CPU cores: a micro-tile of MR rows and NR columns stays in registers while a block
# of KC steps of K, packed in local memory, is multiplied.
#   VW     floats of a vector
#   PAIRS  multiplies pairs of bf16
#   LOCAL  bytes of local memory where the formula below does not hold
function(gemm_panel)
  cmake_parse_arguments(V "PAIRS" "OP;MR;NR;VW;KC;ARCH;LOCAL" "TYPES" ${ARGN})
  if(NOT V_OP)
    set(V_OP GEMM)
  endif()
  # Local memory holds a micro-panel of A with 16 floats after each row, one of B, and the sums of a
  # tile.
  math(EXPR local "4 * (${V_MR} * (${V_KC} + 16) + ${V_NR} * ${V_KC} + ${V_MR} * ${V_NR})")
  set(pairs "")
  set(a 0)
  if(V_PAIRS)
    set(local ${V_LOCAL})
    set(pairs PAIRS)
    set(a ${storage_bf16})
  endif()
  foreach(b IN LISTS V_TYPES)
    set_bits_define()
    variant(NAME gemm_${b}_panel_${V_MR}x${V_NR} OP ${V_OP} SOURCE gemm_panel.cl ARCH ${V_ARCH}
            DEFINES MR=${V_MR} NR=${V_NR} VW=${V_VW} KC=${V_KC} BT=${b} ${bits_define} ${pairs}
            PARAMETERS ${family_panel} ${V_MR} ${V_NR} ${a} ${storage_${b}} 1 ${local} ${V_KC})
  endforeach()
endfunction()

# Hopper's wgmma: two groups of warps compute 128 rows and TN columns while a third copies tiles by
# tensor maps.
#   STAGES   tiles of K in local memory
#   CLUSTER  work-groups that share tiles; the tile of a variant is that of a cluster
function(gemm_wgmma)
  cmake_parse_arguments(V "" "TN;STAGES;CLUSTER" "TYPES" ${ARGN})
  math(EXPR rows "128 * ${V_CLUSTER}")
  # Local memory holds tiles at multiples of 1024 bytes, eight strips of sums, two mbarriers per
  # stage, and eight boxes of D.
  math(EXPR tiles "1024 - 16 + ${V_STAGES} * (128 + ${V_TN}) * 128")
  math(EXPR local "${tiles} + 8 * 16 * 32 * 4 + 2 * ${V_STAGES} * 8 + 8 * 16 * 128")
  foreach(type IN LISTS V_TYPES)
    variant(NAME gemm_${type}_wgmma_${rows}x${V_TN} OP GEMM SOURCE gemm_wgmma.cu ARCH sm90a
            DEFINES TN=${V_TN} STAGES=${V_STAGES} CLUSTER=${V_CLUSTER} AT=${type}
            PARAMETERS ${family_wgmma} ${rows} ${V_TN} ${storage_${type}} ${storage_${type}} 384
                ${local} ${V_CLUSTER})
  endforeach()
endfunction()

# Sets `items` and `local` of a kernel for tensor cores: there is a warp for each WM rows and WN
# columns of the tile. Local memory holds STAGES tiles with 64 bytes of each line. At the end the
# sums of the tile, 4 bytes each, replace them.
macro(size_mma)
  math(EXPR items "32 * (${V_TM} / ${V_WM}) * (${V_TN} / ${V_WN})")
  math(EXPR local "${V_STAGES} * (${V_TM} + ${V_TN}) * 64")
  math(EXPR sums "${V_TM} * ${V_TN} * 4")
  if(sums GREATER local)
    set(local ${sums})
  endif()
  set(stages_tag "")
  if(V_STAGES LESS 4)
    set(stages_tag "_s${V_STAGES}")
  endif()
endmacro()

# GEMM on tensor cores by mma.sync, from compute capability 7.5 on; bf16 requires 8.0. With fewer
# STAGES than four, more work-groups fit into the local memory of 8.6, 8.9, 12.0 and 7.5.
#   GROUPS  work-groups that a multiprocessor holds at a time
function(gemm_mma)
  cmake_parse_arguments(V "" "TM;TN;WM;WN;STAGES;GROUPS" "TYPES" ${ARGN})
  size_mma()
  foreach(type IN LISTS V_TYPES)
    set(needs "")
    if(type STREQUAL "bf16")
      set(needs NEEDS ASYNC_COPY)
    endif()
    variant(NAME gemm_${type}_mma_${V_TM}x${V_TN}${stages_tag} OP GEMM SOURCE gemm_mma.cu ARCH
                tensor ${needs}
            DEFINES MMA=${type} TM=${V_TM} TN=${V_TN} WM=${V_WM} WN=${V_WN} STAGES=${V_STAGES}
                GROUPS=${V_GROUPS}
            PARAMETERS ${family_tensor} ${V_TM} ${V_TN} ${storage_${type}} ${storage_${type}}
                ${items} ${local} ${V_GROUPS})
  endforeach()
endfunction()

# GEMM of f32 by three products of tf32, for plans that allow it.
function(gemm_3xtf32)
  cmake_parse_arguments(V "" "TM;TN;WM;WN;STAGES;GROUPS" "" ${ARGN})
  size_mma()
  variant(NAME gemm_f32_3xtf32_${V_TM}x${V_TN} OP GEMM SOURCE gemm_3xtf32_mma.cu ARCH tensor
          NEEDS ASYNC_COPY
          DEFINES TM=${V_TM} TN=${V_TN} WM=${V_WM} WN=${V_WN} STAGES=${V_STAGES} GROUPS=${V_GROUPS}
          PARAMETERS ${family_tensor} ${V_TM} ${V_TN} 1 1 ${items} ${local} ${V_GROUPS})
endfunction()

# GEMM of f32 on CUDA cores with asynchronous copies: a work-item has 8x8 sums. Local memory holds
# four tiles of 8 steps of K.
function(gemm_simt)
  cmake_parse_arguments(V "" "TM;TN;GROUPS" "" ${ARGN})
  math(EXPR items "${V_TM} * ${V_TN} / 64")
  math(EXPR local "4 * 8 * (${V_TM} + ${V_TN} + 8) * 4")
  variant(NAME gemm_f32_simt_${V_TM}x${V_TN} OP GEMM SOURCE gemm_simt.cl ARCH async
          DEFINES TM=${V_TM} TN=${V_TN} GROUPS=${V_GROUPS}
          PARAMETERS ${family_tiled} ${V_TM} ${V_TN} 1 1 ${items} ${local} ${items})
endfunction()

# GPUs: a work-group computes a tile of TM rows and TN columns, TK steps of K at a time from local
# memory.
#   RM, RN   sums of a work-item
#   VW       elements of a load
#   PAD      floats after each step of K in local memory, against bank conflicts
#   BUFFERS  pairs of tiles in local memory; with 2 the next pair is loaded during multiplication
#   TAG      suffix of the name, if another variant has the same tile
function(gemm_tiled)
  cmake_parse_arguments(V "" "OP;TM;TN;TK;RM;RN;VW;PAD;BUFFERS;TAG" "TYPES" ${ARGN})
  if(NOT V_OP)
    set(V_OP GEMM)
  endif()
  math(EXPR x "${V_TN} / ${V_RN}")
  math(EXPR items "${x} * (${V_TM} / ${V_RM})")
  math(EXPR local "${V_BUFFERS} * ${V_TK} * (${V_TM} + ${V_TN} + 2 * ${V_PAD}) * 4")
  foreach(types IN LISTS V_TYPES)
    split_types(${types})
    set_bits_define()
    variant(NAME gemm_${tag}_tiled_${V_TM}x${V_TN}${V_TAG} OP ${V_OP} SOURCE gemm_tiled.cl
            DEFINES TM=${V_TM} TN=${V_TN} TK=${V_TK} RM=${V_RM} RN=${V_RN} VW=${V_VW} PAD=${V_PAD}
                BUFFERS=${V_BUFFERS} AT=${a} BT=${b} ${bits_define}
            PARAMETERS ${family_tiled} ${V_TM} ${V_TN} ${storage_${a}} ${storage_${b}} ${items}
                ${local} ${x})
  endforeach()
endfunction()

gemm_small_m(TYPES f32 f16 bf16 NR 64 VW 16 REGISTERS 32 ARCH avx512)
gemm_small_m(TYPES f32 f16 bf16 NR 16 VW 8 REGISTERS 16 ARCH avx2)
gemm_small_m(TYPES f32 f16 bf16 NR 8 VW 4 REGISTERS 16 ARCH cpu)
foreach(type IN ITEMS f32 f16 bf16)
  variant(NAME gemm_${type}_small_m_group OP GEMM SOURCE gemm_small_m_group.cl
          DEFINES BT=${type}
          PARAMETERS ${family_small_m} 4 64 0 ${storage_${type}} 64 4096 64)
endforeach()
gemm_panel(TYPES f32 MR 6 NR 64 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES f32 MR 12 NR 32 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES f32 MR 8 NR 48 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES f16 MR 6 NR 64 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES f16 MR 12 NR 32 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES bf16 MR 6 NR 64 VW 16 KC 1024 ARCH avx512bf16 PAIRS LOCAL 193712)
gemm_panel(TYPES bf16 MR 6 NR 64 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES bf16 MR 12 NR 32 VW 16 KC 512 ARCH avx512)
gemm_panel(TYPES f32 MR 6 NR 16 VW 8 KC 512 ARCH avx2)
gemm_panel(TYPES f32 MR 4 NR 24 VW 8 KC 512 ARCH avx2)
gemm_panel(TYPES f16 bf16 MR 6 NR 16 VW 8 KC 512 ARCH avx2)
gemm_panel(TYPES f32 f16 bf16 MR 8 NR 8 VW 4 KC 256 ARCH cpu)
foreach(type IN ITEMS f16 bf16)
  gemm_wgmma(TYPES ${type} TN 256 STAGES 4 CLUSTER 2)
  gemm_wgmma(TYPES ${type} TN 256 STAGES 4 CLUSTER 1)
  gemm_wgmma(TYPES ${type} TN 128 STAGES 6 CLUSTER 1)
endforeach()
foreach(type IN ITEMS f16 bf16)
  gemm_mma(TYPES ${type} TM 128 TN 256 WM 64 WN 64 STAGES 4 GROUPS 1)
  gemm_mma(TYPES ${type} TM 128 TN 128 WM 64 WN 64 STAGES 4 GROUPS 2)
  gemm_mma(TYPES ${type} TM 64 TN 64 WM 32 WN 32 STAGES 4 GROUPS 4)
  gemm_mma(TYPES ${type} TM 64 TN 64 WM 32 WN 32 STAGES 3 GROUPS 4)
  if(type STREQUAL "f16")
    gemm_mma(TYPES ${type} TM 64 TN 64 WM 32 WN 32 STAGES 2 GROUPS 4)
  endif()
endforeach()
gemm_3xtf32(TM 128 TN 64 WM 32 WN 32 STAGES 4 GROUPS 1)
gemm_3xtf32(TM 64 TN 64 WM 32 WN 32 STAGES 4 GROUPS 3)
gemm_simt(TM 128 TN 128 GROUPS 2)
gemm_simt(TM 128 TN 64 GROUPS 3)
gemm_simt(TM 64 TN 64 GROUPS 4)
# For f32 there are more tiles. Some are the fastest for some shapes only; tuning data choose among
# them.
set(large TM 128 TN 128 RM 8 RN 8 VW 4 PAD 4)
set(medium TM 64 TN 64 TK 16 RM 4 RN 4 PAD 4)
set(small TM 32 TN 32 TK 16 RM 4 RN 4 VW 4)
gemm_tiled(TYPES f32 ${large} TK 8 BUFFERS 2)
gemm_tiled(TYPES f32 ${large} TK 16 BUFFERS 1 TAG _single)
gemm_tiled(TYPES f32 TM 128 TN 64 TK 8 RM 8 RN 8 VW 4 PAD 4 BUFFERS 2)
gemm_tiled(TYPES f16 bf16 ${large} TK 8 BUFFERS 2)
gemm_tiled(TYPES f32 ${medium} VW 4 BUFFERS 2)
gemm_tiled(TYPES f32 ${medium} VW 4 BUFFERS 1 TAG _single)
gemm_tiled(TYPES f32 TM 64 TN 64 TK 8 RM 8 RN 8 VW 4 PAD 4 BUFFERS 2 TAG _r8)
gemm_tiled(TYPES f32 ${medium} VW 1 BUFFERS 2 TAG _v1)
foreach(type IN ITEMS f16 bf16)
  gemm_tiled(TYPES ${type} ${medium} VW 4 BUFFERS 2)
  gemm_tiled(TYPES ${type} ${medium} VW 4 BUFFERS 1 TAG _single)
endforeach()
gemm_tiled(TYPES f32/f16 f32/bf16 ${medium} VW 4 BUFFERS 2)
gemm_tiled(TYPES f32 ${small} PAD 4 BUFFERS 2)
gemm_tiled(TYPES f32 ${small} PAD 0 BUFFERS 1 TAG _single)
gemm_tiled(TYPES f16 bf16 ${small} PAD 4 BUFFERS 2)
variant(NAME gemm_any_reference OP GEMM SOURCE gemm_reference.cl
        PARAMETERS ${family_reference} 1 1 0 0 1)

# Packs B into panels of the panel family's widths. Parameters: width; types of source and panels.
foreach(width IN ITEMS 8 16 32 24 48 64)
  foreach(type IN ITEMS f32 f16 bf16)
    if(type STREQUAL "f32" OR NOT width MATCHES "^(24|48)$")
      variant(NAME gemm_pack_${type}_w${width} OP GEMM_PACK SOURCE gemm_pack.cl ARCH cpu
              DEFINES WIDTH=${width} SRC=${type} DST=${type}
              PARAMETERS ${width} ${storage_${type}} ${storage_${type}})
    endif()
  endforeach()
endforeach()

# Adds the parts of a GEMM whose K was split. Parameter: type of the parts.
variant(NAME gemm_reduce_f32_x4 OP GEMM_REDUCE SOURCE gemm_reduce.cl PARAMETERS ${storage_f32})
variant(NAME gemm_reduce_s32_x4 OP GEMM_REDUCE SOURCE gemm_int_reduce.cl EXACT
        PARAMETERS ${storage_s32})
variant(NAME gemm_reduce_s32_x4 OP GEMM_REDUCE SOURCE gemm_int_reduce.cl PARAMETERS ${storage_s32})
