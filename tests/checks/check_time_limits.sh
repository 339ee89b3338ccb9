#!/bin/sh
# Checks that the time limits of tests follow the speed that tests/set_time_limits.cmake measures.
# ctest's limit of a test and its environment must have the factor of the build's cache. A machine
# that is slower than the reference must get a larger factor. Usage: check_time_limits.sh ROOT BUILD
# PATIENCE
set -eu
root=$1
build=$2
patience=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# The test is check_layering, which may take 60 s on a quiet machine.
factor=$(sed -n 's/^TANDEM_TEST_TIME_FACTOR:[A-Z]*=//p' "$build/CMakeCache.txt")
# This must not call ctest, which would overwrite the log of the run that this check is part of.
grep '^set_tests_properties(.*check_layering' "$build/tests/CTestTestfile.cmake" >"$work/test"
limit=$((60 * patience * factor))
# has TEXT WHAT: checks that the properties of the test contain TEXT.
has() {
    grep -q "$1" "$work/test" && return
    echo "time limits: check_layering has no $2"
    bad=1
}
has "TIMEOUT \"$limit\"" "limit of $limit s"
has "TANDEM_TEST_TIME_FACTOR=$factor[;\"]" "factor of $factor in its environment"

# measure REFERENCE_MS: prints the factor that a build gets, measured with a tenth of the work.
measure() {
    mkdir -p "$work/source"
    cat >"$work/source/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(none NONE)
set(TANDEM_TEST_TIME_FACTOR 1 CACHE STRING "")
TEXT
    cmake -S "$work/source" -B "$work/build" >/dev/null
    cmake -DBUILD="$work/build" -DJOBS=2 -DADDITIONS=40000 "-DREFERENCE_MS=$1" \
        -P "$root/tests/set_time_limits.cmake" >"$work/output"
    sed -n 's/^TANDEM_TEST_TIME_FACTOR:[A-Z]*=//p' "$work/build/CMakeCache.txt"
}
for reference in 1:20 10000000:1; do
    got=$(measure "${reference%:*}")
    wanted=${reference#*:}
    [ "$got" = "$wanted" ] && grep -q "^Time limits of tests: x$wanted " "$work/output" && continue
    echo "time limits: factor $got, not $wanted, for a reference of ${reference%:*} ms"
    cat "$work/output"
    bad=1
done
[ "$bad" -eq 0 ]
