# Sets the time limits of the tests of a build by the speed that the machine has now: as many
# processes as the tests will have do a fixed piece of work, and where that takes longer than on a
# quiet machine, so may each test. Prints one line. The factor also reaches the tests' own limits,
# in their environment (TANDEM_TEST_TIME_FACTOR).
#
#     cmake -DBUILD=build/release -DJOBS=2 -P tests/set_time_limits.cmake
#
# ADDITIONS      the work of a process
# REFERENCE_MS   what it may take for a factor of 1

# Each of two processes takes 1.0 s for so many additions on two quiet cores (AMD EPYC, CMake 3.25).
if(NOT DEFINED ADDITIONS)
  set(ADDITIONS 400000)
endif()
if(NOT DEFINED REFERENCE_MS)
  set(REFERENCE_MS 1500)
endif()
# Tests do not wait longer for a machine that is still slower.
set(most 20)

if(DEFINED WORK)
  set(i 0)
  while(i LESS WORK)
    math(EXPR i "${i} + 1")
  endwhile()
  return()
endif()

function(read_milliseconds result)
  string(TIMESTAMP microseconds "%s%f")
  math(EXPR milliseconds "${microseconds} / 1000")
  set(${result} ${milliseconds} PARENT_SCOPE)
endfunction()

# All commands of one execute_process run at the same time.
set(commands "")
foreach(job RANGE 1 ${JOBS})
  list(APPEND commands COMMAND "${CMAKE_COMMAND}" -DWORK=${ADDITIONS}
       -P "${CMAKE_CURRENT_LIST_FILE}")
endforeach()
read_milliseconds(begin)
execute_process(${commands} COMMAND_ERROR_IS_FATAL ANY)
read_milliseconds(end)

math(EXPR took "${end} - ${begin}")
math(EXPR factor "(${took} + ${REFERENCE_MS} - 1) / ${REFERENCE_MS}")
if(factor LESS 1)
  set(factor 1)
elseif(factor GREATER most)
  set(factor ${most})
endif()
# Nothing is to be done where the build has this factor already.
file(STRINGS "${BUILD}/CMakeCache.txt" cached REGEX "^TANDEM_TEST_TIME_FACTOR:[A-Z]*=${factor}$")
if(NOT cached)
  execute_process(COMMAND "${CMAKE_COMMAND}" -DTANDEM_TEST_TIME_FACTOR=${factor} "${BUILD}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo
  "Time limits of tests: x${factor} (${took} ms for work of ${REFERENCE_MS}, ${JOBS} processes)")
