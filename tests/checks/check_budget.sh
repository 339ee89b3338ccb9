#!/bin/sh
# Prints the lines of code of each top-level folder. Fails where a folder, or a sum of several, has
# more than its row of budget.table allows; where a folder holds more than 25 source files; where
# one of more than five has no README.md, or one of more than 20 lines; where two source files share
# a name; and where the committed measurements exceed their bytes.
#
# Usage: check_budget.sh ROOT
set -eu
checks=$(cd "$(dirname "$0")" && pwd)
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

find . -type f ! -path './.git*' ! -path './build/*' | sed 's|^\./||' | LC_ALL=C sort >"$work/files"
code='\.(c|h|cl|cu|cpp|def|in|sh|py|cmake|table)$'
code="$code|CMakeLists\.txt$|^bench/gpu_suite$|^\.ci/run$|^quickstart$"
grep -E "$code" "$work/files" | tr '\n' '\0' | xargs -0 wc -l | awk '
    $2 != "total" { sub(/\/.*/, "", $2); lines[$2] += $1 }
    END { for (f in lines) print f, lines[f] }' >"$work/lines"

# budget.table: "LINES FOLDER..." or "LINES bytes FOLDER": later changes raise a row deliberately.
sed '/^#/d; /^ *$/d' "$checks/budget.table" >"$work/table"
while read -r limit folders; do
    case $folders in
    'bytes '*)
        folders=${folders#bytes }
        got=$(grep "^$folders/.*json\$" "$work/files" | tr '\n' '\0' | xargs -0 cat | wc -c)
        unit=bytes
        ;;
    *)
        got=$(awk -v folders=" $folders " '
            index(folders, " " $1 " ") { sum += $2 }
            END { print sum + 0 }' "$work/lines")
        unit=lines
        ;;
    esac
    printf '%9d of %9d %s  %s\n' "$got" "$limit" "$unit" "$folders"
    if [ "$got" -gt "$limit" ] || [ "$got" -eq 0 ]; then
        echo "budget: $folders: $got $unit, $limit are allowed"
        bad=1
    fi
done <"$work/table"
awk '
    FNR == NR { named = named " " $0 " "; next }
    !index(named, " " $1 " ") && $2 > 1000 { print "budget: no row names " $1; bad = 1 }
    END { exit bad }' "$work/table" "$work/lines" || bad=1

awk -F/ '
    { folder = $0; if (!sub(/\/[^\/]*$/, "", folder)) next; files[folder]++ }
    $NF == "README.md" { readme[folder] = $0 }
    $NF ~ /\.(c|h|cl|cu|cpp|sh)$/ { sources[folder]++ }
    END {
        for (f in files) {
            what = "budget: " f " has " sources[f] " source files"
            if (sources[f] > 25) { print what ", 25 are allowed"; bad = 1 }
            if (sources[f] > 5 && !(f in readme)) { print what " and no README.md"; bad = 1 }
        }
        exit bad
    }' "$work/files" || bad=1
grep 'README\.md$' "$work/files" | grep / |
    grep -v -e '^tests/cuda_simulator/' -e '^docs/' -e '^examples/digits/' >"$work/readmes" || :
while read -r file; do
    if [ "$(wc -l <"$file")" -gt 20 ]; then
        echo "budget: $file has more than 20 lines"
        bad=1
    fi
done <"$work/readmes"

folders='api|backend_[a-z]*|kernels|quant|formats|common|models|bench|cli|tests|examples'
grep -E "^($folders)/.*\.(c|h|cl|cu|def|sh)\$" "$work/files" |
    sed 's|.*/||' | LC_ALL=C sort | uniq -d >"$work/names"
sed 's/^/budget: more than one file is called /' "$work/names"
[ ! -s "$work/names" ] || bad=1
exit "$bad"
