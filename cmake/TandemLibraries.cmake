# The shared and the static library, both from tandem_objects.
# Before 1.0 a minor version may break programs, so each has its own soname.
set(TANDEM_SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(TANDEM_SYSTEM_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS} m)

function(tandem_add_library target type)
  add_library(${target} ${type} $<TARGET_OBJECTS:tandem_objects>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME tandem LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/api/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PRIVATE Libmd::Libmd ${TANDEM_SYSTEM_LIBRARIES})
  add_library(tandem::${target} ALIAS ${target})
endfunction()

# The program and the tests call internal functions, so they link the static library. It is built
# for them even if TANDEM_BUILD_STATIC is off and it is not installed.
tandem_add_library(tandem_static STATIC)

if(TANDEM_BUILD_SHARED)
  set(symbols "${PROJECT_SOURCE_DIR}/cmake/tandem.map")
  tandem_add_library(tandem SHARED)
  set_target_properties(tandem PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION "${TANDEM_SOVERSION}" LINK_DEPENDS "${symbols}")
  target_link_options(tandem PRIVATE
    "LINKER:--version-script=${symbols}" "LINKER:--exclude-libs,ALL" "LINKER:--as-needed")
  if(NOT TANDEM_SANITIZE)
    target_link_options(tandem PRIVATE "LINKER:--no-undefined")
  endif()
else()
  add_library(tandem::tandem ALIAS tandem_static)
endif()
