# Which files belong to this build. A driver, a dialect or a strategy is one new file: nothing is listed by name.

set(HOLDFAST_WITHOUT "")

# hf_database(OPTION MODULE): the client library of one database; without it, the files with its name are left out.
macro(hf_database name module)
    if(HOLDFAST_${name})
        pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
        list(APPEND HOLDFAST_DEPENDENCIES PkgConfig::${name})
        list(APPEND HOLDFAST_PC_REQUIRES ${module})
        list(APPEND HOLDFAST_DEFINITIONS HOLDFAST_${name}=1)
    else()
        list(APPEND HOLDFAST_DEFINITIONS HOLDFAST_${name}=0)
        string(TOLOWER ${name} without)
        list(APPEND HOLDFAST_WITHOUT ${without})
    endif()
endmacro()

# hf_leave_out(LIST): takes out the files that are named for a database which this build is made without. Dialects stay: they
# are text, need no client library, and describe their database to the rest of strategies/.
function(hf_leave_out list)
    set(files ${${list}})
    foreach(without ${HOLDFAST_WITHOUT})
        list(FILTER files EXCLUDE REGEX "/(pool|runtime|bench|tests)/[^/]*${without}[^/]*$")
    endforeach()
    set(${list} ${files} PARENT_SCOPE)
endfunction()

# hf_sources(LIST FOLDER...): the C files of these folders.
function(hf_sources list)
    set(files "")
    foreach(folder ${ARGN})
        file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
        list(APPEND files ${found})
    endforeach()
    hf_leave_out(files)
    set(${list} ${files} PARENT_SCOPE)
endfunction()
