# GEMM of u8 or s8 by s8 with exact sums. Families and parameters are those of gemm_variants.cmake;
# A may have any of its types. The fourth parameter of a panel variant is the size in bytes of an
# element of A in local memory.

# The panel family (gemm_panel in gemm_variants.cmake) of integers.
#   SOURCE   kernel source
#   EXPANDS  bytes of an element of A and B in local memory: 1 if bytes are multiplied, 2 for
#            16-bit pairs, 4 for s32
#   WITH     further defines
#   X86      has instructions of x86 beside those of ARCH
function(gemm_int_panel)
  cmake_parse_arguments(V "X86" "SOURCE;MR;NR;KC;EXPANDS;ARCH" "WITH" ${ARGN})
  # Local memory holds a micro-panel of A with 64 bytes after each row, one of B, and the sums of a
  # tile, of its rows and of its columns.
  math(EXPR row "${V_KC} * ${V_EXPANDS}")
  math(EXPR sums "${V_MR} * ${V_NR} + ${V_MR} + ${V_NR}")
  math(EXPR local "${V_MR} * (${row} + 64) + ${V_NR} * ${row} + 4 * (${sums})")
  set(x86 "")
  if(V_X86)
    set(x86 X86)
  endif()
  variant(NAME gemm_int_panel_${V_MR}x${V_NR} OP GEMM_INT SOURCE ${V_SOURCE} ARCH ${V_ARCH} ${x86}
          DEFINES MR=${V_MR} NR=${V_NR} KC=${V_KC} ${V_WITH}
          PARAMETERS ${family_panel} ${V_MR} ${V_NR} ${V_EXPANDS} ${storage_s8} 1 ${local} ${V_KC})
endfunction()

# This is gemm_wgmma for integers. Instead of the boxes of D, local memory has two buffers for the
# sums of columns, and one for those of rows.
function(gemm_int_wgmma)
  cmake_parse_arguments(V "" "TN;STAGES;CLUSTER" "" ${ARGN})
  math(EXPR rows "128 * ${V_CLUSTER}")
  math(EXPR tiles "1024 - 16 + ${V_STAGES} * (128 + ${V_TN}) * 128")
  math(EXPR local
       "${tiles} + 8 * 16 * 32 * 4 + 2 * ${V_STAGES} * 8 + (2 * ${V_TN} + 128) * 4")
  variant(NAME gemm_int_wgmma_${rows}x${V_TN} OP GEMM_INT SOURCE gemm_int_wgmma.cu ARCH sm90a
          DEFINES TN=${V_TN} STAGES=${V_STAGES} CLUSTER=${V_CLUSTER}
          PARAMETERS ${family_wgmma} ${rows} ${V_TN} 0 ${storage_s8} 384 ${local} ${V_CLUSTER})
endfunction()

# This is gemm_mma for integers. Local memory has 16 more bytes per column of B, for sums of columns
# and rows.
function(gemm_int_mma)
  cmake_parse_arguments(V "" "TM;TN;WM;WN;STAGES;GROUPS" "" ${ARGN})
  size_mma()
  math(EXPR local "${local} + 16 * ${V_TN}")
  variant(NAME gemm_int_mma_${V_TM}x${V_TN} OP GEMM_INT SOURCE gemm_int_mma.cu ARCH tensor
          DEFINES TM=${V_TM} TN=${V_TN} WM=${V_WM} WN=${V_WN} STAGES=${V_STAGES} GROUPS=${V_GROUPS}
          PARAMETERS ${family_tensor} ${V_TM} ${V_TN} 0 ${storage_s8} ${items} ${local} ${V_GROUPS})
endfunction()

# This is gemm_tiled for integers: TQ groups of four steps of K at a time, multiplied by the dot
# products of ARCH.
function(gemm_int_tiled)
  cmake_parse_arguments(V "" "TM;TN;TQ;RM;RN;PAD;ARCH" "" ${ARGN})
  math(EXPR x "${V_TN} / ${V_RN}")
  math(EXPR items "${x} * (${V_TM} / ${V_RM})")
  math(EXPR local "2 * ${V_TQ} * (${V_TM} + ${V_TN} + 2 * ${V_PAD}) * 4")
  variant(NAME gemm_int_tiled_${V_TM}x${V_TN} OP GEMM_INT SOURCE gemm_int_tiled.cl ARCH ${V_ARCH}
          DEFINES TM=${V_TM} TN=${V_TN} TQ=${V_TQ} RM=${V_RM} RN=${V_RN} PAD=${V_PAD}
              ${dot_define_${V_ARCH}}
          PARAMETERS ${family_tiled} ${V_TM} ${V_TN} 0 ${storage_s8} ${items} ${local} ${x})
endfunction()

# Small-M GEMM on GPUs: a work-item multiplies TM rows of the small operand by four columns of the
# large one.
function(gemm_int_small_m_group)
  cmake_parse_arguments(V "" "TM;ARCH" "" ${ARGN})
  # Local memory holds, for each of eight parts of K, the sums of TM x 32 products, of 32 columns
  # and of TM rows. A part has an odd number of words.
  math(EXPR local "8 * ((${V_TM} * 32 + 32 + ${V_TM}) | 1) * 4")
  variant(NAME gemm_int_small_m_group_${V_TM} OP GEMM_INT SOURCE gemm_int_small_m_group.cl ARCH
              ${V_ARCH}
          DEFINES TM=${V_TM} ${dot_define_${V_ARCH}}
          PARAMETERS ${family_small_m} ${V_TM} 4 0 ${storage_s8} 64 ${local} 64)
endfunction()

gemm_int_panel(SOURCE gemm_int_panel_amx.cl MR 32 NR 32 KC 2048 EXPANDS 1 ARCH amx
               WITH TDM_BUILT_IN_DIVIDE)
set(x86 SOURCE gemm_int_panel_x86.cl)
set(vnni LANES=16 VNNI TDM_BUILT_IN_DIVIDE)
gemm_int_panel(${x86} MR 6 NR 64 KC 2048 EXPANDS 1 ARCH vnni WITH ${vnni})
gemm_int_panel(${x86} MR 12 NR 32 KC 2048 EXPANDS 1 ARCH vnni WITH ${vnni})
gemm_int_panel(${x86} MR 6 NR 32 KC 1024 EXPANDS 2 ARCH avx512 X86
               WITH LANES=16 PAIRS TDM_BUILT_IN_DIVIDE)
gemm_int_panel(${x86} MR 6 NR 8 KC 1024 EXPANDS 2 ARCH avx2 X86
               WITH LANES=8 PAIRS TDM_BUILT_IN_DIVIDE)
gemm_int_panel(SOURCE gemm_int_panel.cl MR 8 NR 8 KC 256 EXPANDS 4 ARCH cpu WITH VW=4)
# Small-M GEMM on CUDA devices: local memory holds, for each of four warps, the sums of 8 x 4
# products, of four columns and of eight rows.
variant(NAME gemm_int_small_m_8x4 OP GEMM_INT SOURCE gemm_int_small_m.cu ARCH dp4a
        DEFINES TM=8 TN=4
        PARAMETERS ${family_small_m} 8 4 0 ${storage_s8} 128 704 1)
gemm_int_wgmma(TN 256 STAGES 4 CLUSTER 2)
gemm_int_wgmma(TN 256 STAGES 4 CLUSTER 1)
gemm_int_wgmma(TN 128 STAGES 6 CLUSTER 1)
gemm_int_mma(TM 128 TN 256 WM 64 WN 64 STAGES 4 GROUPS 1)
gemm_int_mma(TM 128 TN 128 WM 64 WN 64 STAGES 4 GROUPS 2)
gemm_int_mma(TM 64 TN 64 WM 32 WN 32 STAGES 4 GROUPS 4)
foreach(arch IN ITEMS khr_dot arm_dot qcom_dot any)
  gemm_int_tiled(TM 128 TN 128 TQ 8 RM 8 RN 8 PAD 4 ARCH ${arch})
  gemm_int_tiled(TM 64 TN 64 TQ 16 RM 4 RN 4 PAD 4 ARCH ${arch})
  gemm_int_tiled(TM 32 TN 32 TQ 16 RM 4 RN 4 PAD 4 ARCH ${arch})
endforeach()
foreach(arch IN ITEMS khr_dot arm_dot qcom_dot any)
  gemm_int_small_m_group(TM 1 ARCH ${arch})
  gemm_int_small_m_group(TM 4 ARCH ${arch})
  gemm_int_small_m_group(TM 8 ARCH ${arch})
endforeach()
set(reference NAME gemm_int_any_reference OP GEMM_INT SOURCE gemm_int_reference.cl
    PARAMETERS ${family_reference} 1 1 0 ${storage_s8} 1)
variant(${reference} EXACT)
variant(${reference})

# Packs B, with the sums of its columns. The parameters are those of gemm_pack.
foreach(width IN ITEMS 8 32 64)
  variant(NAME gemm_int_pack_w${width} OP GEMM_INT_PACK SOURCE gemm_int_pack.cl ARCH cpu
          DEFINES NR=${width}
          PARAMETERS ${width} ${storage_s8} ${storage_s8})
endforeach()
