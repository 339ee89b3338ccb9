#!/bin/sh
# Checks that tests find faults. A line of the table has a source file, a test program, the name of
# a fault, and the sed command that makes the fault. The test program must pass as built, and fail
# when it is linked with the changed file.
#
# Usage: check_mutants.sh TABLE BUILD CC LIBRARY...
# LIBRARY... are the libraries that the tests are linked with; libtandem.a is among them.
set -eu
table=$1
build=$(cd "$2" && pwd)
cc=$3
shift 3
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
count=0
passed=''

# run_test FILE: runs a test program under a time limit, because a fault may make it hang.
run_test() {
    timeout $((20 * ${TANDEM_TEST_TIME_FACTOR:-1})) "$1" >"$work/output" 2>&1
}

# found STATUS: succeeds if a test case found the fault. Either cmocka reports a failed case, or a
# signal or the time limit ended the program after a case began. A fault that corrupts memory can
# prevent cmocka from reporting.
found() {
    grep -q '^\[  FAILED  \]' "$work/output" ||
        { [ "$1" -ge 124 ] && [ "$1" -ne 126 ] && [ "$1" -ne 127 ] &&
            grep -q '^\[ RUN ' "$work/output"; }
}

# Applies the sed command to the file, compiles the result and links the test program with it. The
# new object precedes the library on the command line, so it replaces the library's object.
make_mutant() { # FILE PROGRAM COMMAND LIBRARY...
    file=$1
    objects=$build/tests/CMakeFiles/$2.dir
    sed "$3" "$source/$file" >"$work/mutant.c"
    if cmp -s "$source/$file" "$work/mutant.c"; then
        echo "mutants: $file: $3 changes nothing"
        return 1
    fi
    shift 3
    find "$objects" -name '*.o' >"$work/objects"
    "$cc" -std=c11 -D_GNU_SOURCE -O1 -w -I"$source" -I"$source/api/include" -c "$work/mutant.c" \
        -o "$work/mutant.o" &&
        "$cc" -pthread -o "$work/mutant" @"$work/objects" "$work/mutant.o" "$@" -ldl -lm
}

sed '/^#/d; /^[ \t]*$/d' "$table" >"$work/table"
while read -r file program rest; do
    command=s/${rest#*s/}
    what=${rest%%"$command"}
    case " $passed " in
    *" $program "*) ;;
    *)
        if ! run_test "$build/bin/$program"; then
            echo "mutants: $program fails as it is:"
            tail -n 20 "$work/output"
            exit 1
        fi
        passed="$passed $program"
        ;;
    esac
    if ! make_mutant "$file" "$program" "$command" "$@"; then
        bad=1
        continue
    fi
    status=0
    run_test "$work/mutant" || status=$?
    if [ "$status" -eq 0 ]; then
        echo "mutants: $file, $what: $program does not fail"
        bad=1
    elif ! found "$status"; then
        echo "mutants: $file, $what: $program fails with $status, but no case of it:"
        tail -n 20 "$work/output"
        bad=1
    else
        count=$((count + 1))
    fi
done <"$work/table"
echo "mutants: $count found"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
