# The prebuilt kernels for CUDA. nvcc compiles each kernel source with variants for CUDA to one fat
# binary, which is embedded in the library. Without nvcc, or with TANDEM_CUDA_IMAGES off, the table
# of kernel_index.h holds the names of the variants instead. The tests' simulator needs only these.
set(TANDEM_CUDA_ARCHITECTURES "80;90a" CACHE STRING
    "Architectures of the CUDA kernels, as in nvcc's sm_*, or all; \
PTX of TANDEM_CUDA_PTX serves the others")
set(TANDEM_CUDA_PTX "75" CACHE STRING
    "Architecture of the PTX beside them, which the driver compiles for what has no image; \
empty: none")
find_program(TANDEM_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
             PATH_SUFFIXES bin DOC "NVIDIA's compiler, for the CUDA kernels")
# nvcc supports sm_90a from 12.0 on. From 12.8 on it can write smaller images, which drivers before
# 12.4 cannot read. Images of 13.0 and later need a newer driver anyway, so only they are
# compressed.
set(TANDEM_NVCC_VERSION 0)
set(compression "")
if(TANDEM_NVCC)
  execute_process(COMMAND "${TANDEM_NVCC}" --version OUTPUT_VARIABLE told ERROR_QUIET)
  if(told MATCHES "release ([0-9.]+)")
    set(TANDEM_NVCC_VERSION "${CMAKE_MATCH_1}")
  endif()
  if(TANDEM_NVCC_VERSION VERSION_LESS 12.0)
    message(STATUS "CUDA kernels: ${TANDEM_NVCC} is of CUDA ${TANDEM_NVCC_VERSION}, "
                   "they take 12.0 or newer")
  elseif(TANDEM_NVCC_VERSION VERSION_GREATER_EQUAL 13.0)
    set(compression --compress-mode=size)
  endif()
endif()
# Sanitizers check host code only, so such builds do not compile the same kernels again.
if(TANDEM_NVCC_VERSION VERSION_GREATER_EQUAL 12.0 AND NOT TANDEM_SANITIZE
   AND (NOT DEFINED TANDEM_CUDA OR TANDEM_CUDA))
  set(has_images ON)
else()
  set(has_images OFF)
endif()
option(TANDEM_CUDA_IMAGES "Compile the CUDA kernels by nvcc" ${has_images})
if(TANDEM_CUDA_IMAGES AND TANDEM_NVCC_VERSION VERSION_LESS 12.0)
  message(FATAL_ERROR "TANDEM_CUDA_IMAGES is on, but no nvcc of CUDA 12.0 or newer was found; "
                      "TANDEM_NVCC may name it")
endif()

set(FOLDER "${PROJECT_SOURCE_DIR}/kernels")
include("${CMAKE_CURRENT_LIST_DIR}/kernel_rows.cmake")

# Sets `options_name` to the options of nvcc for all architectures, and `told_name` to the list of
# architectures that the library reports.
function(tandem_cuda_targets options_name told_name)
  set(architectures "${TANDEM_CUDA_ARCHITECTURES}")
  if(architectures STREQUAL "all")
    set(architectures 75 80 86 89 90 90a)
    if(TANDEM_NVCC_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND architectures 100 120)
    endif()
  endif()
  set(options ${compression})
  foreach(architecture IN LISTS architectures)
    list(APPEND options -gencode "arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(JOIN architectures ";" told)
  foreach(architecture IN LISTS TANDEM_CUDA_PTX)
    list(APPEND options -gencode "arch=compute_${architecture},code=compute_${architecture}")
    string(APPEND told "$<SEMICOLON>${architecture}-ptx")
  endforeach()
  string(REPLACE "$<SEMICOLON>" ";" told "${told}")
  if(NOT architectures AND NOT TANDEM_CUDA_PTX)
    message(FATAL_ERROR "TANDEM_CUDA_ARCHITECTURES and TANDEM_CUDA_PTX are both empty")
  endif()
  set(${options_name} "${options}" PARENT_SCOPE)
  set(${told_name} "${told}" PARENT_SCOPE)
endfunction()

# Writes the C++ units of all kernel sources to `folder`.
function(tandem_write_cxx_kernels folder texts)
  file(GLOB files CONFIGURE_DEPENDS "${FOLDER}/*/*.cl" "${FOLDER}/*/*.cu" "${FOLDER}/*/*.h")
  file(GLOB tables CONFIGURE_DEPENDS "${FOLDER}/*/*_variants.cmake"
                                     "${PROJECT_SOURCE_DIR}/cmake/kernel_*.cmake")
  set(written "")
  foreach(text IN LISTS texts)
    list(APPEND written "${folder}/flat/${text}" "${folder}/${text}.cpp" "${folder}/${text}.names")
  endforeach()
  set(script "${PROJECT_SOURCE_DIR}/cmake/write_cxx_kernels.cmake")
  add_custom_command(
    OUTPUT "${folder}/stamp"
    BYPRODUCTS ${written}
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${FOLDER}" "-DOUTPUT_FOLDER=${folder}"
            "-DSTAMP=${folder}/stamp" -P "${script}"
    DEPENDS ${files} ${tables} "${script}"
    COMMENT "Writing the kernels as C++"
    VERBATIM)
endfunction()

# The headers that a unit includes. Other headers are inlined in the sources, or are for OpenCL.
set(cuda_dialect dialect.h dialect_cxx.h dialect_cxx_memory.h dialect_cuda.h)
list(TRANSFORM cuda_dialect PREPEND "${FOLDER}/dialect/")

# Sets `image_name` to the fat binary of `text`, which nvcc makes. Next to it are the output of
# ptxas, the parts, and the options, which check_cuda_architectures.sh reads. The image depends on
# the unit of this source, not on the stamp. The unit is written only if it changes, but the stamp
# whenever the script runs.
function(tandem_compile_image folder text options image_name)
  set(image "${folder}/${text}.fatbin")
  set(script "${PROJECT_SOURCE_DIR}/cmake/compile_cuda_image.cmake")
  file(CONFIGURE OUTPUT "${image}.options" CONTENT "${options}\n" @ONLY)
  add_custom_command(
    OUTPUT "${image}"
    COMMAND "${CMAKE_COMMAND}" "-DNVCC=${TANDEM_NVCC}" "-DUNIT=${folder}/${text}.cpp"
            "-DSOURCES=${folder}/flat/${text};${cuda_dialect}" "-DIMAGE=${image}"
            "-DINCLUDES=${FOLDER}/dialect;${folder}" "-DOPTIONS=${options}" -P "${script}"
    DEPENDS "${folder}/${text}.cpp" "${folder}/flat/${text}" ${cuda_dialect} "${script}"
    COMMENT "Compiling ${text} for CUDA"
    VERBATIM)
  set(${image_name} "${image}" PARENT_SCOPE)
endfunction()

# Sets `result` to the options for a source. A source whose variants all need instructions of 9.0a
# is compiled for 9.0a only, and has no options if the build leaves 9.0a out.
function(tandem_text_options text rows options result)
  set(others "${rows}")
  list(FILTER others INCLUDE REGEX "^[^|]*[|]${text}[|]")
  list(FILTER others EXCLUDE REGEX "TDM_CAP_WGMMA")
  if(NOT others AND options MATCHES "compute_90a")
    set(options ${compression} -gencode "arch=compute_90a,code=sm_90a")
  elseif(NOT others)
    set(options "")
  endif()
  set(${result} "${options}" PARENT_SCOPE)
endfunction()

# Adds the table of images to tandem_objects, and the table that also has the probes to
# tandem_program_kernels.
function(tandem_add_cuda_images)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cuda")
  read_cuda_rows(rows)
  cuda_texts_of("${rows}" texts)
  tandem_write_cxx_kernels("${folder}" "${texts}")
  set(version 0) # in the format of cuDriverGetVersion
  if(TANDEM_CUDA_IMAGES)
    string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" version "${TANDEM_NVCC_VERSION}")
    math(EXPR version "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
    tandem_cuda_targets(options told)
    message(STATUS "CUDA kernels: ${told}")
  else()
    set(told "")
    message(STATUS "CUDA kernels: none in this build, names stand in for them")
  endif()

  # Images of earlier configurations are removed below, because the checks read the options of all
  # images.
  file(GLOB left "${folder}/*.fatbin.options")
  set(images "")
  foreach(kind IN ITEMS library program)
    set(${kind}_table "")
    set(${kind}_data "")
    set(${kind}_count 0)
  endforeach()
  foreach(text IN LISTS texts)
    set(stand_in 1)
    set(image "${folder}/${text}.names")
    if(TANDEM_CUDA_IMAGES)
      set(stand_in 0)
      tandem_text_options("${text}" "${rows}" "${options}" text_options)
      if(NOT text_options)
        continue()
      endif()
      tandem_compile_image("${folder}" "${text}" "${text_options}" image)
      list(REMOVE_ITEM left "${image}.options")
    endif()
    list(APPEND images "${image}")
    find_text("${text}" source)
    set(kinds library program)
    if(source MATCHES "^probe/")
      set(kinds program)
    endif()
    foreach(kind IN LISTS kinds)
      string(APPEND ${kind}_data "TDM_IMAGE(${${kind}_count}, \"${image}\")\n")
      string(APPEND ${kind}_table "    TDM_IMAGE_ROW(${${kind}_count}, \"${text}\", ${stand_in})\n")
      math(EXPR ${kind}_count "${${kind}_count} + 1")
    endforeach()
  endforeach()
  foreach(options_file IN LISTS left)
    string(REGEX REPLACE "[.]options$" "" gone "${options_file}")
    file(REMOVE_RECURSE "${gone}" "${gone}.options" "${gone}.log" "${gone}.parts")
  endforeach()
  foreach(kind IN ITEMS library program)
    foreach(part IN ITEMS data table count)
      set(${part} "${${kind}_${part}}")
    endforeach()
    configure_file("${PROJECT_SOURCE_DIR}/kernels/kernel_images.c.in" "${folder}/${kind}_images.c"
                   @ONLY)
  endforeach()
  add_custom_target(tandem_cuda_texts DEPENDS "${folder}/stamp")
  add_custom_target(tandem_cuda_images DEPENDS ${images})
  add_dependencies(tandem_cuda_images tandem_cuda_texts)
  add_dependencies(tandem_objects tandem_cuda_images)
  add_dependencies(tandem_program_kernels tandem_cuda_images)
  target_sources(tandem_objects PRIVATE "${folder}/library_images.c")
  target_sources(tandem_program_kernels PRIVATE "${folder}/program_images.c")
  set_source_files_properties("${folder}/library_images.c" "${folder}/program_images.c"
                              TARGET_DIRECTORY tandem_objects tandem_program_kernels
                              PROPERTIES OBJECT_DEPENDS "${images}")
endfunction()
