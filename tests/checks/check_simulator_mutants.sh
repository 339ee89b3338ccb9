#!/bin/sh
# Shows that the tests find what the CUDA simulator is there for: each line of the table plants one fault in a kernel text,
# and the named test must fail on a simulator that has the text so, after it has passed on the one of the build.
# Usage: check_simulator_mutants.sh TABLE BUILD [CXX]
set -eu
table=$1
build=$(cd "$2" && pwd)
cxx=${3:-c++}
checks=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$checks/../.." && pwd)
kernels=$build/tests/cuda_simulator/kernels
objects=$build/tests/cuda_simulator/CMakeFiles
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
count=0

# run_test PROGRAM CASES LIBRARY
run_test() {
    TANDEM_CUDA_SIMULATOR="$3" TANDEM_TEST_CASE="$2" TANDEM_SIMULATOR_LOG=off \
        "$source/tests/run_on.sh" cuda_simulator "$build/bin/$1" >"$work/output" 2>&1
}

# Makes libmutant.so of the build's objects, with the text as the sed command leaves it.
make_mutant() { # TEXT COMMAND
    rm -rf "$work/kernels"
    mkdir -p "$work/kernels/flat"
    cp "$kernels/$1.cpp" "$work/kernels/"
    sed "$2" "$kernels/flat/$1" >"$work/kernels/flat/$1"
    if cmp -s "$kernels/flat/$1" "$work/kernels/flat/$1"; then
        echo "mutants: $1: $2 changes nothing"
        return 1
    fi
    "$cxx" -std=c++17 -O1 -ffp-contract=off -fPIC -fvisibility=hidden -w -Wno-psabi -DTDM_DIALECT_HOST -I"$work/kernels" \
        -I"$source/kernels" -I"$source/tests/cuda_simulator" -c "$work/kernels/$1.cpp" -o "$work/$1.o"
    find "$objects/tandem_simulator_core.dir" "$objects/tandem_simulator_driver.dir" \
        "$objects/tandem_simulator_kernels.dir" -name '*.o' ! -name "$1.cpp.o" >"$work/objects"
    "$cxx" -shared -pthread -Wl,-z,nodelete -o "$work/libmutant.so" @"$work/objects" "$work/$1.o"
}

plain=$build/lib/libtandem_cuda_simulator.so
sed '/^#/d; /^[ \t]*$/d; s/  */ /' "$table" >"$work/table"
while read -r text program cases rest; do
    command=s/${rest#*s/}
    what=${rest%%"$command"}
    if ! run_test "$program" "$cases" "$plain"; then
        echo "mutants: $program fails on the plain simulator:"
        tail -n 20 "$work/output"
        exit 1
    fi
    if ! make_mutant "$text" "$command"; then
        bad=1
    elif run_test "$program" "$cases" "$work/libmutant.so"; then
        echo "mutants: $text, $what: $program does not fail"
        bad=1
    elif ! grep -q '^\[  FAILED  \]' "$work/output"; then
        echo "mutants: $text, $what: $program fails, but no case of it:"
        tail -n 20 "$work/output"
        bad=1
    else
        count=$((count + 1))
    fi
done <"$work/table"
echo "mutants: $count found"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
