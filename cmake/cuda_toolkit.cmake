# SPDX-License-Identifier: Apache-2.0
#
# Looks for a CUDA toolkit, with cmake/cuda_toolkit.sh, which says where. Sets, empty when there is none:
#
#   KVEVICT_CUDA_ROOT         its folder; may be given
#   KVEVICT_NVCC              its compiler
#   KVEVICT_CUDA_INCLUDE_DIR  its headers
#   KVEVICT_CUDA_LIBRARY_DIR  its libraries

set(KVEVICT_CUDA_ROOT "$ENV{KVEVICT_CUDA_ROOT}" CACHE PATH "CUDA toolkit; empty: the one that is found")
set(ENV{KVEVICT_CUDA_ROOT} "${KVEVICT_CUDA_ROOT}")
execute_process(
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/cuda_toolkit.sh" --check
  RESULT_VARIABLE result
  OUTPUT_VARIABLE KVEVICT_CUDA_ROOT
  ERROR_VARIABLE messages
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(result EQUAL 2)
  message(FATAL_ERROR "${messages}")
endif()

set(KVEVICT_NVCC "")
set(KVEVICT_CUDA_INCLUDE_DIR "")
set(KVEVICT_CUDA_LIBRARY_DIR "")
if(KVEVICT_CUDA_ROOT)
  set(KVEVICT_NVCC "${KVEVICT_CUDA_ROOT}/bin/nvcc")
  set(KVEVICT_CUDA_LIBRARY_DIR "${KVEVICT_CUDA_ROOT}/lib64")
  file(GLOB header "${KVEVICT_CUDA_ROOT}/include/cuda_runtime.h" "${KVEVICT_CUDA_ROOT}/targets/*/include/cuda_runtime.h")
  list(GET header 0 header)
  get_filename_component(KVEVICT_CUDA_INCLUDE_DIR "${header}" DIRECTORY)
endif()
