# Writes every man page that PROGRAM has into the folder OUT.
cmake_minimum_required(VERSION 3.24)

function(run variable)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_VARIABLE out RESULT_VARIABLE status ERROR_VARIABLE err)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ddlsim help ${ARGN}: ${status}\n${err}")
  endif()
  set(${variable} "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${OUT})
run(all --json)
string(JSON count LENGTH "${all}" commands)
math(EXPR last "${count} - 1")
# The program's own page last: it says that all are there.
foreach(i RANGE ${last} 0 -1)
  string(JSON name GET "${all}" commands ${i} name)
  string(REPLACE " " ";" words "${name}")
  list(POP_FRONT words)
  run(page ${words} --format man)
  string(REPLACE " " "-" name "${name}")
  file(WRITE ${OUT}/${name}.1 "${page}")
endforeach()
