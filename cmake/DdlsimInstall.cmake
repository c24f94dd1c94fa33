# Install and export: `find_package(ddlsim)` gives ddlsim::ddlsim. Two components: `program` (with the data, man pages,
# completions and schemas) and `dev` (the library).
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY DDLSIM_ROOMS)
install(TARGETS ddlsim ${rooms} EXPORT ddlsimTargets COMPONENT dev)
if(DDLSIM_BUILD_CLI)
  install(TARGETS ddlsim_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  if(TARGET ddlsim_serve_program)
    install(TARGETS ddlsim_serve_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  endif()
  set(completions ${PROJECT_SOURCE_DIR}/sim/cli/completions)
  install(FILES ${completions}/ddlsim.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME ddlsim COMPONENT program)
  install(FILES ${completions}/ddlsim.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT program)
  # Debian's zsh looks here below /usr, and there below /usr/local.
  install(FILES ${completions}/_ddlsim DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
  install(FILES ${completions}/_ddlsim DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT local)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/sim/report/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/ddlsim
          COMPONENT program)
  # The program writes its own man pages, so a build for another machine has none.
  if(NOT CMAKE_CROSSCOMPILING)
    set(pages ${PROJECT_BINARY_DIR}/man1)
    add_custom_command(
      OUTPUT ${pages}/ddlsim.1
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:ddlsim_program> -DOUT=${pages}
              -P ${PROJECT_SOURCE_DIR}/cmake/DdlsimMan.cmake
      DEPENDS ddlsim_program ${PROJECT_SOURCE_DIR}/cmake/DdlsimMan.cmake
      VERBATIM)
    add_custom_target(ddlsim_man ALL DEPENDS ${pages}/ddlsim.1)
    install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  endif()
endif()
if(DDLSIM_BUILD_C)
  install(TARGETS ddlsim_c EXPORT ddlsimTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program
                                                       NAMELINK_COMPONENT dev)
  # Relative, so that an installation may move.
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/ddlsim.pc.in ${PROJECT_BINARY_DIR}/ddlsim.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ddlsim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endif()
# The server is the program's alone: its library, which needs cpp-httplib, is not installed.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ddlsim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        PATTERN serve EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models ${PROJECT_SOURCE_DIR}/hardware
        DESTINATION ${CMAKE_INSTALL_DATADIR}/ddlsim COMPONENT program)
# `ddlsim calibrate measure` builds it where the GPU is.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/calibrate DESTINATION ${CMAKE_INSTALL_DATADIR}/ddlsim/bench
        COMPONENT program PATTERN measured EXCLUDE)
install(EXPORT ddlsimTargets NAMESPACE ddlsim:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim COMPONENT dev)

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ddlsimConfig.cmake.in ${PROJECT_BINARY_DIR}/ddlsimConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim
  PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ddlsimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddlsimConfig.cmake ${PROJECT_BINARY_DIR}/ddlsimConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddlsim COMPONENT dev)

if(PROJECT_IS_TOP_LEVEL AND DDLSIM_BUILD_CLI)
  include(DdlsimPackage)
endif()
