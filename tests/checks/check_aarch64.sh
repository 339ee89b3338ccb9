#!/bin/sh
# Builds the CUDA simulator and its own tests for AArch64 and runs them under qemu. Its fibers
# switch stacks in assembly, and an x86-64 host otherwise tests only its own code. stand_in_cmocka.h
# replaces cmocka, which may not be installed for AArch64.
# Usage: check_aarch64.sh SOURCE_FOLDER
#
# Needs aarch64-linux-gnu-gcc and -g++, qemu-aarch64-static.
set -eu
source=$(cd "$1" && pwd)
simulator=$source/tests/cuda_simulator
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/include" "$work/objects"
cp "$source/tests/checks/stand_in_cmocka.h" "$work/include/cmocka.h"
options="-O1 -ffp-contract=off -Wall -Wextra -Wno-psabi -Werror -pthread"
options="$options -I$source -I$source/api/include -I$work/include"
dialect="-DTDM_DIALECT_HOST -I$source/kernels/dialect -I$simulator"

compile() { # OBJECT FILE OPTION...
    object=$1
    file=$2
    shift 2
    case $file in
    *.c) aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE $options "$@" -c "$file" \
        -o "$work/objects/$object" ;;
    *) aarch64-linux-gnu-g++ -std=c++17 $options "$@" -c "$file" -o "$work/objects/$object" ;;
    esac
}

compile formats.o "$source/quant/number_formats.c"
compile test_case.o "$source/tests/support/test_case.c"
parts=''
for file in "$simulator"/*.cpp; do
    name=$(basename "$file" .cpp)
    case $name in
    test_*) ;;
    *)
        compile "$name.o" "$file"
        parts="$parts $work/objects/$name.o"
        ;;
    esac
done
count=0
for file in "$source"/tests/cuda/test_*.cpp; do
    name=$(basename "$file" .cpp)
    # shellcheck disable=SC2086  # options are words
    compile "$name.o" "$file" $dialect
    # shellcheck disable=SC2086
    aarch64-linux-gnu-g++ -static -pthread "$work/objects/$name.o" $parts \
        "$work/objects/formats.o" "$work/objects/test_case.o" -o "$work/$name"
    TANDEM_SIMULATOR_LOG=off qemu-aarch64-static "$work/$name" >"$work/output" || {
        echo "aarch64: $name fails"
        cat "$work/output"
        exit 1
    }
    sed "s/^/aarch64: $name /" "$work/output" | grep PASSED
    count=$((count + 1))
done
[ "$count" -gt 0 ]
