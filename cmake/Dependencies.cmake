# Every outside library is found here, and nowhere else.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
pkg_check_modules(libdeflate REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(cairo REQUIRED IMPORTED_TARGET cairo)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(openssl REQUIRED IMPORTED_TARGET openssl>=3.0)
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp>=2.5)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
# Not through find_package: torch's CMake defines a protobuf of its own that does not link.
pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc++ protobuf)
find_program(RAVNEST_PROTOC protoc REQUIRED)
find_program(RAVNEST_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

if(RAVNEST_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

if(RAVNEST_TORCH)
  set(RAVNEST_PYTHON "" CACHE FILEPATH "A Python that has torch; the first one found if empty")
  if(RAVNEST_PYTHON)
    set(Python_EXECUTABLE "${RAVNEST_PYTHON}")
  endif()
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result)
  if(NOT torch_result EQUAL 0)
    message(FATAL_ERROR "expected torch in ${Python_EXECUTABLE}, got:\n${torch_error}"
                        "Run `make setup`, or set RAVNEST_PYTHON to a Python that has torch.")
  endif()
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # it warns of libraries that the wheel leaves out on purpose
  find_package(Torch REQUIRED PATHS "${torch_prefix}" NO_DEFAULT_PATH)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  find_library(RAVNEST_TORCH_PYTHON torch_python REQUIRED NO_DEFAULT_PATH
    PATHS "${TORCH_INSTALL_PREFIX}/lib")

  add_library(ravnest_torch INTERFACE)
  target_link_libraries(ravnest_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(ravnest_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
endif()
