# The language, the build type and the flags of every target of ours.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With paths relative to the clone, so that one clone profits from what another has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=true
    CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE_PROGRAM}")
endif()

add_library(ravnest_flags INTERFACE)
target_compile_options(ravnest_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  -Wno-missing-field-initializers)  # designated initialisers leave fields at their defaults
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string's operator+ that cannot happen. ccache looks into
  # precompiled headers only with -fpch-preprocess.
  target_compile_options(ravnest_flags INTERFACE -Wno-restrict -fpch-preprocess)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # GCC 12's std::stable_sort calls a function that its own header deprecates.
  target_compile_options(ravnest_flags INTERFACE -Wno-deprecated-declarations)
endif()

if(RAVNEST_SANITIZE)
  set(sanitize "-fsanitize=${RAVNEST_SANITIZE}")
  target_compile_options(ravnest_flags INTERFACE
    ${sanitize} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ravnest_flags INTERFACE ${sanitize})
  if(RAVNEST_TORCH AND RAVNEST_SANITIZE MATCHES "undefined")
    # libtorch hides the type information that it would need.
    target_compile_options(ravnest_flags INTERFACE -fno-sanitize=vptr)
  endif()
endif()
if(RAVNEST_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RAVNEST_FUZZ needs Clang, got ${CMAKE_CXX_COMPILER_ID}; "
                        "use the preset asan.")
  endif()
  target_compile_options(ravnest_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
