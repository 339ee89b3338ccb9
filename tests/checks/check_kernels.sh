#!/bin/sh
# Puts every row of kernels/variants.def, with its defines and entry name, through clang's OpenCL C 1.2
# syntax check for the row's target; warnings are errors.
# Usage: check_kernels.sh ROOT FLAT_FOLDER     (FLAT_FOLDER: the texts with their includes inlined)
set -eu
root=$1
flat=$2
clang=${CLANG:-clang}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The preprocessor reads the rows, so whatever macros the file uses inside are expanded.
printf '%s\n' '#define TDM_VARIANT(name, op, text, defines, requirements, target, ...) @ name | text | target | defines' \
    '#include "kernels/variants.def"' |
    "$clang" -E -P -x c -I "$root" - |
    tr '\n' ' ' | tr '@' '\n' |
    awk -F'|' 'NF >= 4 {
        gsub(/[ "]/, "", $1); gsub(/[ "]/, "", $2); gsub(/[ "]/, "", $3)
        gsub(/"[ ]*"/, "", $4); gsub(/^[ ]*"|"[ ]*$/, "", $4)
        print $1 "|" $2 "|" $3 "|" $4
    }' >"$work/rows"

count=0
bad=0
while IFS='|' read -r name text target defines; do
    count=$((count + 1))
    case $target in
    spir64) machine='--target=spir64' ;;
    cuda) continue ;; # nvcc and the simulator's compiler read it
    x86_64) machine='--target=x86_64-unknown-linux-gnu -march=skylake-avx512 -mavx512vnni' ;;
    *)
        echo "$name: unknown check target '$target'"
        bad=$((bad + 1))
        continue
        ;;
    esac
    if [ ! -f "$flat/$text" ]; then
        echo "$name: no text $text"
        bad=$((bad + 1))
        continue
    fi
    # shellcheck disable=SC2086  # options are words
    if ! "$clang" $machine -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Werror \
        -Wno-unused-function -fsyntax-only $defines "-DTDM_ENTRY=$name" "$flat/$text" 2>"$work/messages"; then
        echo "$name ($text $defines, $target):"
        head -20 "$work/messages"
        bad=$((bad + 1))
    fi
done <"$work/rows"

echo "kernels: $count variants checked, $bad failed"
[ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
