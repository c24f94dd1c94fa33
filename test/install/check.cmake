# Builds a stranger's program against an installed ddlsim (find_package) or its sources (add_subdirectory), runs it.
cmake_minimum_required(VERSION 3.24)

set(work ${BUILD}/install-test/${WAY})
file(REMOVE_RECURSE ${work})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer DESTINATION ${work})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

set(options -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}")
if(WAY STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
  list(APPEND options -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_BUILD_TYPE=Debug)
else()
  # Beside BUILD, as deep as it and with its flags: a compiler cache has all of it. Without one as little as can be.
  set(library ${BUILD}-subdirectory)
  file(REMOVE_RECURSE ${library})
  list(APPEND options -DDDLSIM_SOURCE=${SOURCE} -DDDLSIM_BINARY=${library} -DCMAKE_UNITY_BUILD=ON)
  if(DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
    list(APPEND options -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=${RELEASE_FLAGS}"
         -DCMAKE_UNITY_BUILD_BATCH_SIZE=${BATCH} -DDDLSIM_WERROR=ON)
  else()
    list(APPEND options -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_UNITY_BUILD_BATCH_SIZE=24)
  endif()
endif()
run(${CMAKE_COMMAND} -S ${work}/consumer -B ${work}/build ${options})
run(${CMAKE_COMMAND} --build ${work}/build -j 2)
run(${work}/build/consumer)
if(NOT out MATCHES "step [0-9.]+ ms")
  message(FATAL_ERROR "the consumer printed: ${out}")
endif()

if(WAY STREQUAL "find_package")
  # The installed program finds its own data, wherever it is called from.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=DDLSIM_DATA ${work}/prefix/bin/ddlsim list models
                  WORKING_DIRECTORY / RESULT_VARIABLE status OUTPUT_VARIABLE out)
  if(NOT status EQUAL 0 OR NOT out MATCHES "resnet50")
    message(FATAL_ERROR "the installed program: ${status}\n${out}")
  endif()
endif()

if(WAY STREQUAL "find_package")
  foreach(path share/bash-completion/completions/ddlsim share/zsh/site-functions/_ddlsim
               share/zsh/vendor-completions/_ddlsim share/fish/vendor_completions.d/ddlsim.fish
               share/man/man1/ddlsim.1 share/man/man1/ddlsim-what-if.1 share/ddlsim/schemas/predict.json
               share/ddlsim/schemas/error.json)
    if(NOT EXISTS ${work}/prefix/${path})
      message(FATAL_ERROR "not installed: ${path}")
    endif()
  endforeach()
  if(EXISTS ${work}/prefix/include/ddlsim/serve)
    message(FATAL_ERROR "the server's header is installed, its library is not")
  endif()
endif()
# The guide's program in C, by pkg-config.
find_program(PKG_CONFIG pkg-config)
if(WAY STREQUAL "find_package" AND PKG_CONFIG AND EXISTS ${work}/prefix/include/ddlsim/ddlsim.h)
  file(GLOB_RECURSE pc ${work}/prefix/ddlsim.pc)
  if(NOT pc)
    message(FATAL_ERROR "no ddlsim.pc was installed")
  endif()
  file(WRITE ${work}/c.sh "set -eu
sed -n '/<!-- run c -->/,/^```$/p' ${SOURCE}/sim/README.md | sed '1,2d;$d' >${work}/job.c
export PKG_CONFIG_PATH=$(dirname ${pc})
libraries=$(pkg-config --variable=libdir ddlsim)
cc -std=c99 -Wall -Wextra -pedantic -Werror ${work}/job.c $(pkg-config --cflags --libs ddlsim) -o ${work}/job
env -u DDLSIM_DATA LD_LIBRARY_PATH=$libraries ${work}/job
")
  run(sh ${work}/c.sh)
  execute_process(COMMAND ${work}/prefix/bin/ddlsim predict --model resnet50 --node dgx-a100 --json OUTPUT_VARIABLE command)
  string(STRIP "${out}" out)
  string(STRIP "${command}" command)
  if(NOT out STREQUAL command)
    message(FATAL_ERROR "the program in C printed:\n${out}\nand the command:\n${command}")
  endif()
endif()
