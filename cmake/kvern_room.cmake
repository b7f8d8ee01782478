# kvern_unite(target size): up to `size` of its sources are compiled as one, which saves most of the time, that of the
# libraries' headers; cmake/unity_groups.py says which. 0: each alone.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py)
function(kvern_unite target size)
  if(NOT size)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^${CMAKE_SOURCE_DIR}/src/")
  execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py
                          ${size} ${CMAKE_SOURCE_DIR}/src ${sources}
                  OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line ${lines})
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
    UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # it takes an included source for a header
  endif()
endfunction()

# kvern_room(NAME name ROOMS rooms... LIBS libraries... [EXCLUDE regex] [THREADLESS])
#
# One room of the house: every .cc of src/<name> (but tests and fuzzers) becomes the library kvern_<name>; every
# *_test.cc goes into the test program <name>_test; every *_fuzz.cc becomes a fuzz target, with KVERN_FUZZ one of the
# whole build with a smoke run in ctest.
# THREADLESS: nothing in it knows of threads (tests/arrows_test.py looks), so the thread sanitizer leaves its tests out.
# Includes reach the rooms of ROOMS only by link order; tests/arrows_test.py holds them to the drawing.
function(kvern_room)
  cmake_parse_arguments(ROOM "THREADLESS" "NAME;EXCLUDE" "ROOMS;LIBS;TEST_LIBS" ${ARGN})
  set(here ${CMAKE_SOURCE_DIR}/src/${ROOM_NAME})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${here}/*.cc)
  if(ROOM_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ROOM_EXCLUDE}")
  endif()
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main|_main)\\.cc$")

  list(TRANSFORM ROOM_ROOMS PREPEND kvern_ OUTPUT_VARIABLE rooms)
  set(target kvern_${ROOM_NAME})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC kvern_flags ${rooms} ${ROOM_LIBS})
    kvern_unite(${target} ${KVERN_UNITY})
  else()
    add_library(${target} INTERFACE)  # no source yet
    target_link_libraries(${target} INTERFACE kvern_flags ${rooms} ${ROOM_LIBS})
  endif()

  if(ROOM_THREADLESS AND KVERN_SANITIZE STREQUAL "thread")
    set(tests "")
  endif()
  if(tests)
    add_executable(${ROOM_NAME}_test ${tests})
    target_link_libraries(${ROOM_NAME}_test PRIVATE ${target} ${ROOM_TEST_LIBS} GTest::gmock GTest::gtest_main)
    kvern_unite(${ROOM_NAME}_test ${KVERN_UNITY_TESTS})
    if(KVERN_SANITIZE)
      target_compile_definitions(${ROOM_NAME}_test PRIVATE KVERN_SANITIZED)  # for tests that weigh memory or time
    endif()
    add_test(NAME ${ROOM_NAME} COMMAND ${ROOM_NAME}_test)
    set_tests_properties(${ROOM_NAME} PROPERTIES LABELS unit TIMEOUT 3000)
  endif()

  foreach(fuzzer ${fuzzers})
    get_filename_component(name ${fuzzer} NAME_WE)
    add_executable(${name} ${fuzzer})
    target_link_libraries(${name} PRIVATE ${target})
    set(corpus ${CMAKE_BINARY_DIR}/corpus/${name})
    file(MAKE_DIRECTORY ${corpus})
    string(REPLACE "_fuzz.cc" "_corpus" seeds ${fuzzer})
    if(NOT IS_DIRECTORY ${seeds})
      set(seeds "")
    endif()
    if(KVERN_FUZZ)
      target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
      add_test(NAME ${name} COMMAND ${name} -runs=20000 -max_total_time=20 -max_len=8192 -timeout=10 ${corpus} ${seeds})
      set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
    else()
      # Built when asked for by name: it replays inputs, under gcc too.
      target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/base/fuzz/replay_main.cc)
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endforeach()
endfunction()
