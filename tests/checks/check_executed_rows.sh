#!/bin/sh
# Checks that a test program executed every CUDA-only kernel variant on the simulator. Variants for
# the tensor cores and asynchronous copies of older devices must also have run on the simulator as
# 8.0 and 7.5, where the instructions differ. Usage: check_executed_rows.sh VARIANTS FOLDER
#
# VARIANTS is the build's kernel_variants.def. FOLDER/*.JOB are the lists that TANDEM_TEST_LIST
# requested (tests/support/devices/test_devices.h), with lines "0xMASK ROW: case".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# rows CONDITION: prints the names of the CUDA variants for which the awk condition is true. It can
# use their capabilities ($5) and p0 … p7 (p[2] … p[9]).
rows() {
    awk -F'"' "/^TDM_VARIANT[(]/ { split(\$1, head, /[(,]/); split(\$7, p, /, */) }
        /^TDM_VARIANT[(]/ && \$5 ~ /TDM_CAP_CUDA/ && ($1) {
            print head[2]
        }" "$variants" | LC_ALL=C sort
}

# check JOB WANTED NEVER: checks that the job executed all variants for which WANTED is true, and
# none for which NEVER is true.
check() {
    rows "$2" >"$work/rows"
    rows "$3" >"$work/never"
    cat "$folder"/*."$1" | sed -n 's/^0x[0-9a-f]* \([a-zA-Z0-9_]*\): .*/\1/p' |
        LC_ALL=C sort -u >"$work/executed"
    if [ ! -s "$work/rows" ]; then
        echo "executed rows: $variants has no row for $1"
        bad=1
    fi
    {
        LC_ALL=C comm -23 "$work/rows" "$work/executed" |
            sed "s/^/executed rows: no test of $1 executed /"
        LC_ALL=C comm -12 "$work/never" "$work/executed" |
            sed "s/^/executed rows: $1 has not what is required by /"
    } >"$work/complaints"
    cat "$work/complaints"
    [ ! -s "$work/complaints" ] || bad=1
    echo "executed rows: $(wc -l <"$work/rows") rows wanted of $1"
}

variants=$1
folder=$2
wgmma='$5 ~ /WGMMA/'
copies='$5 ~ /ASYNC_COPY/'
tensor='$5 ~ /TENSOR_CORES/'
check cuda_simulator 1 0
check cuda_simulator_80 "!($wgmma) && ($copies || $tensor)" "$wgmma"
# A work-group has at most 64 KiB of local memory (p6) on 7.5.
check cuda_simulator_75 "$tensor && !($wgmma || $copies) && p[8] <= 65536" "$wgmma || $copies"
exit $bad
