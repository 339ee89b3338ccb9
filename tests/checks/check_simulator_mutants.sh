#!/bin/sh
# Checks that tests on the CUDA simulator find faults. Each line of the table puts one fault into a
# kernel source. The named test must pass on the build's simulator and fail on one with that source.
# Usage: check_simulator_mutants.sh TABLE BUILD [CXX [SANITIZERS]]
#
# With SANITIZERS, those of the build, AddressSanitizer must instead report an access out of bounds
# in the kernel source.
set -eu
table=$1
build=$(cd "$2" && pwd)
cxx=${3:-c++}
sanitizers=${4:+-fsanitize=$4 -fno-omit-frame-pointer -g1}
checks=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$checks/../.." && pwd)
kernels=$build/tests/cuda_simulator/kernels
objects=$build/tests/cuda_simulator/CMakeFiles
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
count=0
# One allocation per tensor lets AddressSanitizer detect accesses behind the end of each.
[ -z "$sanitizers" ] || export TANDEM_POOL=direct

# run_test JOB PROGRAM CASES LIBRARY
run_test() {
    TANDEM_CUDA_SIMULATOR="$4" TANDEM_TEST_CASE="$3" "$source/tests/run_on.sh" "$1" \
        "$build/bin/$2" >"$work/output" 2>&1
}

# Prints the unit with only the kernel variants whose names contain PART, because no case runs the
# others. If there are none, prints all variants.
rows_with() { # PART UNIT
    awk -v RS= -v ORS='\n\n' -v part="$1" '
        NR == 1 { print; next }
        { all[NR] = $0; entry = $0; sub(/.*#define TDM_ENTRY /, "", entry); sub(/\n.*/, "", entry) }
        index(entry, part) { found++; print }
        END { if (!found) for (n = 2; n <= NR; n++) print all[n] }' "$2"
}

# Links libmutant.so from the build's objects, with the kernel source as the sed command changes it.
# It has only the variants that the cases need.
make_mutant() { # TEXT CASES COMMAND TARGET OPTIONS
    rm -rf "$work/kernels"
    mkdir -p "$work/kernels/flat"
    rows_with "$2" "$kernels/$1.cpp" >"$work/kernels/$1.cpp"
    sed "$3" "$kernels/flat/$1" >"$work/kernels/flat/$1"
    if cmp -s "$kernels/flat/$1" "$work/kernels/flat/$1"; then
        echo "mutants: $1: $3 changes nothing"
        return 1
    fi
    # shellcheck disable=SC2086  # options, or none
    "$cxx" $sanitizers -std=c++17 -O1 -ffp-contract=off -fPIC -fvisibility=hidden -w -Wno-psabi \
        -DTDM_DIALECT_HOST $5 -I"$work/kernels" -I"$source/kernels/dialect" \
        -I"$source/tests/cuda_simulator" -c "$work/kernels/$1.cpp" -o "$work/$1.o"
    find "$objects"/tandem_simulator_*.dir -name '*.o' ! -path "*/$4.dir/*/$1.cpp.o" \
        >"$work/objects"
    # shellcheck disable=SC2086
    "$cxx" $sanitizers -shared -pthread -Wl,-z,nodelete -o "$work/libmutant.so" @"$work/objects" \
        "$work/$1.o"
}

# Succeeds if a case failed, or with sanitizers if the report's stack names the kernel source.
is_found() { # TEXT
    if [ -n "$sanitizers" ]; then
        grep -q 'ERROR: AddressSanitizer: heap-buffer-overflow' "$work/output" &&
            grep -q "#[0-9] .*flat/$1:[0-9]" "$work/output"
    else
        grep -q '^\[  FAILED  \]' "$work/output" && ! grep 'there is no host form' "$work/output"
    fi
}

plain=$build/lib/libtandem_cuda_simulator.so
sed '/^#/d; /^[ \t]*$/d; s/  */ /' "$table" >"$work/table"
: >"$work/passed"
while read -r text program cases rest; do
    command=s/${rest#*s/}
    what=${rest%%"$command"}
    case $program in
    */75) job=cuda_simulator_75 target=tandem_simulator_early_kernels \
        options=-DTDM_CUDA_ARCHITECTURE=750 ;;
    *) job=cuda_simulator target=tandem_simulator_kernels options='' ;;
    esac
    program=${program%/75}
    if ! grep -qxF "$job $program $cases" "$work/passed"; then
        if ! run_test "$job" "$program" "$cases" "$plain"; then
            echo "mutants: $program fails on the plain simulator:"
            tail -n 20 "$work/output"
            exit 1
        fi
        echo "$job $program $cases" >>"$work/passed"
    fi
    if ! make_mutant "$text" "$cases" "$command" "$target" "$options"; then
        bad=1
    elif run_test "$job" "$program" "$cases" "$work/libmutant.so"; then
        echo "mutants: $text, $what: $program does not fail"
        bad=1
    elif ! is_found "$text"; then
        echo "mutants: $text, $what: $program fails, but not for that:"
        tail -n 40 "$work/output"
        bad=1
    else
        count=$((count + 1))
    fi
done <"$work/table"
echo "mutants: $count found"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
