# SPDX-License-Identifier: Apache-2.0
#
# Installs the headers and a package, so that find_package(kvevict) gives kvevict::kvevict and finds Eigen and the
# thread library by itself; with COMPONENTS cuda it gives kvevict::cuda too and finds the CUDA toolkit.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(kvevict_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/kvevict")

if(CMAKE_VERSION VERSION_LESS 3.23)
  install(TARGETS kvevict EXPORT kvevict_targets)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kvevict" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  install(
    TARGETS kvevict
    EXPORT kvevict_targets
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
install(
  EXPORT kvevict_targets
  NAMESPACE kvevict::
  FILE kvevict-targets.cmake
  DESTINATION "${kvevict_package_dir}")

configure_package_config_file(cmake/kvevict-config.cmake.in kvevict-config.cmake
                              INSTALL_DESTINATION "${kvevict_package_dir}")
# Before 1.0 a new minor version may change the interface. No object code, so any architecture may use it.
write_basic_package_version_file(kvevict-config-version.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/kvevict-config.cmake"
              "${PROJECT_BINARY_DIR}/kvevict-config-version.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/kvevict-cuda.cmake"
        DESTINATION "${kvevict_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/kvevict")
