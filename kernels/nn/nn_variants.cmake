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

# Variants of attention. Parameters: form; rows of a tile (decode: most rows of a KV head); most
# columns of a row, 0: any; reference kernel: none of them. Lanes: rows of the smaller tiles.
set(form_lanes 1)
set(form_decode 2)
set(form_group 3)
set(form_reference 4)

#   VW  floats of a vector
#   QV  vectors
#   KT  rows of a tile of scores or results
function(attention_lanes)
  cmake_parse_arguments(V "" "VW;QV;KT;ARCH" "" ${ARGN})
  math(EXPR lanes "${V_VW} * ${V_QV}")
  variant(NAME attention_lanes_${lanes} OP ATTENTION SOURCE attention_lanes.cl ARCH ${V_ARCH}
          DEFINES VW=${V_VW} QV=${V_QV} KT=${V_KT}
          PARAMETERS ${form_lanes} ${lanes} 256 ${V_KT})
endfunction()

#   D   most columns of a row
#   RQ  rows of a work-item
#   KQ  keys of a work-item
function(attention_group)
  cmake_parse_arguments(V "" "D;RQ;KQ" "" ${ARGN})
  math(EXPR rows "8 * ${V_RQ}")
  variant(NAME attention_group_${rows}_${V_D} OP ATTENTION SOURCE attention_group.cl
          DEFINES D=${V_D} RQ=${V_RQ} KQ=${V_KQ}
          PARAMETERS ${form_group} ${rows} ${V_D})
endfunction()

foreach(form IN ITEMS 16:avx512 8:avx2 4:cpu)
  string(REPLACE ":" ";" form "${form}")
  list(POP_FRONT form width arch)
  variant(NAME attention_decode_x${width} OP ATTENTION SOURCE attention_decode.cl ARCH ${arch}
          DEFINES VW=${width} TDM_DECODE_ROWS=8
          PARAMETERS ${form_decode} 8 256)
endforeach()
attention_lanes(VW 16 QV 4 KT 4 ARCH avx512)
attention_lanes(VW 8 QV 4 KT 2 ARCH avx2)
attention_lanes(VW 4 QV 2 KT 4 ARCH cpu)
attention_group(D 128 RQ 1 KQ 4)
attention_group(D 256 RQ 1 KQ 2)
attention_group(D 64 RQ 4 KQ 4)
attention_group(D 128 RQ 4 KQ 2)
attention_group(D 256 RQ 2 KQ 1)
variant(NAME attention_reference OP ATTENTION SOURCE attention_reference.cl
        PARAMETERS ${form_reference})
variant(NAME attention_join OP ATTENTION_JOIN SOURCE attention_join.cl)
