# Variants of the rotary embedding. Parameters: type of the elements; pairs of a vector. Variants of
# one pair take any strides and any number of pairs.

foreach(form IN ITEMS 8:cpu 1:any)
  string(REPLACE ":" ";" form "${form}")
  list(POP_FRONT form width arch)
  foreach(type IN ITEMS f32 f16 bf16)
    variant(NAME rope_${type}_x${width} OP ROPE SOURCE rope.cl ARCH ${arch}
            DEFINES DT=${type} N=${width}
            PARAMETERS ${storage_${type}} ${width})
  endforeach()
endforeach()
