#!/bin/sh
# bench/gpu_suite where the CUDA simulator is the device: every step has its line in summary.txt, and what a step ends with
# is what the whole ends with. One quick run of all; then runs on a build of stand-ins, in each of which one part fails.
# Usage: check_gpu_suite.sh SOURCE BUILD SIMULATOR
set -eu
suite=$1/bench/gpu_suite
build=$(cd "$2" && pwd)
export TANDEM_CUDA_LIBRARY="$3" TANDEM_SIMULATOR_LOG=off TANDEM_TEST_SCALE=small
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/icd" # no OpenCL beside it
export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
steps='devices tests_cuda tests_opencl memcheck racecheck memory gemm_f32 gemm_f16 gemm_s8 gemm_mma gemm_few gemm_layers gemv quant launch pool
       opencl_gemm_f32 opencl_memory infer_together'
runs=0

complain() {
    echo "gpu suite: $1"
    cat "$work/output"
    exit 1
}

# expect CODE WORD STEP BUILD: the suite ends with the code, the step's line begins with the word, no other is FAILED.
expect() {
    rm -rf "$work/results"
    status=0
    "$suite" --quick --build "$4" --out "$work/results" >"$work/output" 2>&1 || status=$?
    [ "$status" -eq "$1" ] || complain "it ended with $status instead of $1, $3 was to be $2"
    for step in $steps; do
        grep -q "^[A-Za-z]*  *[0-9]*  $step " "$work/results/summary.txt" || complain "summary.txt has no line of $step"
    done
    grep -q "^$2  *[0-9]*  $3 " "$work/results/summary.txt" || complain "$3 is not $2"
    wrong=$(grep -c '^FAILED\|^TIMEOUT' "$work/results/summary.txt" || true)
    [ "$wrong" -eq "$1" ] || complain "$wrong steps failed"
    runs=$((runs + 1))
}

expect 0 ok infer_together "$build"

# The programs of a whole run are those that ctest has for such devices.
for backend in cuda:cuda_simulator opencl:pocl; do
    job=${backend#*:}
    "$suite" _device_tests "${backend%:*}" | LC_ALL=C sort >"$work/listed"
    # Not by ctest: its log is that of the run that this is part of.
    sed -n "s/^add_test([^a-z]*\(test_[a-z0-9_]*\)\.${job}[^a-z0-9_].*/\1/p" "$build/tests/CTestTestfile.cmake" | LC_ALL=C sort >"$work/output"
    [ -s "$work/listed" ] && cmp -s "$work/listed" "$work/output" || complain "its tests for $backend are not those of ctest"
done

# Of a run of one step there is one line besides the devices'.
"$suite" --quick --only gemm_s8 --build "$build" --out "$work/results" >"$work/output" 2>&1 || complain 'one step failed'
[ "$(sed 's/^[A-Za-z]* *[0-9]* *\([a-z0-9_]*\).*/\1/' "$work/results/summary.txt" | tr '\n' ' ')" = 'devices gemm_s8 ' ] ||
    complain '--only gives other steps'

# stand_ins FAILING: a build whose tests and benchmarks do nothing, but for what is named, which fails.
stand_ins() {
    rm -rf "$work/build"
    mkdir -p "$work/build/bin"
    for test in test_convert test_copy_across test_softmax; do
        printf '#!/bin/sh\necho "executed: 1 cases"\n[ "%s" != %s ]\n' "$1" $test >"$work/build/bin/$test"
    done
    cat >"$work/build/bin/tandem" <<EOF
#!/bin/sh
case "\$1 \${2-}" in
"$1 "* | "bench $1") exit 1 ;;
"devices "*) exec "$build/bin/tandem" "\$@" ;;
esac
EOF
    chmod +x "$work/build/bin/"*
}
stand_ins nothing
expect 0 ok tests_cuda "$work/build"
stand_ins test_softmax
expect 1 FAILED tests_cuda "$work/build"
for case in launch pool quant memory gemv; do
    stand_ins $case
    expect 1 FAILED $case "$work/build"
done
stand_ins infer
expect 1 FAILED infer_together "$work/build"
echo "gpu suite: $runs runs, as expected"
