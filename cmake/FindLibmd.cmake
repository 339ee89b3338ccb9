# Finds libmd (SHA-256) as a static archive: target Libmd::Libmd. The shared library contains it and
# hides its symbols. Programs that link the static library link libmd too, so this file is
# installed.
find_path(Libmd_INCLUDE_DIR sha2.h)
find_library(Libmd_LIBRARY libmd.a)
mark_as_advanced(Libmd_INCLUDE_DIR Libmd_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libmd
  REQUIRED_VARS Libmd_LIBRARY Libmd_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt install libmd-dev")

if(Libmd_FOUND AND NOT TARGET Libmd::Libmd)
  add_library(Libmd::Libmd STATIC IMPORTED)
  set_target_properties(Libmd::Libmd PROPERTIES
    IMPORTED_LOCATION "${Libmd_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Libmd_INCLUDE_DIR}")
endif()
