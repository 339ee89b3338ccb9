# Variants of copy and fill, which move the bits of elements in rows. Parameters: bytes of an
# element (0 for s4, of which two share a byte); elements of a vector.

# For each number of bits: the type by which such elements are moved, and the bytes of an element.
set(moves_b4 tdm_u8 0)
set(moves_b8 tdm_u8 1)
set(moves_b16 tdm_bf16 2)
set(moves_b32 tdm_s32 4)
set(moves_b64 long 8)

function(move)
  cmake_parse_arguments(V "" "OP;WIDTH;ARCH" "BITS" ${ARGN})
  string(TOLOWER "${V_OP}" name)
  foreach(bits IN LISTS V_BITS)
    list(GET moves_b${bits} 0 type)
    list(GET moves_b${bits} 1 bytes)
    set(is_s4 "")
    if(bits EQUAL 4)
      set(is_s4 IS_S4)
    endif()
    variant(NAME ${name}_b${bits}_x${V_WIDTH} OP ${V_OP} SOURCE ${name}.cl ARCH ${V_ARCH}
            DEFINES T=${type} N=${V_WIDTH} ${is_s4}
            PARAMETERS ${bytes} ${V_WIDTH})
  endforeach()
endfunction()

move(OP COPY BITS 8 16 32 64 WIDTH 16 ARCH cpu)
move(OP COPY BITS 8 WIDTH 16 ARCH cuda)
move(OP COPY BITS 16 WIDTH 8 ARCH cuda)
move(OP COPY BITS 32 64 WIDTH 4 ARCH cuda)
move(OP COPY BITS 8 16 32 64 WIDTH 1 ARCH any)
move(OP FILL BITS 32 WIDTH 16 ARCH cpu)
move(OP FILL BITS 4 8 16 32 64 WIDTH 1 ARCH any)

# tdm_where moves the bits of elements too.
foreach(bits IN ITEMS 8 16 32 64)
  list(GET moves_b${bits} 0 type)
  list(GET moves_b${bits} 1 bytes)
  variant(NAME where_b${bits} OP WHERE SOURCE where.cl
          DEFINES T=${type}
          PARAMETERS ${bytes} 1)
endforeach()
