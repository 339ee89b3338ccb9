# Compiles UNIT, C++ written by write_cxx_kernels.cmake, to the fat binary IMAGE; beside it IMAGE.log, what ptxas says of
# registers and spills, and IMAGE.parts/, the cubin and PTX of each architecture, which the fat binary holds compressed.
# Usage: cmake -DNVCC=nvcc -DUNIT=x.cpp -DIMAGE=x.fatbin -DINCLUDES=folders -DOPTIONS=options -P compile_cuda_image.cmake
#
# A warning is an error but for functions of a text that one of its rows does not call.
cmake_minimum_required(VERSION 3.25)
list(TRANSFORM INCLUDES PREPEND "-I")
set(parts "${IMAGE}.parts")
file(REMOVE_RECURSE "${parts}")
file(MAKE_DIRECTORY "${parts}")
execute_process(
  COMMAND "${NVCC}" -x cu -std=c++17 -fatbin --compress-mode=size -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
          -diag-suppress 177,550 -Werror all-warnings -Xptxas -v ${INCLUDES} ${OPTIONS} --keep --keep-dir "${parts}"
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
