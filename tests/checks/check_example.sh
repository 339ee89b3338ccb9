#!/bin/sh
# Checks that docs/using.md shows exactly examples/hello_gemm.c and what it prints, and that
# README.md shows only lines of it.
# Usage: check_example.sh ROOT PROGRAM      (PROGRAM: built from the text of docs/using.md)
set -eu
root=$1
program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# block LANGUAGE FILE: the first fenced block of that language in the file.
block() {
    awk -v fence="\`\`\`$1" '
        inside && /^```/ { exit }
        inside { print }
        $0 == fence { inside = 1 }' "$root/$2"
}

bad=0
block c docs/using.md >"$work/shown.c"
if ! diff -u "$root/examples/hello_gemm.c" "$work/shown.c"; then
    echo "docs/using.md does not show examples/hello_gemm.c as it is"
    bad=1
fi
if ! "$program" >"$work/printed"; then
    echo "the example failed"
    bad=1
fi
block text docs/using.md >"$work/promised"
if ! diff -u "$work/promised" "$work/printed"; then
    echo "docs/using.md does not show what hello_gemm prints"
    bad=1
fi
[ -s "$work/printed" ] || bad=1
block c README.md >"$work/short.c"
if [ ! -s "$work/short.c" ] || grep -vxFf "$root/examples/hello_gemm.c" "$work/short.c"; then
    echo "README.md shows no line of examples/hello_gemm.c, or others too"
    bad=1
fi
echo "example: $(wc -l <"$work/shown.c") lines shown"
exit $bad
