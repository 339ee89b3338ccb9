#!/bin/sh
# Checks that a test program executed the same cases on two devices. If a test leaves out shapes on
# one of them, the table must say so. Cases of kernel variants that one device cannot run do not
# count. Usage: check_executed_cases.sh PROGRAM FOLDER FIRST SECOND TABLE
#
# FOLDER/PROGRAM.FIRST and .SECOND are the lists that TANDEM_TEST_LIST requested
# (tests/support/devices/test_devices.h). A line of TABLE has a program, the job that alone executes
# the cases, and a pattern of the cases' names; * matches anything.
set -eu
program=$1
folder=$2
table=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for job in "$3" "$4"; do
    if [ ! -s "$folder/$program.$job" ]; then
        echo "executed cases: $program left no list on $job"
        exit 1
    fi
done
mask_of() { sed -n '1s/ capabilities$//p' "$folder/$program.$1"; }
either=$(($(mask_of "$3") & $(mask_of "$4")))

# Capability masks of the kernel variants that both devices can run.
cat "$folder/$program.$3" "$folder/$program.$4" | sed '/^0x[0-9a-f]* capabilities$/d; s/ .*//' |
    LC_ALL=C sort -u |
    while read -r mask; do
        [ $((mask & ~either)) -ne 0 ] || echo "$mask"
    done >"$work/masks"

cases() {
    sed 1d "$folder/$program.$1" |
        awk 'FNR == NR { wanted[$1] = 1; next } $1 in wanted { sub(/^[^ ]* /, ""); print }' \
            "$work/masks" - | LC_ALL=C sort
}
cases "$3" >"$work/$3"
cases "$4" >"$work/$4"
grep "^$program " "$table" >"$work/table" || true

# Prints the cases that only one job executed, as "JOB case", except those of the table.
{
    LC_ALL=C comm -23 "$work/$3" "$work/$4" | sed "s/^/$3 /"
    LC_ALL=C comm -13 "$work/$3" "$work/$4" | sed "s/^/$4 /"
} | awk -v program="$program" -v both="$(LC_ALL=C comm -12 "$work/$3" "$work/$4" | wc -l)" '
    FILENAME != "-" {
        rows++
        where[rows] = $2
        pattern = $0
        sub(/^[^ ]+ +[^ ]+ +/, "", pattern)
        text[rows] = pattern
        gsub(/[][().+^$?{}|\\]/, "\\\\&", pattern)
        gsub(/[*]/, ".*", pattern)
        form[rows] = "^" pattern "$"
        next
    }
    {
        name = substr($0, length($1) + 2)
        for (i = 1; i <= rows && !(where[i] == $1 && name ~ form[i]); i++);
        if (i <= rows) { met[i]++; stated++ }
        else if (++bad <= 20) print "executed cases: " program ": on " $1 " alone: " name
    }
    END {
        for (i = 1; i <= rows; i++)
            if (!met[i]) {
                print "executed cases: " program ": the table is about no case on " where[i] \
                      ": " text[i]
                bad++
            }
        print "executed cases: " program ": " both " on both, " stated + 0 \
              " on one as the table says, " bad + 0 " complaints"
        exit bad > 0 || both == 0
    }' "$work/table" -
