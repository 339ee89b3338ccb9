# Compiles UNIT, C++ written by write_cxx_kernels.cmake, to the fat binary IMAGE. It also writes
# IMAGE.log, the output of ptxas with registers and spills, and the folder IMAGE.parts/ with the
# cubin and PTX of each architecture. The fat binary contains these compressed.
#
# Usage: cmake -DNVCC=nvcc -DUNIT=x.cpp -DSOURCES=files -DIMAGE=x.fatbin -DINCLUDES=folders
#              -DOPTIONS=options -P compile_cuda_image.cmake
#
# SOURCES are all files that UNIT is made of. If the environment variable TANDEM_CUDA_IMAGE_CACHE is
# set, it names a folder that keeps the results. The key is a hash of these files, the options and
# the version of nvcc, so several builds compile an image once. If WERROR is set, warnings are
# errors. Warnings on functions that a variant does not call are suppressed.
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
          -diag-suppress 177,550 ${strict} -Xptxas -v ${INCLUDES} ${OPTIONS}
          --keep --keep-dir "${parts}" -o "${IMAGE}" "${UNIT}"
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
# With a single architecture, nvcc leaves it out of the file name.
get_filename_component(text "${UNIT}" NAME_WLE)
if(EXISTS "${parts}/${text}.cubin" AND OPTIONS MATCHES "code=sm_([0-9a-z]+)")
  file(RENAME "${parts}/${text}.cubin" "${parts}/${text}.compute_${CMAKE_MATCH_1}.cubin")
endif()

# The rename stores a result completely or not at all, because another build may do the same.
if(kept)
  string(RANDOM LENGTH 12 suffix)
  file(COPY ${results} DESTINATION "${kept}.${suffix}")
  file(RENAME "${kept}.${suffix}" "${kept}" RESULT ignored)
  file(REMOVE_RECURSE "${kept}.${suffix}")
endif()
