# Functions that the scripts on kernel sources share. FOLDER is the folder kernels/.
#
# Kernel sources are kept in string variables only, never in lists, so semicolons, brackets, quotes
# and backslashes are safe.

include("${CMAKE_CURRENT_LIST_DIR}/kernel_variants.cmake")

# Sets `result` to the file that `includer` includes as `name`: "kernels/FOLDER/FILE", or "FILE" of
# its own folder. `result` and `includer` are paths below FOLDER.
function(resolve_include name includer result)
  string(REGEX REPLACE "^kernels/" "" file "${name}")
  if(file STREQUAL name)
    get_filename_component(folder "${includer}" DIRECTORY)
    set(file "${folder}/${name}")
  endif()
  if(NOT EXISTS "${FOLDER}/${file}")
    message(FATAL_ERROR "kernels/${includer} includes \"${name}\", "
                        "but there is no ${FOLDER}/${file}")
  endif()
  set(${result} "${file}" PARENT_SCOPE)
endfunction()

# Sets `result` to the contents of `file`, a path below FOLDER, with includes inlined. Adds the
# files to the list of files seen so far, in the variable that `seen_name` names.
function(flatten file seen_name result)
  set(seen "${${seen_name}}|${file}|")
  file(READ "${FOLDER}/${file}" rest)
  set(rest "\n${rest}")
  set(flat "")
  while("${rest}" MATCHES "\n[ \t]*#[ \t]*include[ \t]*\"([^\"\n]+)\"[^\n]*")
    set(line "${CMAKE_MATCH_0}")
    set(included "${CMAKE_MATCH_1}")
    string(FIND "${rest}" "${line}" start)
    string(LENGTH "${line}" length)
    math(EXPR after "${start} + ${length}")
    string(SUBSTRING "${rest}" 0 ${start} before)
    string(SUBSTRING "${rest}" ${after} -1 rest)
    string(APPEND flat "${before}")
    resolve_include("${included}" "${file}" included)
    if(NOT seen MATCHES "[|]${included}[|]")
      flatten("${included}" seen body)
      string(APPEND flat "\n${body}")
    endif()
  endwhile()
  string(APPEND flat "${rest}")
  string(SUBSTRING "${flat}" 1 -1 flat)
  set(${seen_name} "${seen}" PARENT_SCOPE)
  set(${result} "${flat}" PARENT_SCOPE)
endfunction()

# Sets `result` to the variants that a CUDA device may run, as "name|source|defines|capabilities".
# These are all variants except those for CPU cores and those that need OpenCL extensions.
function(read_cuda_rows result)
  read_variants(variants)
  list(FILTER variants EXCLUDE REGEX
       "TDM_CAP_(CPU_CORES|HOST_|INT8_DOT_KHR|INT8_DOT_ARM|INT8_DOT_QCOM)")
  list(TRANSFORM variants REPLACE "^([^|]*)[|][^|]*[|]([^|]*[|][^|]*[|][^|]*)[|].*$" "\\1|\\2")
  set(${result} "${variants}" PARENT_SCOPE)
endfunction()

# Sets `result` to the path below FOLDER of the kernel source `text`. Its name is unique in
# kernels/.
function(find_text text result)
  file(GLOB found RELATIVE "${FOLDER}" "${FOLDER}/*/${text}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "kernels/ must hold one file ${text}, not ${count}: ${found}")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Sets `result` to the sorted names of the kernel sources of `rows`.
function(cuda_texts_of rows result)
  set(texts "")
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^[^|]*[|]([^|]*)[|].*$" "\\1" text "${row}")
    list(APPEND texts "${text}")
  endforeach()
  list(REMOVE_DUPLICATES texts)
  list(SORT texts)
  set(${result} "${texts}" PARENT_SCOPE)
endfunction()
