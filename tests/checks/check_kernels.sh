#!/bin/sh
# Checks the syntax of every kernel variant, with its defines and entry name, by clang as OpenCL C
# 1.2 for the variant's target. Warnings are errors. Then finds two forms that drivers miscompile:
# accesses that rely on the alignment of a whole vector, and loops in kernels without
# TDM_ITEM_BEGIN.
# Usage: check_kernels.sh ROOT FLAT_FOLDER     (FLAT_FOLDER: kernel sources with includes inlined)
set -eu
root=$1
flat=$2
clang=${CLANG:-clang}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines "name|source|target|defines".
string='"\([^"]*\)"'
cmake "-DFOLDER=$root/kernels" -P "$root/cmake/print_variants.cmake" |
    sed -n "s/^TDM_VARIANT(\([^,]*\), [^\"]*$string, $string, [^\"]*, $string.*/\1|\2|\4|\3/p" \
        >"$work/rows"

count=0
bad=0
while IFS='|' read -r name text target defines; do
    count=$((count + 1))
    case $target in
    spir64) machine='--target=spir64' ;;
    cuda) continue ;; # nvcc and the simulator's compiler check it
    x86_64) machine='--target=x86_64-unknown-linux-gnu -march=skylake-avx512 -mavx512vnni' ;;
    *)
        echo "$name: unknown check target '$target'"
        bad=$((bad + 1))
        continue
        ;;
    esac
    if [ ! -f "$flat/$text" ]; then
        echo "$name: no kernel source $text"
        bad=$((bad + 1))
        continue
    fi
    # shellcheck disable=SC2086  # options are words
    if ! "$clang" $machine -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Werror \
        -Wno-unused-function -fsyntax-only $defines "-DTDM_ENTRY=$name" "$flat/$text" \
        2>"$work/messages"; then
        echo "$name ($text $defines, $target):"
        head -20 "$work/messages"
        bad=$((bad + 1))
    fi
done <"$work/rows"

# A pointer to elements is only aligned to an element. Drivers compile vload_halfN and vstore_halfN
# to aligned accesses, so only the dialect may use them. Vectors must be dereferenced through
# typedefs with the alignment of an element.
sources=$(cd "$root/kernels" && find . -name '*.cl' -o -name '*.h' | grep -v '^\./dialect/dialect' |
    LC_ALL=C sort)
vectors='u?(float|int|short|char|long)(2|3|4|8|16)'
if (cd "$root/kernels" && grep -nE \
    -e 'v(load|store)a?_half[0-9]+' \
    -e '\*\(((TDM_GLOBAL|TDM_LOCAL|__global|__local|__private|const) )*'"$vectors"' \*\)' \
    $sources) >"$work/messages"; then
    echo 'kernels: these count on an alignment that elements do not have (dialect.h, Vectors):'
    cat "$work/messages"
    bad=$((bad + 1))
fi

# dialect.h explains the reason. A kernel ends at a closing brace at the start of a line.
for source in $sources; do
    awk '
        function ends() {
            if (body ~ /(^|[^a-z_])(for|while|do) / && body !~ /TDM_ITEM_BEGIN;/ && !barriers) {
                print FILENAME ":" line ": a kernel with a loop and no barrier lacks TDM_ITEM_BEGIN"
                bad = 1
            }
            body = ""
        }
        FNR == NR { barriers += /tdm_barrier\(/; next }
        /^TDM_KERNEL/ { body = " "; line = FNR }
        body != "" { body = body $0 "\n" }
        /^}/ && body != "" { ends() }
        END { exit bad }' "$root/kernels/$source" "$root/kernels/$source" || bad=$((bad + 1))
done

echo "kernels: $count variants checked, $bad failed"
[ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
