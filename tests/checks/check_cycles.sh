#!/bin/sh
# Finds cycles among the object files of a build: files whose functions call each other in a ring, so that none can be read,
# tested or moved alone. Fails on a cycle that the list below does not name with a reason, and on a name of the list that is in no
# cycle any more.
#
# Usage: check_cycles.sh ROOT BUILD     (BUILD: where CMake has built the library and the program)
set -eu

# One line for each cycle that may stay: its files, then the reason.
allowed='
api/pool/pool.c api/pool/pool_branch.c api/pool/pool_find.c api/pool/pool_grow.c api/pool/pool_slab.c api/pool/pool_uses.c api/pool/pool_visit.c: one object, cut into files by subject
api/device/enqueue.c api/device/graph.c api/device/stream.c api/device/device_pool.c api/device/memory_pool.c api/device/memory_pressure.c: a reused block waits for work of streams, whose commands use blocks
api/gemm/gemm_select.c api/gemm/gemm_plan.c api/gemm/gemm_int_check.c api/gemm/gemm_packed.c api/gemm/gemm_run.c api/gemm/gemm_stages.c: a plan in stages has plans of its own, and the self-test runs one
api/tensor/tensor_quant.c api/tensor/tensor_view.c: a view of a quantized tensor takes views of its scales
backend_cuda/cuda_stream.c backend_cuda/cuda_host_task.c: a stream ends its host tasks, which name the work of the stream that failed
'
root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines "defines SYMBOL FILE" and "uses SYMBOL FILE"; objects of sources that are gone may be left in the build.
cd "$2"
find . -name '*.c.o' -path '*/CMakeFiles/tandem_*' ! -path './tests/*' | LC_ALL=C sort | while read -r object; do
    source=$(printf '%s\n' "${object#./}" | sed 's|CMakeFiles/tandem_[a-z_]*\.dir/||; s|\.o$||')
    [ ! -e "$root/$source" ] || printf '%s\n' "$object"
done >"$work/objects"
xargs nm -gA <"$work/objects" | awk '{
    file = $1
    sub(/:.*/, "", file); sub(/^\.\//, "", file); sub(/CMakeFiles\/tandem_[a-z_]*\.dir\//, "", file); sub(/\.o$/, "", file)
    print ($(NF - 1) == "U" ? "uses" : "defines"), $NF, file
}' >"$work/symbols"
printf '%s\n' "$allowed" | sed '/^ *$/d' >"$work/allowed"

# Kosaraju: visit along the calls, then against them in the reverse order of completion; what is reached together is a cycle.
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
        for (i = 1; i <= count; i++) { if (!row || may[name[i]] != row) unlisted = 1; delete waiting[name[i]] }
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
