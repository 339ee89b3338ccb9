# Elementwise operations and conversions over rows of elements (strided_rows.h). Parameters: type of
# the elements (of the source, for a conversion); elements of a vector. A vector has 16 elements on
# CPU cores, 16 bytes on CUDA devices, and four elements elsewhere. Variants of one element are the
# reference, and the only ones for rows with gaps.

# Adds a variant for each type.
#   EXACT  relies on the driver's division and square root, if the type is f32; the other variants
#          correct the results of these
function(elementwise)
  cmake_parse_arguments(V "EXACT;DIVIDES" "OP;WIDTH;ARCH" "TYPES" ${ARGN})
  string(TOLOWER "${V_OP}" name)
  foreach(type IN LISTS V_TYPES)
    set(defines DT=${type})
    if(type MATCHES "^[su]")
      list(APPEND defines TDM_INTEGER)
    endif()
    list(APPEND defines N=${V_WIDTH})
    set(exact "")
    if(V_EXACT)
      set(exact EXACT)
    elseif(V_DIVIDES AND type MATCHES "^b?f16$")
      list(APPEND defines TDM_BUILT_IN_DIVIDE) # the result is rounded to 16 bits
    endif()
    variant(NAME ${name}_${type}_x${V_WIDTH} OP ${V_OP} SOURCE ${name}.cl ARCH ${V_ARCH} ${exact}
            DEFINES ${defines}
            PARAMETERS ${storage_${type}} ${V_WIDTH})
  endforeach()
endfunction()

elementwise(OP UNARY TYPES f32 WIDTH 16 ARCH cpu EXACT)
elementwise(OP UNARY TYPES f32 f16 bf16 WIDTH 16 ARCH cpu DIVIDES)
elementwise(OP UNARY TYPES f16 bf16 WIDTH 8 ARCH cuda DIVIDES)
foreach(width IN ITEMS 4 1)
  elementwise(OP UNARY TYPES f32 WIDTH ${width} ARCH any EXACT)
  elementwise(OP UNARY TYPES f32 f16 bf16 WIDTH ${width} ARCH any DIVIDES)
endforeach()

elementwise(OP BINARY TYPES f32 WIDTH 16 ARCH cpu EXACT)
elementwise(OP BINARY TYPES f32 f16 bf16 s32 s8 u8 WIDTH 16 ARCH cpu DIVIDES)
elementwise(OP BINARY TYPES f16 bf16 WIDTH 8 ARCH cuda DIVIDES)
elementwise(OP BINARY TYPES s8 u8 WIDTH 16 ARCH cuda)
foreach(width IN ITEMS 4 1)
  elementwise(OP BINARY TYPES f32 WIDTH ${width} ARCH any EXACT)
  elementwise(OP BINARY TYPES f32 f16 bf16 s32 s8 u8 WIDTH ${width} ARCH any DIVIDES)
endforeach()

elementwise(OP CONVERT TYPES f32 f16 bf16 s32 s8 u8 s4 WIDTH 16 ARCH cpu)
elementwise(OP CONVERT TYPES f16 bf16 WIDTH 8 ARCH cuda)
elementwise(OP CONVERT TYPES s8 u8 s4 WIDTH 16 ARCH cuda)
elementwise(OP CONVERT TYPES f32 f16 bf16 s32 s8 u8 s4 WIDTH 4 ARCH any)
elementwise(OP CONVERT TYPES f32 f16 bf16 s32 s8 u8 s4 WIDTH 1 ARCH any)

# Operations with s64, or whose output has another type. They have a reference only, which the
# compilers for CPU cores vectorize.
foreach(type IN ITEMS f32 f16 bf16 s32 s8 u8 s64)
  set(defines DT=${type})
  if(type MATCHES "^[su]")
    list(APPEND defines TDM_INTEGER)
  endif()
  set(from "")
  if(type STREQUAL "s64")
    set(from FROM_S64)
  endif()
  variant(NAME convert_s64_${type} OP CONVERT_S64 SOURCE convert_s64.cl
          DEFINES ${defines} ${from}
          PARAMETERS ${storage_${type}} 1)
  variant(NAME compare_${type} OP COMPARE SOURCE compare.cl
          DEFINES ${defines}
          PARAMETERS ${storage_${type}} 1)
endforeach()
