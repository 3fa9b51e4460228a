# SPDX-License-Identifier: Apache-2.0
#
# What tests, benchmarks and examples are built with; never part of the library's own interface.

# Warnings. Link it PRIVATE.
add_library(kvevict_warnings INTERFACE)
target_compile_options(
  kvevict_warnings
  INTERFACE $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion>
            # GCC 12 at -O3 sees overlapping and overlong copies inside its own strings and vectors (GCC bugs 105651, 105329).
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds>
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-stringop-overflow>
            $<$<AND:$<BOOL:${KVEVICT_WERROR}>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-Werror>)

# This machine's instruction set. It changes Eigen's alignment and with it the layout of types, so whatever shares
# objects with a target that has it must have it too: libraries link it PUBLIC.
add_library(kvevict_native INTERFACE)
if(KVEVICT_NATIVE)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    target_compile_options(kvevict_native INTERFACE -mcpu=native)
  else()
    target_compile_options(kvevict_native INTERFACE -march=native)
    # GCC 12 finds uninitialised variables in its own AVX-512 intrinsics (GCC bug 105593).
    target_compile_options(kvevict_native INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized$<SEMICOLON>-Wno-maybe-uninitialized>)
  endif()
endif()

# Of `undefined`, what a sanitizer of memory reports anyway is left out: it takes time to compile.
set(kvevict_sanitizer_options -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)

# Sanitizers concern every object of an executable, hence folders and not targets. clang++ takes half the time of g++.
if(KVEVICT_SANITIZE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("-fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/sanitize_ignore.txt")
  endif()
  add_compile_options(-fsanitize=${KVEVICT_SANITIZE} ${kvevict_sanitizer_options})
  add_link_options(-fsanitize=${KVEVICT_SANITIZE})
endif()
