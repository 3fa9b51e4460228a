# SPDX-License-Identifier: Apache-2.0

# Reads version_major, version_minor and version_patch from the header, the one home of the version.
function(kvevict_read_version header out)
  file(READ "${header}" text)
  set(numbers "")
  foreach(part IN ITEMS major minor patch)
    if(NOT text MATCHES "version_${part} = ([0-9]+);")
      message(FATAL_ERROR "${header}: no 'version_${part} = <number>;'")
    endif()
    list(APPEND numbers "${CMAKE_MATCH_1}")
  endforeach()
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()
