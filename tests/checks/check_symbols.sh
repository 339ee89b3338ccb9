#!/bin/sh
# Checks that the shared library exports exactly the functions that the public headers declare with
# TDM_API, and needs only the C library and its parts. It must not contain the probes, the kernels
# that only measure devices. Its size limit is that of docs/cuda.md: 5 MiB, and 2 MiB for each kind
# of code of its CUDA images (an architecture, or PTX). Usage: check_symbols.sh libtandem.so
# INCLUDE_FOLDER [KIND]...
set -eu
library=$1
headers=$2
shift 2
bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$work/exported"
# A prototype may have several lines. The name is the last word before the first parenthesis after
# TDM_API.
grep -hv '^#' "$headers"/tandem/*.h | tr '\n' ' ' | grep -oE 'TDM_API [^(;]*\(' |
    sed -E 's/.*[^A-Za-z0-9_]([A-Za-z0-9_]+) *\($/\1/' | sort -u >"$work/declared"

if [ ! -s "$work/declared" ]; then
    echo "no TDM_API prototype found under $headers"
    bad=1
fi
for name in $(comm -13 "$work/exported" "$work/declared"); do
    echo "declared in a public header, not exported: $name"
    bad=1
done
for name in $(comm -23 "$work/exported" "$work/declared"); do
    echo "exported, not declared in a public header: $name"
    bad=1
done
if grep -v '^tdm_' "$work/exported"; then
    echo "exported without the prefix tdm_: the names above"
    bad=1
fi

# Only sanitizer builds need libasan and similar libraries, and they do not run this check.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
for name in $needed; do
    case $name in
    libc.so* | libc.musl-* | libm.so* | libpthread.so* | libdl.so* | ld-linux*) ;;
    *)
        echo "needs $name"
        bad=1
        ;;
    esac
done
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if ! printf '%s\n' "$soname" | grep -Eq '^libtandem\.so\.[0-9]+\.[0-9]+$'; then
    echo "SONAME is '$soname', not libtandem.so.MAJOR.MINOR"
    bad=1
fi

if LC_ALL=C grep -qa 'probe_[a-z]*_s32' "$library"; then
    echo "the library holds kernels of kernels/probe, which belong to the program"
    bad=1
fi

bytes=$(wc -c <"$library")
most=$(((5 + 2 * $#) << 20))
if [ "$bytes" -gt "$most" ]; then
    echo "the library has $bytes bytes, $most are allowed${1:+ with code for $*}"
    bad=1
fi

echo "symbols: $(wc -l <"$work/exported") exported, $(wc -l <"$work/declared") declared;" \
    "needs: $needed"
exit $bad
