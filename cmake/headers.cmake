# SPDX-License-Identifier: Apache-2.0
#
# Gives the target `kvevict` its headers. As a file set they take part in the install and in CMake's own header
# verification; CMake 3.22 (Ubuntu 22.04) has no file sets and gets the include folder alone.

if(CMAKE_VERSION VERSION_LESS 3.23)
  target_include_directories(
    kvevict INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>")
else()
  file(GLOB_RECURSE kvevict_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/kvevict/*.hpp"
       "${PROJECT_SOURCE_DIR}/include/kvevict/*.cuh")
  target_sources(
    kvevict
    INTERFACE FILE_SET HEADERS
              BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
              FILES ${kvevict_headers})
endif()
