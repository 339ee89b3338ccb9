# Writes OUTPUT, a C file that holds every FOLDER/*.cl and *.cu as data (the type and the two names are in
# kernels/kernel_index.h). Usage: cmake -DFOLDER=kernels -DOUTPUT=kernel_texts.c -P embed_kernels.cmake
#
# A line `#include "file"` is replaced by that file of FOLDER, once per text; later ones of the same
# file vanish, so nothing that two texts share may stand inside a condition that one of them lacks.
# The flattened texts are also left beside OUTPUT, for the syntax check and for reading.
#
# The bytes that are written come from file(READ ... HEX).
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/kernel_rows.cmake")

get_filename_component(output_folder "${OUTPUT}" DIRECTORY)
file(GLOB texts RELATIVE "${FOLDER}" "${FOLDER}/*.cl" "${FOLDER}/*.cu")
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
