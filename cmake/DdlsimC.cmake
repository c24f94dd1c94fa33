# libddlsim.so, the C interface (include/ddlsim/ddlsim.h). Its rooms are position-independent anyhow, and it costs one link.
# SOVERSION is DDLSIM_ABI of the header; sim/c/ddlsim.map lists what it shows.
add_library(ddlsim_c SHARED ${PROJECT_SOURCE_DIR}/sim/c/ddlsim.cpp)
add_library(ddlsim::c ALIAS ddlsim_c)
set_target_properties(
  ddlsim_c
  PROPERTIES OUTPUT_NAME ddlsim EXPORT_NAME c VERSION 1.0.0 SOVERSION 1 CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/sim/c/ddlsim.map)
target_compile_definitions(ddlsim_c PRIVATE DDLSIM_SOURCE_DATA="${PROJECT_SOURCE_DIR}" DDLSIM_VERSION="${PROJECT_VERSION}")
target_compile_features(ddlsim_c PRIVATE cxx_std_20)
target_include_directories(ddlsim_c PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(ddlsim_c PRIVATE $<BUILD_INTERFACE:ddlsim_service> $<BUILD_INTERFACE:ddlsim_warnings> fmt::fmt ${CMAKE_DL_LIBS})
# Sanitizers leave their own symbols to the program.
string(FIND "${CMAKE_CXX_FLAGS}" "-fsanitize" sanitized)
if(sanitized EQUAL -1)
  target_link_options(ddlsim_c PRIVATE LINKER:--no-undefined)
endif()
target_link_options(ddlsim_c PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/sim/c/ddlsim.map LINKER:--exclude-libs,ALL)
