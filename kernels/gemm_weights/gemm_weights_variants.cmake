# GEMM of floats by quantized weights, s8 or s4 with scales. Families and parameters are those of
# gemm_variants.cmake. The type -1 of A means that its rows are quantized in the call.

set(storage_quantized_a -1)

# Sets `is_s4` and `bits` of weights of type `b`.
macro(set_weight_bits)
  set(is_s4 0)
  set(bits 8)
  if(b STREQUAL "s4")
    set(is_s4 1)
    set(bits 4)
  endif()
endmacro()

# Small-M GEMM on CPU cores: weights are read in place. Work is divided by eight columns (NR).
#   SOURCE  kernel source
#   WITH    further defines
#   KIND    part of the name
#   STEP    steps of K that are read at once; groups are multiples or parts of it; 0: any group
#   A       type of A: any, or quantized_a
#   X86     has instructions of x86 beside those of ARCH
function(gemm_weights_lines)
  cmake_parse_arguments(V "X86" "TYPE;SOURCE;KIND;ARCH;STEP;A" "WITH" ${ARGN})
  set(x86 "")
  if(V_X86)
    set(x86 X86)
  endif()
  variant(NAME gemm_${V_TYPE}_${V_KIND}_8 OP GEMM_WEIGHTS SOURCE ${V_SOURCE} ARCH ${V_ARCH} ${x86}
          NEEDS CORRECT_DIVIDE
          DEFINES NR=8 ${V_WITH} TDM_BUILT_IN_DIVIDE
          PARAMETERS ${family_small_m} 4 8 ${storage_${V_A}} ${storage_${V_TYPE}} 1 0 ${V_STEP})
endfunction()

# The panel family with 8-bit A and B in local memory. Each row of A has a scale, and each group of
# at least 32 steps of B.
function(gemm_weights_panel)
  cmake_parse_arguments(V "" "MR;NR;KC" "TYPES" ${ARGN})
  # Local memory holds rows of A with 64 bytes after each, and their initial sums and scales. It
  # also holds a panel of B with 8 bytes for each group, and the sums of a tile.
  math(EXPR groups "${V_KC} / 32")
  math(EXPR a_bytes "${V_MR} * (${V_KC} + 64 + (${groups} + 1) * 4)")
  math(EXPR b_bytes "${V_NR} * (${V_KC} + ${groups} * 8)")
  math(EXPR local "${a_bytes} + ${b_bytes} + ${V_MR} * ${V_NR} * 4")
  foreach(b IN LISTS V_TYPES)
    set_weight_bits()
    variant(NAME gemm_${b}_panel_${V_MR}x${V_NR} OP GEMM_WEIGHTS SOURCE gemm_weights_panel_vnni.cl
                ARCH vnni
            NEEDS CORRECT_DIVIDE
            DEFINES MR=${V_MR} NR=${V_NR} KC=${V_KC} IS_S4=${is_s4} TDM_BUILT_IN_DIVIDE
            PARAMETERS ${family_panel} ${V_MR} ${V_NR} ${storage_quantized_a} ${storage_${b}} 1
                ${local} ${V_KC})
  endforeach()
endfunction()

# At most 16 rows, on tensor cores: eight warps share a tile of TN columns and 8192 / TN steps of K.
# Local memory holds STAGES tiles.
function(gemm_weights_decode)
  cmake_parse_arguments(V "" "TYPES;TN;STAGES" "" ${ARGN})
  split_types(${V_TYPES})
  set_weight_bits()
  math(EXPR local "${V_STAGES} * (8192 / ${V_TN} * (32 + ${V_TN} * ${bits} / 8) + 2048)")
  variant(NAME gemm_${tag}_decode_16x${V_TN} OP GEMM_WEIGHTS SOURCE gemm_weights_decode.cu ARCH
              tensor
          NEEDS ASYNC_COPY
          DEFINES MMA=${a} IS_S4=${is_s4} TN=${V_TN} STAGES=${V_STAGES}
          PARAMETERS ${family_tensor} 16 ${V_TN} ${storage_${a}} ${storage_${b}} 256 ${local} 2)
endfunction()

# More rows, on tensor cores: like gemm_mma, with 64 steps of K per stage, and 16 bytes of scales
# and zero points per column.
function(gemm_weights_mma)
  cmake_parse_arguments(V "" "TYPES;TM;TN;WM;WN;STAGES;GROUPS" "" ${ARGN})
  split_types(${V_TYPES})
  set_weight_bits()
  math(EXPR items "32 * (${V_TM} / ${V_WM}) * (${V_TN} / ${V_WN})")
  math(EXPR local "${V_STAGES} * (${V_TM} * 64 * 2 + ${V_TN} * 64 * ${bits} / 8 + ${V_TN} * 16)")
  variant(NAME gemm_${tag}_mma_${V_TM}x${V_TN} OP GEMM_WEIGHTS SOURCE gemm_weights_mma.cu ARCH
              tensor
          NEEDS ASYNC_COPY
          DEFINES MMA=${a} IS_S4=${is_s4} TM=${V_TM} TN=${V_TN} WM=${V_WM} WN=${V_WN}
              STAGES=${V_STAGES} GROUPS=${V_GROUPS}
          PARAMETERS ${family_tensor} ${V_TM} ${V_TN} ${storage_${a}} ${storage_${b}} ${items}
              ${local} ${V_GROUPS})
endfunction()

set(vnni SOURCE gemm_weights_lines_vnni.cl KIND lines ARCH vnni A quantized_a)
gemm_weights_lines(TYPE s8 ${vnni} WITH IS_S4=0 STEP 64)
gemm_weights_lines(TYPE s4 ${vnni} WITH IS_S4=1 STEP 128)
set(lines SOURCE gemm_weights_lines.cl KIND lines A any STEP 0)
gemm_weights_lines(TYPE s8 ${lines} ARCH avx512 WITH VW=16 IS_S4=0 LOOKUP=0)
gemm_weights_lines(TYPE s4 SOURCE gemm_weights_lines_lanes.cl KIND lanes A any STEP 128 ARCH avx512
                       X86)
gemm_weights_lines(TYPE s4 ${lines} ARCH avx512 X86 WITH VW=16 IS_S4=1 LOOKUP=1)
gemm_weights_lines(TYPE s8 ${lines} ARCH cpu WITH VW=8 IS_S4=0 LOOKUP=0)
gemm_weights_lines(TYPE s4 ${lines} ARCH cpu WITH VW=8 IS_S4=1 LOOKUP=0)
gemm_weights_panel(TYPES s8 s4 MR 6 NR 32 KC 1024)
gemm_panel(OP GEMM_WEIGHTS TYPES s8 s4 MR 6 NR 64 VW 16 KC 512 ARCH avx512)
gemm_panel(OP GEMM_WEIGHTS TYPES s8 s4 MR 6 NR 16 VW 8 KC 512 ARCH avx2)
gemm_panel(OP GEMM_WEIGHTS TYPES s8 s4 MR 8 NR 8 VW 4 KC 256 ARCH cpu)
foreach(a IN ITEMS f16 bf16)
  gemm_weights_decode(TYPES ${a}/s8 TN 32 STAGES 5)
  gemm_weights_decode(TYPES ${a}/s8 TN 64 STAGES 5)
  gemm_weights_decode(TYPES ${a}/s4 TN 32 STAGES 7)
  gemm_weights_decode(TYPES ${a}/s4 TN 64 STAGES 8)
endforeach()
foreach(types IN ITEMS f16/s8 f16/s4 bf16/s8 bf16/s4)
  gemm_weights_mma(TYPES ${types} TM 128 TN 128 WM 64 WN 32 STAGES 3 GROUPS 1)
  gemm_weights_mma(TYPES ${types} TM 64 TN 64 WM 32 WN 32 STAGES 4 GROUPS 3)
endforeach()
foreach(b IN ITEMS s8 s4)
  set_weight_bits()
  foreach(a IN ITEMS f32 f16 bf16)
    variant(NAME gemm_${a}${b}_group_8 OP GEMM_WEIGHTS SOURCE gemm_weights_group.cl
            DEFINES AT=${a} IS_S4=${is_s4} TDM_BUILT_IN_DIVIDE
            PARAMETERS ${family_small_m} 4 8 ${storage_${a}} ${storage_${b}} 128 4096 128)
  endforeach()
endforeach()
foreach(types IN ITEMS f32/s8 f32/s4 f16/s8 f16/s4 bf16/s8 bf16/s4)
  gemm_tiled(OP GEMM_WEIGHTS TYPES ${types} ${large} TK 8 BUFFERS 2)
  gemm_tiled(OP GEMM_WEIGHTS TYPES ${types} ${medium} VW 4 BUFFERS 2)
  gemm_tiled(OP GEMM_WEIGHTS TYPES ${types} ${small} PAD 4 BUFFERS 2)
endforeach()
set(reference NAME gemm_weights_any_reference OP GEMM_WEIGHTS SOURCE gemm_weights_reference.cl
    PARAMETERS ${family_reference} 1 1 0 0 1)
variant(${reference} EXACT)
variant(${reference})

# Preparation for GEMM kernels without support for quantization: weights are dequantized to f32, and
# rows of A are quantized. These variants have no parameters.
variant(NAME gemm_weights_unpack_f32 OP GEMM_WEIGHTS_UNPACK SOURCE gemm_weights_unpack.cl
        DEFINES TDM_BUILT_IN_DIVIDE)
variant(NAME gemm_quantize_rows_wide OP GEMM_QUANTIZE_ROWS SOURCE gemm_quantize_rows_wide.cl ARCH
            cpu
        NEEDS CORRECT_DIVIDE
        DEFINES TDM_BUILT_IN_DIVIDE)
variant(NAME gemm_quantize_rows_any OP GEMM_QUANTIZE_ROWS SOURCE gemm_quantize_rows.cl EXACT)
variant(NAME gemm_quantize_rows_any OP GEMM_QUANTIZE_ROWS SOURCE gemm_quantize_rows.cl)
