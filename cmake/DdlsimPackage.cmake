# `cpack -G DEB` in a build folder: ddlsim (programs, C library, data, man pages, completions, schemas) and libddlsim-dev;
# with the Python module (preset python) also python3-ddlsim.
set(CPACK_PACKAGE_NAME ddlsim)
set(CPACK_PACKAGE_VENDOR ddlsim)
set(CPACK_PACKAGE_CONTACT "The ddlsim authors <ddlsim@localhost>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
    "Says how long one training step takes on a cluster, what holds it back, and what would change it.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program dev)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ddlsim)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# What the program is linked with; of what build machine's versions, dpkg-shlibdeps knows.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libddlsim-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "The library, its headers, and what find_package(ddlsim) needs.")
# As ddlsimConfig.cmake asks for them; the data is the program's.
string(JOIN ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "ddlsim (= ${PROJECT_VERSION})" libexpected-dev libfmt-dev
       libyaml-cpp-dev libpugixml-dev libsimdjson-dev zlib1g-dev libsqlite3-dev)
if(DDLSIM_BUILD_PYTHON)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-ddlsim)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
  # The module is for the Python that it was built with, and reads the program's data.
  math(EXPR next_minor "${Python3_VERSION_MINOR} + 1")
  string(JOIN ", " CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "ddlsim (= ${PROJECT_VERSION})"
         "python3 (>= ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR})" "python3 (<< ${Python3_VERSION_MAJOR}.${next_minor})"
         python3-numpy)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, python3-distributed")
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "The Python module: the program's questions as functions, answers as objects.")
endif()
include(CPack)
