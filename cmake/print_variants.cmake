# Prints the kernel variants as rows of a table in C, for checks: TDM_VARIANT(name, op, source,
# defines, capabilities, target, p0 … p7). Usage: cmake -DFOLDER=kernels -P print_variants.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/kernel_variants.cmake")
variants_as_c(table)
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo_append "${table}")
