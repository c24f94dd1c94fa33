# Puts sim/report/schemas/*.json into the room report (ddlsim/report/schemas.h).
file(GLOB schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/sim/report/schemas/*.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schemas})
set(rows "")
foreach(schema ${schemas})
  get_filename_component(name ${schema} NAME_WE)
  file(READ ${schema} text)
  string(APPEND rows "    {\"${name}\", R\"schema(${text})schema\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/schemas.cpp @ONLY CONTENT
"// Made by cmake/DdlsimSchemas.cmake.
#include \"ddlsim/report/schemas.h\"

#include <array>

namespace ddlsim::report {
namespace {

constexpr auto kSchemas = std::to_array<Schema>({
@rows@});

}  // namespace

std::span<const Schema> schemas() { return kSchemas; }

}  // namespace ddlsim::report
")
target_sources(ddlsim_report PRIVATE ${PROJECT_BINARY_DIR}/schemas.cpp)
set_source_files_properties(${PROJECT_BINARY_DIR}/schemas.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
