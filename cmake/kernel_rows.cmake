# What the scripts that turn kernel texts into something else share. FOLDER is the folder kernels/.
#
# Texts go through string variables only, never through lists, so semicolons, brackets, quotes and
# backslashes are safe.

include("${CMAKE_CURRENT_LIST_DIR}/kernel_variants.cmake")

# Sets `result` to the file of kernels/ that `includer` names `name`: "kernels/FOLDER/FILE", or "FILE" in its own folder.
# Both are paths below FOLDER.
function(resolve_include name includer result)
  string(REGEX REPLACE "^kernels/" "" file "${name}")
  if(file STREQUAL name)
    get_filename_component(folder "${includer}" DIRECTORY)
    set(file "${folder}/${name}")
  endif()
  if(NOT EXISTS "${FOLDER}/${file}")
    message(FATAL_ERROR "kernels/${includer} includes \"${name}\", but there is no ${FOLDER}/${file}")
  endif()
  set(${result} "${file}" PARENT_SCOPE)
endfunction()

# Sets `result` to the text of `file`, a path below FOLDER, with its includes inlined, and extends `seen`, the files so far.
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

# Sets `result` to the variants that a CUDA device may run, "name|source|defines|capabilities" each: all but those for CPU cores and
# those with extensions of OpenCL.
function(read_cuda_rows result)
  read_variants(variants)
  list(FILTER variants EXCLUDE REGEX "TDM_CAP_(CPU_CORES|HOST_|INT8_DOT_KHR|INT8_DOT_ARM|INT8_DOT_QCOM)")
  list(TRANSFORM variants REPLACE "^([^|]*)[|][^|]*[|]([^|]*[|][^|]*[|][^|]*)[|].*$" "\\1|\\2")
  set(${result} "${variants}" PARENT_SCOPE)
endfunction()

# Sets `result` to the path below FOLDER of the kernel source `text`: its name is unique in kernels/.
function(find_text text result)
  file(GLOB found RELATIVE "${FOLDER}" "${FOLDER}/*/${text}")
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "kernels/ must hold one file ${text}, not ${count}: ${found}")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Sets `result` to the texts of those rows.
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
