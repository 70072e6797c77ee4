# Install rules: the shared library with its headers, the kiln tool, the
# CMake package Kiln::kiln and a pkg-config file. The tree can be moved: every
# path in it is relative to the file that holds it.
include(CMakePackageConfigHelpers)
include(KilnHeaders)

set(KILN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)

if(TARGET kiln)
  install(TARGETS kiln EXPORT KilnTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  list(TRANSFORM KILN_PUBLIC_HEADERS PREPEND include/ OUTPUT_VARIABLE headers)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kiln)

  install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${KILN_CMAKE_DIR})
  configure_package_config_file(cmake/KilnConfig.cmake.in
    ${PROJECT_BINARY_DIR}/cmake/KilnConfig.cmake
    INSTALL_DESTINATION ${KILN_CMAKE_DIR}
    NO_SET_AND_CHECK_MACRO)
  # Before 1.0 a new minor version may break its users.
  write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/cmake/KilnConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES
    ${PROJECT_BINARY_DIR}/cmake/KilnConfig.cmake
    ${PROJECT_BINARY_DIR}/cmake/KilnConfigVersion.cmake
    DESTINATION ${KILN_CMAKE_DIR})

  set(KILN_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH KILN_PC_PREFIX
    ${CMAKE_INSTALL_PREFIX}/${KILN_PC_DIR} ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" KILN_PC_PREFIX "${KILN_PC_PREFIX}")
  configure_file(cmake/kiln.pc.in ${PROJECT_BINARY_DIR}/cmake/kiln.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/kiln.pc DESTINATION ${KILN_PC_DIR})
endif()

if(TARGET kiln_tool)
  install(TARGETS kiln_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS kiln_profiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
