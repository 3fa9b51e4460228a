# SPDX-License-Identifier: Apache-2.0
#
# Executables for a GPU, with the toolkit that cuda_toolkit.cmake has found. Nothing here needs a GPU to build.
#
#   kvevict_add_gpu_executable(NAME SOURCE...)   .cu and .cpp sources, linked with kvevict and CUDA's libraries
#
# KVEVICT_CUDA_ARCHITECTURES says for which devices, as CMAKE_CUDA_ARCHITECTURES does.

if(NOT KVEVICT_CUDA_ROOT)
  message(FATAL_ERROR "KVEVICT_GPU is on, but there is no CUDA toolkit: cmake/cuda_toolkit.sh gets one")
endif()
set(KVEVICT_CUDA_ARCHITECTURES "native" CACHE STRING "GPUs to compile for: native (this machine's), or as in 80;90")
set(CMAKE_CUDA_COMPILER "${KVEVICT_NVCC}" CACHE FILEPATH "CUDA compiler")
set(CMAKE_CUDA_ARCHITECTURES "${KVEVICT_CUDA_ARCHITECTURES}")
enable_language(CUDA)
set(CUDAToolkit_ROOT "${KVEVICT_CUDA_ROOT}")
find_package(CUDAToolkit REQUIRED)

function(kvevict_add_gpu_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE kvevict::cuda)
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
  target_compile_options(
    ${name} PRIVATE $<$<AND:$<BOOL:${KVEVICT_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)
endfunction()
