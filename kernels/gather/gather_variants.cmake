# Variants of gather. Parameters: bytes of an element, for quantized tables the type of the
# elements; elements of a vector.

# Adds a variant for each number of bits; copy_variants.cmake has the types by which they are moved.
function(gather)
  cmake_parse_arguments(V "" "WIDTH;ARCH" "BITS" ${ARGN})
  foreach(bits IN LISTS V_BITS)
    list(GET moves_b${bits} 0 type)
    list(GET moves_b${bits} 1 bytes)
    variant(NAME gather_b${bits}_x${V_WIDTH} OP GATHER SOURCE gather.cl ARCH ${V_ARCH}
            DEFINES T=${type} N=${V_WIDTH}
            PARAMETERS ${bytes} ${V_WIDTH})
  endforeach()
endfunction()

gather(BITS 8 16 32 64 WIDTH 16 ARCH cpu)
gather(BITS 8 WIDTH 16 ARCH cuda)
gather(BITS 16 WIDTH 8 ARCH cuda)
gather(BITS 32 64 WIDTH 4 ARCH cuda)
gather(BITS 8 16 32 64 WIDTH 1 ARCH any)

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
