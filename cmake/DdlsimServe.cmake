# `ddlsim serve`: the room serve (cpp-httplib) and the program ddlsim-serve beside ddlsim. Without cpp-httplib, neither.
# Debian's is a library compiled with these three; its classes have other members without them.
find_library(DDLSIM_HTTPLIB cpp-httplib)
find_path(DDLSIM_HTTPLIB_INCLUDE httplib.h)
if(NOT DDLSIM_HTTPLIB OR NOT DDLSIM_HTTPLIB_INCLUDE)
  message(STATUS "cpp-httplib not found (Debian: libcpp-httplib-dev): no `ddlsim serve`")
  return()
endif()
set(sources server.cpp connection.cpp connection_threads.cpp gate.cpp metrics.cpp workers.cpp)
list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/sim/serve/)
add_library(ddlsim_serve STATIC ${sources})
target_compile_definitions(ddlsim_serve PRIVATE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
target_include_directories(ddlsim_serve SYSTEM PRIVATE ${DDLSIM_HTTPLIB_INCLUDE})
target_link_libraries(ddlsim_serve PUBLIC ddlsim_service PRIVATE ddlsim_warnings fmt::fmt ${DDLSIM_HTTPLIB})

add_executable(ddlsim_serve_program sim/cli/serve_main.cpp)
set_target_properties(ddlsim_serve_program PROPERTIES OUTPUT_NAME ddlsim-serve RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
target_link_libraries(ddlsim_serve_program PRIVATE ddlsim_serve ddlsim_flags)
foreach(soon ddlsim_serve ddlsim_serve_program)
  target_compile_options(${soon} PRIVATE ${soon_executed})
endforeach()
# Whoever builds the one gets the other.
add_dependencies(ddlsim_program ddlsim_serve_program)
