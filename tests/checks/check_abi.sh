#!/bin/sh
# Compares the binary interface of the shared library with the file tandem.abi. The interface
# consists of the functions, structs and enums of the public headers. The tool abidw wrote the file,
# from an earlier build. If nothing differs, programs built against that library also run with this
# one.
#
# After an intended change, run this script with --update, which rewrites tandem.abi, and describe
# the change in CHANGELOG.md. A change that breaks programs also needs a new soname
# (TANDEM_SOVERSION in cmake/TandemLibraries.cmake).
#
# Usage: check_abi.sh [--update] ROOT
set -eu
update=no
[ "$1" != --update ] || { update=yes && shift; }
root=$(cd "$1" && pwd)
dump=$(cd "$(dirname "$0")" && pwd)/tandem.abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# abidw reads the types from the debug information.
if ! { cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DTANDEM_BUILD_TESTS=OFF -DTANDEM_BUILD_BENCH=OFF -DTANDEM_BUILD_STATIC=OFF \
    -DTANDEM_CUDA_IMAGES=OFF &&
    cmake --build "$work/build" --target tandem; } >"$work/log" 2>&1; then
    tail -n 30 "$work/log"
    exit 1
fi
library=$work/build/lib/libtandem.so
if [ "$update" = yes ]; then
    abidw --headers-dir "$root/api/include" --drop-private-types --exported-interfaces-only \
        --no-show-locs --no-corpus-path \
        --no-comp-dir-path --type-id-style hash --out-file "$work/dump" "$library"
    # The place of the sources does not belong in the file.
    sed "s|path='$root/|path='|" "$work/dump" >"$dump"
    echo "abi: $dump has $(grep -c '<elf-symbol ' "$dump") symbols"
    exit 0
fi
if ! abidiff --headers-dir2 "$root/api/include" --drop-private-types "$dump" "$library" \
    >"$work/differences" 2>&1; then
    cat "$work/differences"
    echo "abi: the interface is not that of $dump: see the head of this script"
    exit 1
fi
echo "abi: $(grep -c '<elf-symbol ' "$dump") symbols as they were"
