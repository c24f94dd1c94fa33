# Runs the command a golden file names and compares all it prints, or (UPDATE=ON) writes it down.
#
# A golden file: lines that start with '#' say what it is for; '# RUN: ddlsim ...' is the command, run at the top of the
# source tree; the rest is stdout.
cmake_minimum_required(VERSION 3.24)

foreach(golden IN LISTS GOLDEN)
  file(READ ${golden} whole)
  string(REGEX MATCH "^(#[^\n]*\n)+" head "${whole}")
  string(REGEX MATCH "# RUN: ddlsim ([^\n]*)\n" run "${head}")
  if(NOT run)
    message(FATAL_ERROR "${golden}: no line '# RUN: ddlsim ...'")
  endif()
  separate_arguments(arguments UNIX_COMMAND "${CMAKE_MATCH_1}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env DDLSIM_DATA=${DATA} ${PROGRAM} ${arguments}
    WORKING_DIRECTORY ${DATA}
    OUTPUT_VARIABLE out
    ERROR_VARIABLE err
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${golden}: exit status ${status}\n${err}")
  endif()
  # Which data it was would change with every number of every file.
  string(REGEX REPLACE "\"data\":( ?)\"[0-9a-f]+\"" "\"data\":\\1\"0000000000000000\"" out "${out}")
  if(UPDATE)
    file(WRITE ${golden} "${head}${out}")
  elseif(NOT whole STREQUAL "${head}${out}")
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/actual.golden "${head}${out}")
    execute_process(COMMAND diff -u ${golden} ${CMAKE_CURRENT_BINARY_DIR}/actual.golden OUTPUT_VARIABLE difference)
    message(FATAL_ERROR "a prediction or its view changed. If it should, run the target update_golden, review the "
                        "diff, and say why in CHANGELOG under Predictions.\n${difference}")
  endif()
endforeach()
