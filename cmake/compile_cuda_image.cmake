# Compiles UNIT, C++ written by write_cxx_kernels.cmake, to the fat binary IMAGE; beside it IMAGE.log, what ptxas says of
# registers and spills, and IMAGE.parts/, the cubin and PTX of each architecture, which the fat binary holds compressed.
# Usage: cmake -DNVCC=nvcc -DUNIT=x.cpp -DSOURCES=files -DIMAGE=x.fatbin -DINCLUDES=folders -DOPTIONS=options
#              -P compile_cuda_image.cmake
#
# SOURCES are all files that UNIT is made of. The environment's TANDEM_CUDA_IMAGE_CACHE, where it is set, is a folder that
# keeps what was compiled, under a hash of them, of the options and of nvcc: several builds then compile it once.
# A warning is an error but for functions of a text that one of its rows does not call.
cmake_minimum_required(VERSION 3.25)
set(parts "${IMAGE}.parts")
set(results "${IMAGE}" "${IMAGE}.log" "${parts}")
file(REMOVE_RECURSE ${results})

set(kept "")
if(NOT "$ENV{TANDEM_CUDA_IMAGE_CACHE}" STREQUAL "")
  execute_process(COMMAND "${NVCC}" --version OUTPUT_VARIABLE key)
  string(APPEND key "${OPTIONS}")
  foreach(source IN LISTS UNIT SOURCES CMAKE_CURRENT_LIST_FILE)
    file(SHA256 "${source}" hash)
    string(APPEND key "${hash}")
  endforeach()
  string(SHA256 key "${key}")
  set(kept "$ENV{TANDEM_CUDA_IMAGE_CACHE}/${key}")
  get_filename_component(folder "${IMAGE}" DIRECTORY)
  if(EXISTS "${kept}")
    file(GLOB found "${kept}/*")
    file(COPY ${found} DESTINATION "${folder}")
    file(TOUCH "${IMAGE}")
    return()
  endif()
endif()

list(TRANSFORM INCLUDES PREPEND "-I")
set(strict "")
if(WERROR)
  set(strict -Werror all-warnings)
endif()
file(MAKE_DIRECTORY "${parts}")
execute_process(
  COMMAND "${NVCC}" -x cu -std=c++17 -fatbin -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
          -diag-suppress 177,550 ${strict} -Xptxas -v ${INCLUDES} ${OPTIONS} --keep --keep-dir "${parts}"
          -o "${IMAGE}" "${UNIT}"
  RESULT_VARIABLE result
  OUTPUT_FILE "${IMAGE}.log"
  ERROR_FILE "${IMAGE}.log")
if(NOT result EQUAL 0)
  file(READ "${IMAGE}.log" log)
  file(REMOVE "${IMAGE}")
  message(FATAL_ERROR "nvcc: ${result}\n${log}")
endif()
file(GLOB intermediate "${parts}/*")
list(FILTER intermediate EXCLUDE REGEX "\\.(cubin|ptx)$")
file(REMOVE ${intermediate})
# Of one architecture alone the parts do not say which.
get_filename_component(text "${UNIT}" NAME_WLE)
if(EXISTS "${parts}/${text}.cubin" AND OPTIONS MATCHES "code=sm_([0-9a-z]+)")
  file(RENAME "${parts}/${text}.cubin" "${parts}/${text}.compute_${CMAKE_MATCH_1}.cubin")
endif()

# Put there whole or not at all: another build may be doing the same.
if(kept)
  string(RANDOM LENGTH 12 suffix)
  file(COPY ${results} DESTINATION "${kept}.${suffix}")
  file(RENAME "${kept}.${suffix}" "${kept}" RESULT ignored)
  file(REMOVE_RECURSE "${kept}.${suffix}")
endif()
