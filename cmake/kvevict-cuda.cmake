# SPDX-License-Identifier: Apache-2.0
#
# Part of the installed package.

# kvevict_use_cuda(TARGET HEADERS): makes TARGET the headers with what their CUDA part calls. CMake before 3.26 does not
# know the C++20 of nvcc and has to be told how it is spelled.
function(kvevict_use_cuda target headers)
  target_link_libraries(${target} INTERFACE ${headers} CUDA::cudart CUDA::cusolver)
  if(cuda_std_20 IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_features(${target} INTERFACE cuda_std_20)
  else()
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>)
  endif()
endfunction()
