# What every target of holdfast is compiled and linked with.

set(HOLDFAST_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wformat=2 -Wvla -Wundef)
set(HOLDFAST_HARDENING -fstack-protector-strong -fstack-clash-protection)
set(HOLDFAST_HARDENING_LINK -Wl,-z,relro -Wl,-z,now)

# hf_target(TARGET [LIBRARY...]): our flags, our include paths, the libraries that this build needs.
function(hf_target target)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE HOLDFAST_VERSION="${PROJECT_VERSION}" ${HOLDFAST_DEFINITIONS})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/pool ${PROJECT_SOURCE_DIR}/runtime)
    target_compile_options(${target} PRIVATE ${HOLDFAST_WARNINGS} $<$<BOOL:${HOLDFAST_WERROR}>:-Werror>)
    target_link_libraries(${target} PRIVATE ${ARGN} ${HOLDFAST_DEPENDENCIES})
    if(HOLDFAST_SANITIZE)
        target_compile_options(${target} PRIVATE -fno-omit-frame-pointer)
    else()
        target_compile_options(${target} PRIVATE "$<$<CONFIG:Release,RelWithDebInfo>:${HOLDFAST_HARDENING}>")
        # A compiler that sets _FORTIFY_SOURCE by itself would warn of a second definition.
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-U_FORTIFY_SOURCE>
            $<$<CONFIG:Release,RelWithDebInfo>:-D_FORTIFY_SOURCE=2>)
    endif()
endfunction()

add_link_options("$<$<CONFIG:Release,RelWithDebInfo>:${HOLDFAST_HARDENING_LINK}>")
if(HOLDFAST_SANITIZE)
    add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()
