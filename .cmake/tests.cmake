# tests/test_x.c becomes the program test_x and the ctest entry x. One of its first lines may say how it runs:
#   /* ctest: timeout=300 labels=e2e,slow serial */

pkg_check_modules(CUNIT REQUIRED IMPORTED_TARGET cunit)

set(HOLDFAST_TIMEOUT_FACTOR 1)
if(HOLDFAST_SANITIZE)
    set(HOLDFAST_TIMEOUT_FACTOR 5)
endif()

function(hf_test_properties test file)
    file(STRINGS ${file} marker LIMIT_INPUT 1024 LIMIT_COUNT 1 REGEX "ctest:")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    set(timeout 120)
    set(labels "")
    if(marker MATCHES "timeout=([0-9]+)")
        set(timeout ${CMAKE_MATCH_1})
    endif()
    if(marker MATCHES "labels=([a-z0-9_,]+)")
        string(REPLACE "," ";" labels ${CMAKE_MATCH_1})
    endif()
    math(EXPR timeout "${timeout} * ${HOLDFAST_TIMEOUT_FACTOR}")
    set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}")
    if(marker MATCHES " serial")
        set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

hf_sources(support tests)
set(programs ${support})
list(FILTER support EXCLUDE REGEX "/(test_|worker)[^/]*$")
list(FILTER programs INCLUDE REGEX "/worker[^/]*$")

# A library, so that a suite which needs no server links no driver.
add_library(holdfast_tests STATIC ${support})
hf_target(holdfast_tests PkgConfig::CUNIT)
target_compile_definitions(holdfast_tests PUBLIC HF_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

foreach(file ${programs})
    cmake_path(GET file STEM name)
    add_executable(test_${name} ${file})
    hf_target(test_${name} holdfast_tests holdfast_static PkgConfig::CUNIT m)
endforeach()

hf_sources(suites tests)
list(FILTER suites INCLUDE REGEX "/test_[^/]*$")
foreach(file ${suites})
    cmake_path(GET file STEM name)
    set(needs holdfast_tests holdfast_static)
    if(name MATCHES "^test_bench_")
        if(NOT TARGET holdfast_bench)
            continue()
        endif()
        list(PREPEND needs holdfast_bench)
    endif()
    if(HOLDFAST_SANITIZE AND name STREQUAL "test_bench_browser") # the page is made by bench_compare, too; here it is only looked at
        continue()
    endif()
    add_executable(${name} ${file})
    hf_target(${name} ${needs} PkgConfig::CUNIT m)
    string(REGEX REPLACE "^test_" "" test ${name})
    add_test(NAME ${test} COMMAND ${name})
    hf_test_properties(${test} ${file})
endforeach()

# Every public header compiles alone, as C and as C++.
pkg_check_modules(HEADERS QUIET ${HOLDFAST_PC_REQUIRES})
foreach(header ${HOLDFAST_PUBLIC_HEADERS})
    cmake_path(GET header STEM name)
    foreach(language c c++)
        add_test(NAME header_${name}_${language}
            COMMAND sh ${PROJECT_SOURCE_DIR}/tests/header.sh ${CMAKE_C_COMPILER} ${language} ${header}
            -I${PROJECT_SOURCE_DIR}/runtime -I${PROJECT_SOURCE_DIR}/pool ${HEADERS_CFLAGS})
        set_tests_properties(header_${name}_${language} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 60 LABELS api)
    endforeach()
endforeach()

add_test(NAME symbols COMMAND sh ${PROJECT_SOURCE_DIR}/tests/symbols.sh $<TARGET_FILE:holdfast> ${HOLDFAST_PUBLIC_HEADERS})
set_tests_properties(symbols PROPERTIES TIMEOUT 60 LABELS api)

# It compares rates, of which a sanitizer makes nonsense.
if(TARGET holdfast-bench AND HOLDFAST_POSTGRES AND NOT HOLDFAST_SANITIZE)
    add_test(NAME bench_fleet COMMAND sh ${PROJECT_SOURCE_DIR}/tests/bench_fleet.sh $<TARGET_FILE:holdfast-bench>)
    set_tests_properties(bench_fleet PROPERTIES TIMEOUT 600 LABELS e2e RUN_SERIAL ON)
endif()

# An installed holdfast, and one built without each database; sanitizers would only repeat it.
if(NOT HOLDFAST_SANITIZE)
    add_test(NAME install COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR})
    set_tests_properties(install PROPERTIES TIMEOUT 120 LABELS api)
    add_test(NAME without_databases COMMAND sh ${PROJECT_SOURCE_DIR}/tests/without_databases.sh ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR})
    set_tests_properties(without_databases PROPERTIES TIMEOUT 600 LABELS api PROCESSORS 2)
    add_test(NAME readme COMMAND sh ${PROJECT_SOURCE_DIR}/tests/readme.sh)
    set_tests_properties(readme PROPERTIES TIMEOUT 600 LABELS api)
    add_test(NAME quickstart COMMAND sh ${PROJECT_SOURCE_DIR}/bench/quickstart.sh)
    set_tests_properties(quickstart PROPERTIES TIMEOUT 600 LABELS api PASS_REGULAR_EXPRESSION "All sums agree with sha256sum")
endif()
