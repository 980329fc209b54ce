# How targets of ours are made, so that a folder's CMakeLists says only what is its own.

# ravnest_add_library(<folder>): the static library of ravnest/<folder>, as ravnest::<folder>.
function(ravnest_add_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "*.cpp" "*.h")
  add_library(ravnest_${folder} STATIC ${sources})
  add_library(ravnest::${folder} ALIAS ravnest_${folder})
  target_include_directories(ravnest_${folder} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(ravnest_${folder} PRIVATE ravnest_flags)
endfunction()

# ravnest_add_test(<folder> [library...]): one GoogleTest program of tests/<folder>.
function(ravnest_add_test folder)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  add_executable(${folder}_test ${sources})
  # Compiled for a few runs, in half the time.
  if(RAVNEST_SANITIZE)
    target_compile_options(${folder}_test PRIVATE -O0)
  else()
    target_compile_options(${folder}_test PRIVATE -O1)
  endif()
  target_link_libraries(${folder}_test PRIVATE
    ${ARGN} ravnest_flags nlohmann_json::nlohmann_json GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${folder}_test
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
