# Writes build_info.h for the program and the tests. It defines TANDEM_BUILD_COMMIT,
# TANDEM_BUILD_TYPE, TANDEM_BUILD_FLAGS and TANDEM_BUILD_BACKENDS. Each build looks up the commit
# again. The library does not include it, so a new commit never recompiles or changes the library.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type_upper)
get_property(backends GLOBAL PROPERTY TANDEM_BACKENDS)
list(JOIN backends " " backends)
set(build_info_folder "${PROJECT_BINARY_DIR}/generated")
add_custom_target(tandem_write_build_info
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
          "-DOUTPUT=${build_info_folder}/build_info.h"
          "-DTYPE=${CMAKE_BUILD_TYPE}"
          "-DFLAGS=${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type_upper}}"
          "-DBACKENDS=${backends}"
          -P "${PROJECT_SOURCE_DIR}/cmake/write_build_info.cmake"
  BYPRODUCTS "${build_info_folder}/build_info.h"
  COMMENT "Looking up the commit"
  VERBATIM)
add_library(tandem_build_info INTERFACE)
target_include_directories(tandem_build_info INTERFACE "${build_info_folder}")
add_dependencies(tandem_build_info tandem_write_build_info)
