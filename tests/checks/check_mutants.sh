#!/bin/sh
# Shows that tests find what they are there for: each line of the table plants one fault in a file of the library, and
# the named test must fail with that file so, after it has passed on the one of the build.
# Usage: check_mutants.sh TABLE BUILD CC LIBRARY...      (what the tests are linked with, libtandem.a among them)
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

# run_test FILE: seconds enough for a test that hangs on its fault.
run_test() {
    timeout $((20 * ${TANDEM_TEST_TIME_FACTOR:-1})) "$1" >"$work/output" 2>&1
}

# found STATUS: a case failed; or a signal or the time ended the program within one, for a fault that ruins memory leaves cmocka no chance
# to say so, at times.
found() {
    grep -q '^\[  FAILED  \]' "$work/output" ||
        { [ "$1" -ge 124 ] && [ "$1" -ne 126 ] && [ "$1" -ne 127 ] && grep -q '^\[ RUN ' "$work/output"; }
}

# Makes the test program with the file as the sed command leaves it: a file of the library that is linked before it takes its
# place.
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
    "$cc" -std=c11 -D_GNU_SOURCE -O1 -w -I"$source" -I"$source/api/include" -c "$work/mutant.c" -o "$work/mutant.o" &&
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
