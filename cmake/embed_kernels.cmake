# Writes OUTPUT, a C file that holds every FOLDER/*.cl as data (the type and the two names are in
# kernels/kernel_index.h). Usage: cmake -DFOLDER=kernels -DOUTPUT=kernel_texts.c -P embed_kernels.cmake
#
# A line `#include "file"` is replaced by that file of FOLDER, once per text; later ones of the same
# file vanish, so nothing that two texts share may stand inside a condition that one of them lacks.
# The flattened texts are also left beside OUTPUT, for the syntax check and for reading.
#
# Texts go through string variables only, never through lists, so semicolons, brackets, quotes and
# backslashes are safe; the bytes that are written come from file(READ ... HEX).
cmake_minimum_required(VERSION 3.25)

# Sets `result` to the text of `file` with its includes inlined, and extends `seen`, the files so far.
function(flatten file includer seen_name result)
  if(NOT EXISTS "${FOLDER}/${file}")
    message(FATAL_ERROR "${includer} includes \"${file}\", which is not in ${FOLDER}")
  endif()
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
    if(NOT seen MATCHES "[|]${included}[|]")
      flatten("${included}" "${file}" seen body)
      string(APPEND flat "\n${body}")
    endif()
  endwhile()
  string(APPEND flat "${rest}")
  string(SUBSTRING "${flat}" 1 -1 flat)
  set(${seen_name} "${seen}" PARENT_SCOPE)
  set(${result} "${flat}" PARENT_SCOPE)
endfunction()

get_filename_component(output_folder "${OUTPUT}" DIRECTORY)
file(GLOB texts RELATIVE "${FOLDER}" "${FOLDER}/*.cl")
list(SORT texts)
file(REMOVE_RECURSE "${output_folder}/flat")

set(arrays "")
set(rows "")
set(count 0)
foreach(text IN LISTS texts)
  set(seen "")
  flatten("${text}" "the list of texts" seen flat)
  file(WRITE "${output_folder}/flat/${text}" "${flat}")
  file(READ "${output_folder}/flat/${text}" bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char text_${count}[] = {\n${bytes}\n0x00};\n\n")
  string(APPEND rows
         "    {\"${text}\", (const char *)text_${count}, sizeof text_${count} - 1},\n")
  math(EXPR count "${count} + 1")
endforeach()

file(WRITE "${OUTPUT}"
  "// Written by cmake/embed_kernels.cmake.\n#include \"kernels/kernel_index.h\"\n\n${arrays}"
  "const tdm_kernel_text tdm_kernel_texts[] = {\n${rows}    {0},\n};\n"
  "const size_t tdm_kernel_text_count = ${count};\n")
