# Installs the headers, the libraries, and what find_package(tandem) and pkg-config need.
# Each library has its own export set, because only users of the static one need libmd.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/api/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")

function(tandem_install_library target export_set)
  install(TARGETS ${target} EXPORT ${export_set}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ${export_set} NAMESPACE tandem:: DESTINATION "${package_folder}")
endfunction()

if(TANDEM_BUILD_SHARED)
  tandem_install_library(tandem tandemSharedTargets)
endif()
if(TANDEM_BUILD_STATIC)
  tandem_install_library(tandem_static tandemStaticTargets)
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/tandemConfig.cmake.in" "${PROJECT_BINARY_DIR}/tandemConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/tandemConfig.cmake" "${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindLibmd.cmake"
  DESTINATION "${package_folder}")

# Paths in tandem.pc are relative to the file, so that an installed tree can be moved.
cmake_path(SET pc_folder NORMALIZE "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "${pc_folder}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH pc_libdir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
file(RELATIVE_PATH pc_includedir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/tandem.pc.in" "${PROJECT_BINARY_DIR}/tandem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tandem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# The headers refer to the documentation by these names: docs/numerics.md, …
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" "${PROJECT_SOURCE_DIR}/examples"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" PATTERN "digits/train.py" EXCLUDE
        PATTERN "charts.py" EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
