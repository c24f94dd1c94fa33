# Install and export: `find_package(ddlsim)` gives ddlsim::ddlsim.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY DDLSIM_ROOMS)
install(TARGETS ddlsim ${rooms} EXPORT ddlsimTargets)
if(DDLSIM_BUILD_CLI)
  install(TARGETS ddlsim_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET ddlsim_serve_program)
    install(TARGETS ddlsim_serve_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()
if(DDLSIM_BUILD_C)
  install(TARGETS ddlsim_c EXPORT ddlsimTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # Relative, so that an installation may move.
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/ddlsim.pc.in ${PROJECT_BINARY_DIR}/ddlsim.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ddlsim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ddlsim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models ${PROJECT_SOURCE_DIR}/hardware
        DESTINATION ${CMAKE_INSTALL_DATADIR}/ddlsim)
# `ddlsim calibrate measure` builds it where the GPU is.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/calibrate DESTINATION ${CMAKE_INSTALL_DATADIR}/ddlsim/bench)
install(EXPORT ddlsimTargets NAMESPACE ddlsim:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim)

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ddlsimConfig.cmake.in ${PROJECT_BINARY_DIR}/ddlsimConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim
  PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ddlsimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddlsimConfig.cmake ${PROJECT_BINARY_DIR}/ddlsimConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim)
