# One flag set and one way to declare a room, so that every room is built alike.

# yaml-cpp 0.7 (Debian 12) has no namespace on its target; 0.8 has.
if(TARGET yaml-cpp::yaml-cpp)
  set(DDLSIM_YAML_TARGET yaml-cpp::yaml-cpp)
else()
  set(DDLSIM_YAML_TARGET yaml-cpp)
endif()

add_library(ddlsim_warnings INTERFACE)
target_compile_options(
  ddlsim_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wswitch-enum
            # g++ 12 sees overlaps in std::string (GCC bug 105651) and holes in moved tl::expected that are not there.
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
            $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
            # A file that is joined with others is no main file to g++, and what is private to it looks like a header's.
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage>
            $<$<BOOL:${DDLSIM_WERROR}>:-Werror>)

# ddlsim_room(NAME ROOT source... [USES room...]): sources live in ROOT/NAME, ROOT being lib or sim; public headers are
# include/ddlsim/NAME/*.h. A room without sources is headers alone.
function(ddlsim_room name root)
  cmake_parse_arguments(ROOM "" "" "USES" ${ARGN})
  list(TRANSFORM ROOM_UNPARSED_ARGUMENTS PREPEND ${PROJECT_SOURCE_DIR}/${root}/${name}/)
  set(public INTERFACE)
  if(ROOM_UNPARSED_ARGUMENTS)
    set(public PUBLIC)
    add_library(ddlsim_${name} STATIC ${ROOM_UNPARSED_ARGUMENTS})
    set_target_properties(ddlsim_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    # The same bits whatever the compiler thinks of fused multiply-add; what no header declares is private to its file.
    target_compile_options(ddlsim_${name} PRIVATE -ffp-contract=off -Wmissing-declarations)
    target_link_libraries(ddlsim_${name} PRIVATE $<BUILD_INTERFACE:ddlsim_warnings> fmt::fmt)
    target_include_directories(ddlsim_${name} PRIVATE ${PROJECT_SOURCE_DIR}/${root}/${name}) # of a room in parts
  else()
    add_library(ddlsim_${name} INTERFACE)
  endif()
  add_library(ddlsim::${name} ALIAS ddlsim_${name})
  set_target_properties(ddlsim_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(ddlsim_${name} ${public} cxx_std_20)
  target_include_directories(ddlsim_${name} ${public} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(ddlsim_${name} ${public} tl::expected)
  foreach(used ${ROOM_USES})
    target_link_libraries(ddlsim_${name} ${public} ddlsim_${used})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY DDLSIM_ROOMS ddlsim_${name})
endfunction()
