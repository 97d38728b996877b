# Flags every target shares, and fak_room(), which makes one static library and one test program a room.

add_library(fak_flags INTERFACE)
target_compile_options(fak_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  # Numerics rule 0: no contraction anywhere, so that every fma is one that the source spells.
  -ffp-contract=off
  # gcc's guesses about sizes are wrong for std::vector once it is inlined; sanitizers look for real ones.
  # clang 19 reports what libstdc++ 12 does inside std::stable_sort.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-restrict>
  $<$<BOOL:${WERROR}>:-Werror>)
target_include_directories(fak_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Ninja starts a job a core; these pools keep a small machine from running out of memory. Links hold
# the whole program's debug information, and files that include Asio take up to 1 GB each.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR link_jobs "(${cores} + 1) / 2")
math(EXPR heavy_jobs "${memory_mib} / 2048 + 1")
set_property(GLOBAL PROPERTY JOB_POOLS link=${link_jobs} heavy=${heavy_jobs})
set(CMAKE_JOB_POOL_LINK link)

# The rooms that parse bytes from files, clients and peers: .ci/run tests these, and the fuzz
# corpora, with sanitizers ("--target foreign", "ctest -L foreign").
set(FAK_FOREIGN_ROOMS base wire text tensor model kv hub metrics net ride fleet gateway)
add_custom_target(foreign)

# fak_room(NAME [HEAVY] [USES room...] [LINKS library...] [EXTRA_SOURCES file...]
#   [TEST_USES room...] [TEST_LINKS library...] [APART folder])
# Sources are the .cc files beside the room's CMakeLists.txt (tests end in _test.cc, main.cc belongs
# to an executable); they are globbed, so adding a file needs no edit here. HEAVY says that compiling
# one file takes about a gigabyte. APART: a folder of the room whose own CMakeLists.txt builds it.
function(fak_room name)
  cmake_parse_arguments(ROOM "HEAVY" "APART" "USES;LINKS;TEST_USES;TEST_LINKS;EXTRA_SOURCES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(ROOM_APART)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ROOM_APART}/")
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  list(APPEND sources ${ROOM_EXTRA_SOURCES})
  list(REMOVE_DUPLICATES sources)
  set(uses ${ROOM_USES})
  list(TRANSFORM uses PREPEND fak_)
  if(sources)
    add_library(fak_${name} STATIC ${sources})
    target_link_libraries(fak_${name} PUBLIC fak_flags ${uses} ${ROOM_LINKS})
    if(ROOM_HEAVY)
      set_target_properties(fak_${name} PROPERTIES JOB_POOL_COMPILE heavy)
    endif()
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
    # A third less time of compilers; the tests of tensor compute too much themselves.
    if(NOT name STREQUAL tensor)
      target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
    endif()
    add_test(NAME unit.${name} COMMAND ${name}_test --gtest_brief=1
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(labels unit)
    if(name IN_LIST FAK_FOREIGN_ROOMS)
      list(APPEND labels foreign)
      add_dependencies(foreign ${name}_test)
    endif()
    set_tests_properties(unit.${name} PROPERTIES LABELS "${labels}" TIMEOUT 300)
  endif()
endfunction()

# fak_first_line_links(FILE KIND RESULT): the libraries that the first line of a program names,
# "// KIND: links fak_wire fak_base". Programs of fuzz/ and bench/micro say so themselves, so that adding
# one is adding a file.
function(fak_first_line_links file kind result)
  file(STRINGS ${file} first LIMIT_COUNT 1)
  if(NOT first MATCHES "^// ${kind}: links ([a-z_ ]+)$")
    message(FATAL_ERROR "${file}: the first line must be '// ${kind}: links fak_ROOM...'")
  endif()
  separate_arguments(libraries UNIX_COMMAND "${CMAKE_MATCH_1}")
  set(${result} ${libraries} PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endfunction()
