# SPDX-License-Identifier: Apache-2.0
#
# What nvcc builds, run by the PTX emulator. Include this file; without nvcc the functions say so and add nothing.
#
#   kvevict_add_ptx_library(NAME <name> SOURCES <file>... ARCHITECTURES <number>...
#                           [LIBS <target>...] [PTX_LIBS <name>...] [OPTIONS <option of nvcc>...])
#
# A static library <name>_sm<number> for each architecture, as in 80. Sources that end in .cu are compiled by nvcc, which
# embeds their PTX; all others by the C++ compiler. LIBS are linked as they are, PTX_LIBS are other libraries of this kind
# and of the same architecture; both also give include directories to nvcc.
#
#   kvevict_add_ptx_test(... as above ... [ARGUMENTS <argument>...] [TIMEOUT <seconds>] [ENVIRONMENT <VAR=value>...])
#
# An executable <name>_sm<number> and a ctest test of that name for each architecture. Exit code 77 counts as skipped.
include_guard(GLOBAL)

set(kvevict_nvcc "${KVEVICT_NVCC}")
if(NOT kvevict_nvcc)
  find_program(kvevict_found_nvcc nvcc HINTS "$ENV{CUDACXX}" "$ENV{KVEVICT_CUDA_ROOT}/bin" /usr/local/cuda/bin)
  if(kvevict_found_nvcc)
    set(kvevict_nvcc "${kvevict_found_nvcc}")
  endif()
endif()

# Adds a command for each .cu source; `objects` receives what they make, `others` the remaining sources.
function(kvevict_compile_to_ptx target architecture objects others)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "" "SOURCES;OPTIONS")
  set(made "")
  set(rest "")
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    if(NOT source MATCHES "\\.cu$")
      list(APPEND rest "${source}")
      continue()
    endif()
    get_filename_component(name "${source}" NAME)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}.dir/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/${target}.dir"
      COMMAND
        "${kvevict_nvcc}" -ccbin "${CMAKE_CXX_COMPILER}" -std=c++20 -O3 -lineinfo -Werror all-warnings --no-compress
        -gencode "arch=compute_${architecture},code=compute_${architecture}"
        "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" ${arg_OPTIONS} -MD -MF "${object}.d" -MT "${object}" -c
        "${source}" -o "${object}"
      DEPENDS "${source}"
      DEPFILE "${object}.d"
      COMMENT "Compiling ${name} to PTX for sm_${architecture}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND made "${object}")
  endforeach()
  set(${objects} "${made}" PARENT_SCOPE)
  set(${others} "${rest}" PARENT_SCOPE)
endfunction()

# The common part of both functions: `target` exists already.
function(kvevict_fill_ptx_target target architecture)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;OPTIONS;LIBS;PTX_LIBS")
  kvevict_compile_to_ptx(${target} ${architecture} objects others SOURCES ${arg_SOURCES} OPTIONS ${arg_OPTIONS})
  target_sources(${target} PRIVATE ${objects} ${others})
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  list(TRANSFORM arg_PTX_LIBS APPEND "_sm${architecture}")
  target_link_libraries(${target} PUBLIC ${arg_LIBS} ${arg_PTX_LIBS} kvevict::kvevict kvevict_ptx_emulator)
  target_link_libraries(${target} PRIVATE kvevict_warnings)
endfunction()

macro(kvevict_parse_ptx_arguments function)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;ARCHITECTURES;LIBS;PTX_LIBS;OPTIONS;ARGUMENTS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_ARCHITECTURES)
    message(FATAL_ERROR "${function}: NAME, SOURCES and ARCHITECTURES are needed, "
                        "'${arg_UNPARSED_ARGUMENTS}' is unknown")
  endif()
  if(NOT kvevict_nvcc)
    message(STATUS "${arg_NAME} skipped: there is no nvcc")
    return()
  endif()
endmacro()

function(kvevict_add_ptx_library)
  kvevict_parse_ptx_arguments(kvevict_add_ptx_library)
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    add_library(${arg_NAME}_sm${architecture} STATIC)
    kvevict_fill_ptx_target(${arg_NAME}_sm${architecture} ${architecture} SOURCES ${arg_SOURCES}
      OPTIONS ${arg_OPTIONS} LIBS ${arg_LIBS} PTX_LIBS ${arg_PTX_LIBS})
  endforeach()
endfunction()

function(kvevict_add_ptx_test)
  kvevict_parse_ptx_arguments(kvevict_add_ptx_test)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    set(target ${arg_NAME}_sm${architecture})
    add_executable(${target})
    kvevict_fill_ptx_target(${target} ${architecture} SOURCES ${arg_SOURCES}
      OPTIONS ${arg_OPTIONS} LIBS ${arg_LIBS} PTX_LIBS ${arg_PTX_LIBS})
    add_test(NAME ${target} COMMAND ${target} ${arg_ARGUMENTS})
    set_tests_properties(${target} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS cuda
                                              ENVIRONMENT "${arg_ENVIRONMENT}")
  endforeach()
endfunction()
