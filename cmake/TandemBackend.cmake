# A backend is a folder backend_<name>, a row in the root CMakeLists.txt and an option
# TANDEM_<NAME>. If the option is on and the folder exists, the library gets the folder's sources
# and the definition TANDEM_HAVE_<NAME>. This definition enables the backend's row in the core's
# table.
function(tandem_add_backend name description)
  string(TOUPPER "${name}" upper)
  option(TANDEM_${upper} "Build the backend: ${description}" ON)
  set(folder "${PROJECT_SOURCE_DIR}/backend_${name}")
  if(NOT TANDEM_${upper})
    message(STATUS "Backend ${name}: off")
    return()
  endif()
  if(NOT EXISTS "${folder}/CMakeLists.txt")
    message(STATUS "Backend ${name}: no sources in this version")
    return()
  endif()
  message(STATUS "Backend ${name}: on")
  target_compile_definitions(tandem_objects PUBLIC TANDEM_HAVE_${upper}=1)
  set_property(GLOBAL APPEND PROPERTY TANDEM_BACKENDS "${name}")
  add_subdirectory("${folder}")
endfunction()
