# Headers, libraries, the pkg-config file and the CMake package.

include(CMakePackageConfigHelpers)

file(GLOB HOLDFAST_PUBLIC_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pool/holdfast*.h ${PROJECT_SOURCE_DIR}/runtime/holdfast*.h)
hf_leave_out(HOLDFAST_PUBLIC_HEADERS)
install(FILES ${HOLDFAST_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Two exports: a program that uses the shared library needs no client library to be found.
set(HOLDFAST_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
install(TARGETS holdfast EXPORT holdfastTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS holdfast_static EXPORT holdfastStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(export holdfastTargets holdfastStaticTargets)
    install(EXPORT ${export} NAMESPACE holdfast:: DESTINATION ${HOLDFAST_PACKAGE_DIR})
endforeach()

set(HOLDFAST_STATIC_MODULES "")
foreach(pair JANSSON=jansson POSTGRES=libpq MYSQL=libmariadb SQLITE=sqlite3)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    if(name STREQUAL "JANSSON" OR HOLDFAST_${name})
        list(JOIN pair " " words)
        string(APPEND HOLDFAST_STATIC_MODULES "holdfast_module(${words})\n")
    endif()
endforeach()
configure_package_config_file(${PROJECT_SOURCE_DIR}/runtime/holdfastConfig.cmake.in holdfastConfig.cmake
    INSTALL_DESTINATION ${HOLDFAST_PACKAGE_DIR})
write_basic_package_version_file(holdfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/holdfastConfig.cmake ${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake
    DESTINATION ${HOLDFAST_PACKAGE_DIR})

# Where the file lies tells the prefix, so that `cmake --install --prefix` may choose it.
file(RELATIVE_PATH HOLDFAST_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
list(JOIN HOLDFAST_PC_REQUIRES ", " HOLDFAST_PC_REQUIRES)
configure_file(${PROJECT_SOURCE_DIR}/runtime/holdfast.pc.in holdfast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
