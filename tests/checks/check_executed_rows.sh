#!/bin/sh
# Every row of kernels/variants.def that devices of CUDA alone can run was executed by a test program on the simulator.
# Usage: check_executed_rows.sh VARIANTS FOLDER
#
# FOLDER/*.cuda_simulator are what TANDEM_TEST_LIST made of the programs' runs (tests/support/test_devices.h): lines "0xMASK ROW: case".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n 's/^TDM_VARIANT(\([a-zA-Z0-9_]*\), .*", [^"]*TDM_CAP_CUDA.*/\1/p' "$1" | LC_ALL=C sort >"$work/rows"
cat "$2"/*.cuda_simulator | sed -n 's/^0x[0-9a-f]* \([a-zA-Z0-9_]*\): .*/\1/p' | LC_ALL=C sort -u >"$work/executed"
LC_ALL=C comm -23 "$work/rows" "$work/executed" >"$work/missing"
if [ ! -s "$work/rows" ]; then
    echo "executed rows: $1 has no row for CUDA devices"
    exit 1
fi
sed 's/^/executed rows: no test executed /' "$work/missing"
[ ! -s "$work/missing" ]
echo "executed rows: all $(wc -l <"$work/rows") rows for CUDA devices"
