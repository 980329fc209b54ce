# cmake -DOUTPUT=<file.cpp> -DFILES=<list> -P embed.cmake: writes the files as byte arrays, found by
# name through find_page_file() (page.h).
set(arrays "")
set(cases "")
set(number 0)
foreach(file IN LISTS FILES)
  cmake_path(GET file FILENAME name)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {\n${bytes}};\n")
  string(APPEND cases "  if (name == \"${name}\") {\n"
    "    return {reinterpret_cast<const char*>(kFile${number}), sizeof(kFile${number})};\n  }\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Made by embed.cmake.
#include \"ravnest/dashboard/page.h\"

namespace ravnest::dashboard {

namespace {
${arrays}
}  // namespace

std::string_view find_page_file(std::string_view name) {
${cases}  return {};
}

}  // namespace ravnest::dashboard
")
