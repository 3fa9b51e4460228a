# SPDX-License-Identifier: Apache-2.0
#
# Executables for a GPU, with the toolkit that cuda_toolkit.cmake has found. Nothing here needs a GPU to build.
#
#   kvevict_add_gpu_executable(NAME SOURCE...)   .cu and .cpp sources, linked with kvevict and CUDA's libraries
#
# KVEVICT_CUDA_ARCHITECTURES says for which devices, as CMAKE_CUDA_ARCHITECTURES does.

set(KVEVICT_CUDA_ARCHITECTURES "native" CACHE STRING "GPUs to compile for: native (this machine's), or as in 80;90")
set(CMAKE_CUDA_COMPILER "${KVEVICT_NVCC}" CACHE FILEPATH "CUDA compiler")
set(CMAKE_CUDA_ARCHITECTURES "${KVEVICT_CUDA_ARCHITECTURES}")
enable_language(CUDA)
# CMake before 3.26 does not know that nvcc takes it.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CUDAToolkit_ROOT "${KVEVICT_CUDA_ROOT}")
find_package(CUDAToolkit REQUIRED)

function(kvevict_add_gpu_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE kvevict::kvevict CUDA::cublas CUDA::cusolver)
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Shared)
  target_compile_options(
    ${name} PRIVATE $<$<AND:$<BOOL:${KVEVICT_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)
endfunction()
