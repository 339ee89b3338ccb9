# Kernels that measure the limits of a device. The program has them; the library does not.

# Multiply-adds of values in registers: a work-item has CHAINS vectors of WIDTH words. Parameters:
# words; chains; work-items of a group; 0 (unused); type.
function(probe_fma)
  cmake_parse_arguments(V "" "TYPE;WIDTH;CHAINS;ITEMS;ARCH;TARGET" "NEEDS;WITH" ${ARGN})
  variant(NAME probe_fma_${V_TYPE}_x${V_WIDTH}c${V_CHAINS} OP PROBE_FMA SOURCE probe_fma.cl ARCH
              ${V_ARCH}
          TARGET "${V_TARGET}" NEEDS ${V_NEEDS}
          DEFINES N=${V_WIDTH} CHAINS=${V_CHAINS} ${V_WITH}
          PARAMETERS ${V_WIDTH} ${V_CHAINS} ${V_ITEMS} 0 ${storage_${V_TYPE}})
endfunction()

probe_fma(TYPE f32 WIDTH 16 CHAINS 16 ITEMS 1 ARCH avx512 WITH FLOATS=tdm_fma)
probe_fma(TYPE f32 WIDTH 8 CHAINS 8 ITEMS 1 ARCH avx2 WITH FLOATS=tdm_fma)
probe_fma(TYPE f32 WIDTH 4 CHAINS 8 ITEMS 1 ARCH cpu WITH FLOATS=tdm_mad)
probe_fma(TYPE f32 WIDTH 1 CHAINS 8 ITEMS 64 ARCH any WITH FLOATS=tdm_mad)
probe_fma(TYPE f16 WIDTH 1 CHAINS 8 ITEMS 64 ARCH any NEEDS FP16_ARITHMETIC WITH PAIRS=f16)
probe_fma(TYPE bf16 WIDTH 1 CHAINS 8 ITEMS 64 ARCH any NEEDS CUDA ASYNC_COPY TARGET cuda
          WITH PAIRS=bf16)
probe_fma(TYPE bf16 WIDTH 16 CHAINS 16 ITEMS 1 ARCH avx512bf16 WITH BF16)
variant(NAME probe_fma_s8_x256c4 OP PROBE_FMA SOURCE probe_tiles.cl ARCH amx
        DEFINES CHAINS=4
        PARAMETERS 256 4 1 0 ${storage_s8})
probe_fma(TYPE s8 WIDTH 16 CHAINS 16 ITEMS 1 ARCH vnni WITH VNNI)
foreach(arch IN ITEMS khr_dot arm_dot qcom_dot)
  probe_fma(TYPE s8 WIDTH 1 CHAINS 8 ITEMS 64 ARCH ${arch} WITH BYTES ${dot_define_${arch}})
endforeach()
probe_fma(TYPE s8 WIDTH 1 CHAINS 8 ITEMS 64 ARCH dp4a TARGET spir64 WITH BYTES)
variant(NAME probe_launch_s32 OP PROBE_LAUNCH SOURCE probe_launch.cl PARAMETERS 1 0 1)

# Memory traffic. The plain variant of an operation comes first. Parameters: words of a vector;
# operation; work-items of a group; 1 if a group has one contiguous run, or 2 if its chunks are
# strided by the number of groups; 1 if loads may be prefetched; 1 if stores are non-temporal; 1 if
# a work-item may have eight vectors in a chunk.
set(stream_copy 1)
set(stream_scale 2)
set(stream_add 3)
set(stream_triad 4)
set(stream_read 5)
set(stream_write 6)
set(stream_gather 8)

#   RUNS   a group has one contiguous run, for CPU cores
#   AHEAD  loads may be prefetched
#   PAST   stores are non-temporal
#   EIGHT  a work-item may have eight vectors in a chunk
#   TAG    suffix of the name
function(probe_stream)
  cmake_parse_arguments(V "RUNS;AHEAD;PAST;EIGHT" "OPERATION;WIDTH;TAG" "" ${ARGN})
  string(TOUPPER "${V_OPERATION}" operation)
  set(type f32)
  if(V_OPERATION STREQUAL "gather")
    set(type s32)
  endif()
  set(defines ${operation} N=${V_WIDTH})
  set(shape 256 2)
  set(arch any)
  if(V_RUNS)
    set(shape 1 1)
    set(arch cpu)
  endif()
  foreach(flag IN ITEMS AHEAD PAST EIGHT)
    set(has_${flag} 0)
    if(V_${flag})
      set(has_${flag} 1)
      string(REPLACE "PAST" "NONTEMPORAL" define "${flag}")
      list(APPEND defines ${define})
    endif()
  endforeach()
  variant(NAME probe_${V_OPERATION}_${type}_x${V_WIDTH}${V_TAG} OP PROBE_STREAM SOURCE
              probe_stream.cl ARCH ${arch}
          DEFINES ${defines}
          PARAMETERS ${V_WIDTH} ${stream_${V_OPERATION}} ${shape} ${has_AHEAD} ${has_PAST}
              ${has_EIGHT})
endfunction()

foreach(operation IN ITEMS copy scale add triad)
  probe_stream(OPERATION ${operation} WIDTH 16 RUNS AHEAD)
  probe_stream(OPERATION ${operation} WIDTH 16 RUNS AHEAD PAST TAG past)
  probe_stream(OPERATION ${operation} WIDTH 4)
  if(operation MATCHES "^(copy|triad)$")
    probe_stream(OPERATION ${operation} WIDTH 1)
  endif()
endforeach()
probe_stream(OPERATION read WIDTH 16 RUNS AHEAD)
probe_stream(OPERATION read WIDTH 4)
probe_stream(OPERATION read WIDTH 1 RUNS AHEAD EIGHT TAG run)
probe_stream(OPERATION read WIDTH 1 EIGHT)
probe_stream(OPERATION write WIDTH 16 RUNS)
probe_stream(OPERATION write WIDTH 16 RUNS PAST TAG past)
probe_stream(OPERATION write WIDTH 4)
probe_stream(OPERATION gather WIDTH 4 RUNS AHEAD EIGHT TAG run)
probe_stream(OPERATION gather WIDTH 1 RUNS AHEAD EIGHT TAG run)
probe_stream(OPERATION gather WIDTH 4 EIGHT)
probe_stream(OPERATION gather WIDTH 1 EIGHT)
variant(NAME probe_chase_s32 OP PROBE_CHASE SOURCE probe_chase.cl PARAMETERS 1 0 1)

# Mixed traffic. Parameters: words of a vector; work-items of a group; 1 or 2 as above; 1 if loads
# may be prefetched.
variant(NAME probe_mix_s32_x16 OP PROBE_MIX SOURCE probe_mix.cl ARCH cpu
        DEFINES N=16
        PARAMETERS 16 1 1 1)
variant(NAME probe_mix_s32_x4 OP PROBE_MIX SOURCE probe_mix.cl DEFINES N=4 PARAMETERS 4 64 2)
