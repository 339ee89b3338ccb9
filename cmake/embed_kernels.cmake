# Writes OUTPUT from kernel_sources.c.in: a C file that contains every *.cl and *.cu below FOLDER as
# data. It defines tdm_embedded_sources of kernels/kernel_index.h. PROGRAM_OUTPUT also contains the
# kernels of FOLDER/probe.
#
# Usage: cmake -DFOLDER=kernels -DOUTPUT=kernel_sources.c -DPROGRAM_OUTPUT=program_texts.c
#              -P embed_kernels.cmake
#
# A line `#include "file"` is replaced by that file, from the same folder or as
# "kernels/FOLDER/FILE". This happens once per kernel source; later includes of the same file are
# removed. An include may therefore not be inside a condition that another include of the file
# lacks. Comments and redundant white space are removed, because they would be a third of the
# library. The flattened sources are next to OUTPUT, which includes them from there.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/kernel_rows.cmake")

get_filename_component(output_folder "${OUTPUT}" DIRECTORY)
file(GLOB sources RELATIVE "${FOLDER}" "${FOLDER}/*/*.cl" "${FOLDER}/*/*.cu")
set(texts "")
foreach(source IN LISTS sources)
  get_filename_component(text "${source}" NAME)
  list(APPEND texts "${text}")
endforeach()
list(SORT texts)
file(REMOVE_RECURSE "${output_folder}/flat")

# Removes comments and redundant white space. Strings of a kernel source must not contain a comment
# mark, and line comments must not contain the mark of a block comment.
function(strip text result)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" " " text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \t]+" " " text "${text}")
  string(REGEX REPLACE "[ \n]*\n ?" "\n" text "\n${text}\n")
  string(SUBSTRING "${text}" 1 -1 text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(probes "")
foreach(text IN LISTS texts)
  set(seen "")
  find_text("${text}" source)
  flatten("${source}" seen flat)
  strip("${flat}" flat)
  file(WRITE "${output_folder}/flat/${text}" "${flat}")
  if(source MATCHES "^probe/")
    list(APPEND probes "${text}")
  endif()
endforeach()

# Writes the C file `output` with the kernel sources ARGN.
function(write_texts output)
  set(data "")
  set(rows "")
  set(count 0)
  foreach(text IN LISTS ARGN)
    set(file "${output_folder}/flat/${text}")
    file(SIZE "${file}" bytes)
    string(APPEND data "TDM_TEXT(${count}, \"${file}\")\n")
    string(APPEND rows "    {\"${text}\", tdm_embedded_source_${count}, ${bytes}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  configure_file("${FOLDER}/kernel_sources.c.in" "${output}" @ONLY)
  file(TOUCH "${output}")
endfunction()
write_texts("${PROGRAM_OUTPUT}" ${texts})
list(REMOVE_ITEM texts ${probes})
write_texts("${OUTPUT}" ${texts})
