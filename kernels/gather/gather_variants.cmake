# Variants of gather and scatter. Parameters: bytes of an element, for quantized tables the type of
# the elements; elements of a vector.

# Adds a variant for each number of bits; copy_variants.cmake has the types by which they are moved.
function(gather)
  cmake_parse_arguments(V "" "OP;WIDTH;ARCH" "BITS" ${ARGN})
  string(TOLOWER "${V_OP}" name)
  set(is_scatter "")
  if(V_OP STREQUAL "SCATTER")
    set(is_scatter SCATTER)
  endif()
  foreach(bits IN LISTS V_BITS)
    list(GET moves_b${bits} 0 type)
    list(GET moves_b${bits} 1 bytes)
    variant(NAME ${name}_b${bits}_x${V_WIDTH} OP ${V_OP} SOURCE gather.cl ARCH ${V_ARCH}
            DEFINES T=${type} N=${V_WIDTH} ${is_scatter}
            PARAMETERS ${bytes} ${V_WIDTH})
  endforeach()
endfunction()

foreach(op IN ITEMS GATHER SCATTER)
  gather(OP ${op} BITS 8 16 32 64 WIDTH 16 ARCH cpu)
  gather(OP ${op} BITS 8 WIDTH 16 ARCH cuda)
  gather(OP ${op} BITS 16 WIDTH 8 ARCH cuda)
  gather(OP ${op} BITS 32 64 WIDTH 4 ARCH cuda)
  gather(OP ${op} BITS 8 16 32 64 WIDTH 1 ARCH any)
endforeach()

foreach(form IN ITEMS 16:cpu 1:any)
  string(REPLACE ":" ";" form "${form}")
  list(POP_FRONT form width arch)
  foreach(type IN ITEMS s8 u8 s4)
    variant(NAME gather_quantized_${type}_x${width} OP GATHER_QUANTIZED SOURCE gather_quantized.cl
            ARCH ${arch}
            DEFINES DT=${type} N=${width}
            PARAMETERS ${storage_${type}} ${width})
  endforeach()
endforeach()
