# Quantization. Parameters: type of the source, or 0 if there is none; elements of a vector; form.
# Dynamic quantization and ranges have forms. In form 1 there is one work-item for each group of
# elements, in form 2 one for neighbouring groups. In form 3 there is one work-group for each group,
# or for a part of a range.

# Variants of quantize, dequantize, requantize and fake_quantize. They traverse rows of elements
# (strided_rows.h); scales and zero points are operands. A vector of the variants for CUDA has 16
# bytes on the narrower side, or eight elements.
function(quantization)
  cmake_parse_arguments(V "EXACT;DIVIDES" "OP;WIDTH;ARCH" "TYPES" ${ARGN})
  string(TOLOWER "${V_OP}" name)
  set(exact "")
  if(V_EXACT)
    set(exact EXACT)
  endif()
  set(divides "")
  if(V_DIVIDES)
    set(divides TDM_BUILT_IN_DIVIDE)
  endif()
  foreach(type IN LISTS V_TYPES)
    variant(NAME ${name}_${type}_x${V_WIDTH} OP ${V_OP} SOURCE ${name}.cl ARCH ${V_ARCH} ${exact}
            DEFINES DT=${type} N=${V_WIDTH} ${divides}
            PARAMETERS ${storage_${type}} ${V_WIDTH})
  endforeach()
endfunction()

set(floats f32 f16 bf16)
set(integers s8 u8 s4 s32)
quantization(OP QUANTIZE TYPES ${floats} WIDTH 16 ARCH cpu EXACT)
quantization(OP QUANTIZE TYPES ${floats} WIDTH 16 ARCH cpu)
quantization(OP QUANTIZE TYPES ${floats} WIDTH 16 ARCH cuda DIVIDES)
quantization(OP QUANTIZE TYPES ${floats} WIDTH 4 ARCH any)
quantization(OP QUANTIZE TYPES ${floats} WIDTH 1 ARCH any)

quantization(OP DEQUANTIZE TYPES ${integers} WIDTH 16 ARCH cpu)
quantization(OP DEQUANTIZE TYPES ${integers} WIDTH 16 ARCH cuda)
quantization(OP DEQUANTIZE TYPES ${integers} WIDTH 4 ARCH any)
quantization(OP DEQUANTIZE TYPES ${integers} WIDTH 1 ARCH any)

quantization(OP REQUANTIZE TYPES ${integers} WIDTH 16 ARCH cpu EXACT)
quantization(OP REQUANTIZE TYPES ${integers} WIDTH 16 ARCH cpu)
quantization(OP REQUANTIZE TYPES ${integers} WIDTH 16 ARCH cuda DIVIDES)
quantization(OP REQUANTIZE TYPES ${integers} WIDTH 4 ARCH any)
quantization(OP REQUANTIZE TYPES ${integers} WIDTH 1 ARCH any)

quantization(OP FAKE_QUANTIZE TYPES ${floats} WIDTH 16 ARCH cpu EXACT)
quantization(OP FAKE_QUANTIZE TYPES ${floats} WIDTH 16 ARCH cpu)
quantization(OP FAKE_QUANTIZE TYPES f16 bf16 WIDTH 8 ARCH cuda DIVIDES)
quantization(OP FAKE_QUANTIZE TYPES ${floats} WIDTH 4 ARCH any)
quantization(OP FAKE_QUANTIZE TYPES ${floats} WIDTH 1 ARCH any)

# quantize_dynamic derives the parameters of each group of elements and quantizes it. quantize_range
# finds the ranges of parts of a tensor, and quantize_range_columns those of parts of its columns.
# Their joins derive the parameters from these ranges.
#   OP      quantize_dynamic or quantize_range, in capitals
#   SOURCE  kernel source
#   KIND    part of the name after the type
#   WITH    further defines
function(dynamic)
  cmake_parse_arguments(V "EXACT" "OP;SOURCE;KIND;WIDTH;FORM;ARCH;TARGET" "TYPES;NEEDS;WITH"
                            ${ARGN})
  string(TOLOWER "${V_OP}" name)
  set(exact "")
  if(V_EXACT)
    set(exact EXACT)
  endif()
  foreach(type IN LISTS V_TYPES)
    variant(NAME ${name}_${type}_${V_KIND} OP ${V_OP} SOURCE ${V_SOURCE} ARCH ${V_ARCH}
            TARGET "${V_TARGET}" NEEDS ${V_NEEDS} ${exact}
            DEFINES DT=${type} N=${V_WIDTH} ${V_WITH}
            PARAMETERS ${storage_${type}} ${V_WIDTH} ${V_FORM})
  endforeach()
endfunction()

set(cuda ARCH cuda TARGET cuda)
set(divides TDM_BUILT_IN_DIVIDE)
set(columns OP QUANTIZE_DYNAMIC TYPES ${floats} KIND columns_x16 WIDTH 16 FORM 2)
set(rows OP QUANTIZE_DYNAMIC TYPES ${floats} SOURCE quantize_dynamic.cl FORM 1)
set(group OP QUANTIZE_DYNAMIC TYPES ${floats} SOURCE quantize_dynamic_group.cl FORM 3)
dynamic(${columns} SOURCE quantize_dynamic_columns.cl ARCH cpu EXACT)
dynamic(${rows} KIND rows_x16 WIDTH 16 ARCH cpu EXACT)
dynamic(${columns} SOURCE quantize_dynamic_columns.cl ARCH cpu)
dynamic(${rows} KIND rows_x16 WIDTH 16 ARCH cpu)
dynamic(${group} KIND group_x16 WIDTH 16 ${cuda} WITH ${divides})
dynamic(${rows} KIND rows_x16 WIDTH 16 ${cuda} WITH ${divides})
dynamic(${group} KIND group WIDTH 1 ARCH any)
dynamic(${columns} SOURCE quantize_dynamic.cl ${cuda} WITH TDM_COLUMNS ${divides})
dynamic(OP QUANTIZE_DYNAMIC TYPES ${floats} SOURCE quantize_dynamic.cl KIND columns_x4 WIDTH 4 FORM
            2 ARCH any
        WITH TDM_COLUMNS)
dynamic(${rows} KIND rows_x1 WIDTH 1 ARCH any)

set(range OP QUANTIZE_RANGE SOURCE quantize_range.cl FORM 0)
set(group OP QUANTIZE_RANGE SOURCE quantize_range_group.cl FORM 3 ${cuda})
dynamic(${range} TYPES ${floats} KIND x16 WIDTH 16 ARCH cpu)
dynamic(${group} TYPES f32 KIND group_x4 WIDTH 4)
dynamic(${group} TYPES f16 bf16 KIND group_x8 WIDTH 8)
dynamic(${group} TYPES ${floats} KIND group WIDTH 1)
dynamic(${range} TYPES ${floats} KIND x4 WIDTH 4 ARCH any)
dynamic(${range} TYPES ${floats} KIND x1 WIDTH 1 ARCH any)
variant(NAME quantize_join_group OP QUANTIZE_JOIN SOURCE quantize_range_group.cl ${cuda}
        DEFINES TDM_JOIN N=1 TDM_BUILT_IN_DIVIDE
        PARAMETERS 0 1 3)
variant(NAME quantize_join OP QUANTIZE_JOIN SOURCE quantize_range.cl
        DEFINES TDM_JOIN N=1
        PARAMETERS 0 1)
dynamic(OP QUANTIZE_RANGE_COLUMNS SOURCE quantize_range_columns.cl TYPES ${floats} KIND x16 WIDTH
            16 FORM 0 ARCH cpu
        NEEDS UNLIMITED_LOOPS)
variant(NAME quantize_join_columns_x16 OP QUANTIZE_JOIN_COLUMNS SOURCE quantize_range_columns.cl
            ARCH cpu
        NEEDS UNLIMITED_LOOPS
        DEFINES TDM_JOIN N=16
        PARAMETERS 0 16)
