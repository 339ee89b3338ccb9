#!/bin/sh
# Finds cycles among the object files of a build: files whose functions call each other in a ring,
# so that none can be read, tested or moved alone. Fails on a cycle that cycles.table does not list
# with a reason, and on a file of the table that is in no cycle. At most five cycles of seven files
# each are allowed.
#
# Usage: check_cycles.sh ROOT BUILD [TABLE]
#
# BUILD is where CMake has built the library and the program. TABLE is cycles.table by default.
set -eu

table=${3:-$(dirname "$0")/cycles.table}
table=$(cd "$(dirname "$table")" && pwd)/${table##*/}
root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes lines "defines SYMBOL FILE" and "uses SYMBOL FILE". Objects whose source no longer exists
# may be left in the build and are skipped.
cd "$2"
find . -name '*.c.o' -path '*/CMakeFiles/tandem_*' ! -path './tests/*' | LC_ALL=C sort |
    while read -r object; do
        source=$(printf '%s\n' "${object#./}" | sed 's|CMakeFiles/tandem_[a-z_]*\.dir/||; s|\.o$||')
        [ ! -e "$root/$source" ] || printf '%s\n' "$object"
    done >"$work/objects"
xargs nm -gA <"$work/objects" | awk '{
    file = $1
    sub(/:.*/, "", file); sub(/^\.\//, "", file)
    sub(/CMakeFiles\/tandem_[a-z_]*\.dir\//, "", file); sub(/\.o$/, "", file)
    print ($(NF - 1) == "U" ? "uses" : "defines"), $NF, file
}' >"$work/symbols"
sed '/^#/d; /^ *$/d' "$table" >"$work/allowed"

# The algorithm of Kosaraju visits along the calls, then against them in the reverse order of
# completion. Files that the second visit reaches together are a cycle.
awk '
function visit(file,    i) {
    seen[file] = 1
    for (i = 1; i <= out_count[file]; i++) if (!(out[file, i] in seen)) visit(out[file, i])
    done[++finished] = file
}
function gather(file,    i) {
    member[file] = 1
    text = text " " file
    size++
    for (i = 1; i <= in_count[file]; i++) if (!(into[file, i] in member)) gather(into[file, i])
}
FNR == 1 { part++ }
part == 1 && $1 == "defines" { owner[$2] = $3; files[$3]; next }
part == 1 || (part == 2 && $1 == "defines") { next }
part == 2 && $1 == "uses" && ($2 in owner) && owner[$2] != $3 && !(($3, owner[$2]) in edge) {
    edge[$3, owner[$2]]
    out[$3, ++out_count[$3]] = owner[$2]
    into[owner[$2], ++in_count[owner[$2]]] = $3
}
part == 3 {
    reason = $0; sub(/^[^:]*: */, "", reason)
    names = $0; sub(/:.*/, "", names)
    if (reason == "" || reason == $0) { print "cycles: no reason is given for: " names; bad = 1 }
    rows = split(names, name, " ")
    for (i = 1; i <= rows; i++) { may[name[i]] = FNR; waiting[name[i]] }
    lines = FNR
}
END {
    for (file in files) { total++; if (!(file in seen)) visit(file) }
    for (n = finished; n > 0; n--) {
        if (done[n] in member) continue
        text = ""; size = 0
        gather(done[n])
        if (size == 1) continue
        cycles++
        if (size > largest) largest = size
        count = split(substr(text, 2), name, " ")
        row = may[name[1]]
        for (i = 1; i <= count; i++) {
            if (!row || may[name[i]] != row) unlisted = 1
            delete waiting[name[i]]
        }
        if (unlisted || size > 7) {
            print "cycles: " size " files call each other:" text
            for (i = 1; i <= count; i++)
                for (j = 1; j <= out_count[name[i]]; j++)
                    for (k = 1; k <= count; k++)
                        if (out[name[i], j] == name[k]) print "    " name[i] " -> " name[k]
            bad = 1
        }
        unlisted = 0
    }
    for (file in waiting) { print "cycles: " file " is listed, but in no cycle"; bad = 1 }
    printf "cycles: %d among %d files, the largest of %d\n", cycles, total, largest
    exit bad || total == 0 || cycles > 5
}' "$work/symbols" "$work/symbols" "$work/allowed"
