# SPDX-License-Identifier: Apache-2.0
#
# What nvcc builds, run by the PTX emulator. Include this file; without nvcc the functions say so and add nothing.
#
#   kvevict_add_ptx_library(NAME <name> SOURCES <file>... ARCHITECTURES <number>...
#                           [LIBS <target>...] [OPTIONS <option of nvcc>...])
#
# A static library of sources that nvcc compiles (those that end in .cu, with the PTX of each architecture, as in 80) and
# that the C++ compiler does (all others). LIBS may be such libraries too; nvcc gets the include directories of all.
#
#   kvevict_add_ptx_test(... as above ... [ARGUMENTS <argument>...] [TIMEOUT <seconds>] [LABELS <label>...]
#                        [SETTINGS <word>...] [ENVIRONMENT <VAR=value>...])
#
# An executable <name>, and for each architecture a ctest test <name>_sm<number> that runs it on such a device: with
# KVEVICT_PTX=sm_<number>,<word>,... (words as in ptx_settings.hpp). Exit code 77 counts as skipped.
include_guard()

set(kvevict_nvcc "${KVEVICT_NVCC}")
if(NOT kvevict_nvcc)
  find_program(kvevict_found_nvcc nvcc HINTS "$ENV{CUDACXX}" "$ENV{KVEVICT_CUDA_ROOT}/bin" /usr/local/cuda/bin)
  if(kvevict_found_nvcc)
    set(kvevict_nvcc "${kvevict_found_nvcc}")
  endif()
endif()

# Fills `target`, which exists: a command of nvcc for each .cu source, and the rest as usual.
function(kvevict_fill_ptx_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ARCHITECTURES;OPTIONS;LIBS")
  set(gencode "")
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    list(APPEND gencode -gencode "arch=compute_${architecture},code=compute_${architecture}")
  endforeach()
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  set(objects "${CMAKE_CURRENT_BINARY_DIR}/${target}.nvcc")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    if(NOT source MATCHES "\\.cu$")
      target_sources(${target} PRIVATE "${source}")
      continue()
    endif()
    get_filename_component(name "${source}" NAME)
    set(object "${objects}/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${objects}"
      COMMAND
        "${kvevict_nvcc}" -ccbin "${CMAKE_CXX_COMPILER}" -std=c++20 -O1 -lineinfo -Werror all-warnings --no-compress
        ${gencode} "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" ${arg_OPTIONS} -MD -MF "${object}.d" -MT
        "${object}" -c "${source}" -o "${object}"
      DEPENDS "${source}"
      DEPFILE "${object}.d"
      COMMENT "Compiling ${name} with its PTX"
      COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE "${object}")
  endforeach()
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC ${arg_LIBS} kvevict::kvevict kvevict_ptx_emulator)
  target_link_libraries(${target} PRIVATE kvevict_warnings)
endfunction()

# Both public functions: `kind` is LIBRARY or TEST.
function(kvevict_add_ptx_target kind)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;TIMEOUT"
                        "SOURCES;ARCHITECTURES;LIBS;OPTIONS;ARGUMENTS;LABELS;SETTINGS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_ARCHITECTURES)
    message(FATAL_ERROR "PTX target '${arg_NAME}': NAME, SOURCES and ARCHITECTURES are needed, "
                        "'${arg_UNPARSED_ARGUMENTS}' is unknown")
  endif()
  if(NOT kvevict_nvcc)
    message(STATUS "${arg_NAME} skipped: there is no nvcc")
    return()
  endif()
  if(kind STREQUAL "LIBRARY")
    add_library(${arg_NAME} STATIC)
  else()
    add_executable(${arg_NAME})
  endif()
  kvevict_fill_ptx_target(
    ${arg_NAME}
    SOURCES ${arg_SOURCES}
    ARCHITECTURES ${arg_ARCHITECTURES}
    OPTIONS ${arg_OPTIONS}
    LIBS ${arg_LIBS})
  if(kind STREQUAL "LIBRARY")
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    set(test ${arg_NAME}_sm${architecture})
    list(JOIN arg_SETTINGS "," words)
    add_test(NAME ${test} COMMAND ${arg_NAME} ${arg_ARGUMENTS})
    set_tests_properties(
      ${test}
      PROPERTIES SKIP_RETURN_CODE 77
                 TIMEOUT ${arg_TIMEOUT}
                 LABELS "cuda;${arg_LABELS}"
                 ENVIRONMENT "KVEVICT_PTX=sm_${architecture},${words};${arg_ENVIRONMENT}")
  endforeach()
endfunction()

function(kvevict_add_ptx_library)
  kvevict_add_ptx_target(LIBRARY ${ARGV})
endfunction()

function(kvevict_add_ptx_test)
  kvevict_add_ptx_target(TEST ${ARGV})
endfunction()
