# Writes OUT, a C++ file with the page of FOLDER: page.html with page.css and page.js in it, and their hashes.
cmake_minimum_required(VERSION 3.24)
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
file(READ ${FOLDER}/page.js script)
file(SHA256 ${FOLDER}/page.css style_hash)
file(SHA256 ${FOLDER}/page.js script_hash)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT} "// Made by cmake/embed_page.cmake.
#include \"page_data.h\"

namespace ddlsim::service {
const std::string_view kPage = R\"-page-(${page})-page-\";
const std::string_view kStyleHash = \"${style_hash}\";
const std::string_view kScriptHash = \"${script_hash}\";
}  // namespace ddlsim::service
")
