# Sets the time limits of a build's tests by the current speed of the machine. JOBS processes, as
# many as ctest will run, do a fixed amount of work. If this takes longer than on a quiet machine,
# each test may take longer by the same factor. Prints one line. The tests' own limits use the
# factor too, from the environment variable TANDEM_TEST_TIME_FACTOR.
#
#     cmake -DBUILD=build/release -DJOBS=2 -P tests/set_time_limits.cmake
#
# ADDITIONS      amount of work per process
# REFERENCE_MS   longest time that gives a factor of 1

# With this default, two processes take 1.0 s each on two quiet cores (AMD EPYC, CMake 3.25).
if(NOT DEFINED ADDITIONS)
  set(ADDITIONS 400000)
endif()
if(NOT DEFINED REFERENCE_MS)
  set(REFERENCE_MS 1500)
endif()
# The largest factor, also for a machine that is still slower.
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
# CMake runs again only if the build has another factor.
file(STRINGS "${BUILD}/CMakeCache.txt" cached REGEX "^TANDEM_TEST_TIME_FACTOR:[A-Z]*=${factor}$")
if(NOT cached)
  execute_process(COMMAND "${CMAKE_COMMAND}" -DTANDEM_TEST_TIME_FACTOR=${factor} "${BUILD}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo
  "Time limits of tests: x${factor} (${took} ms for work of ${REFERENCE_MS}, ${JOBS} processes)")
