#!/bin/sh
# Checks that the README shows exactly examples/hello_gemm.c and what it prints.
# Usage: check_example.sh ROOT PROGRAM      (PROGRAM: built from the example in the README)
set -eu
root=$1
program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# block LANGUAGE: prints the README's first fenced block of that language.
block() {
    awk -v fence="\`\`\`$1" '
        inside && /^```/ { exit }
        inside { print }
        $0 == fence { inside = 1 }' "$root/README.md"
}

bad=0
block c >"$work/shown.c"
if ! diff -u "$root/examples/hello_gemm.c" "$work/shown.c"; then
    echo "README.md does not show examples/hello_gemm.c as it is"
    bad=1
fi
if ! "$program" >"$work/printed"; then
    echo "the example failed"
    bad=1
fi
block text >"$work/promised"
if ! diff -u "$work/promised" "$work/printed"; then
    echo "README.md does not show what hello_gemm prints"
    bad=1
fi
[ -s "$work/printed" ] || bad=1
echo "example: $(wc -l <"$work/shown.c") lines shown"
exit $bad
