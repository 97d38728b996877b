# Flags every target shares, and fak_room(), which makes one static library and one test program a room.

add_library(fak_flags INTERFACE)
target_compile_options(fak_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  # Numerics rule 0: no contraction anywhere, so that every fma is one that the source spells.
  -ffp-contract=off
  $<$<BOOL:${WERROR}>:-Werror>)
target_include_directories(fak_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

include(GNUInstallDirs)
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# fak_room(NAME [USES room...] [LINKS library...] [TEST_LINKS library...])
# Sources are the .cc files beside the room's CMakeLists.txt (tests end in _test.cc); they are
# globbed, so adding a file needs no edit here.
function(fak_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LINKS;TEST_USES;TEST_LINKS;EXTRA_SOURCES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(APPEND sources ${ROOM_EXTRA_SOURCES})
  list(REMOVE_DUPLICATES sources)
  set(uses ${ROOM_USES})
  list(TRANSFORM uses PREPEND fak_)
  if(sources)
    add_library(fak_${name} STATIC ${sources})
    target_link_libraries(fak_${name} PUBLIC fak_flags ${uses} ${ROOM_LINKS})
  else()
    add_library(fak_${name} INTERFACE)
    target_link_libraries(fak_${name} INTERFACE fak_flags ${uses} ${ROOM_LINKS})
  endif()
  if(DEVELOPER AND tests)
    set(test_uses ${ROOM_TEST_USES})
    list(TRANSFORM test_uses PREPEND fak_)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE fak_${name} ${test_uses} ${ROOM_TEST_LINKS}
      GTest::gmock GTest::gtest_main)
    add_test(NAME unit.${name} COMMAND ${name}_test --gtest_brief=1
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()
