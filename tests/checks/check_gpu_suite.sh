#!/bin/sh
# bench/gpu_suite where the CUDA simulator is the device: every step has its line in summary.txt, what a step ends with is what the
# whole ends with, and every bar has a figure or says why it has none. One quick run of all; then runs on a build of stand-ins, in
# each of which one part fails.
# Usage: check_gpu_suite.sh SOURCE BUILD SIMULATOR
set -eu
suite=$1/bench/gpu_suite
build=$(cd "$2" && pwd)
export TANDEM_CUDA_LIBRARY="$3" TANDEM_SIMULATOR_LOG=off TANDEM_TEST_SCALE=small
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/icd" # no OpenCL beside it
export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
steps="devices $("$suite" _caps | awk '{ print $1 }' | tr '\n' ' ')"
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

# All steps together end in time.
total=$("$suite" _caps | awk '{ n += $2 } END { print n }')
[ "$total" -ge 400 ] && [ "$total" -le 510 ] || complain "its steps may take $total s"

# Each bar is a row of both files. What the simulator cannot give is what other libraries and other devices are needed for.
bars=$(grep -c '"bar":' "$work/results/bars.json") || true
[ "$bars" -ge 27 ] && [ "$(grep -c '^| [a-zA-Z]* [a-z]* |' "$work/results/bars.md")" -eq "$bars" ] ||
    complain "bars.md and bars.json do not have the same rows"
sed -n 's/^| [^|]* | \([^|]*\) |  |  | .*/\1/p' "$work/results/bars.md" >"$work/output"
! grep -v 'OpenCL\|sanitizer\|cuBLAS\|language models\|none below' "$work/output" || complain 'these bars have no figure'
! sed -n 's/^| [^|]* | [^|]* |  |  | \(.*\) |$/\1/p' "$work/results/bars.md" |
    grep -v 'no device matches\|no compute-sanitizer\|no CUDA device\|no worker program' || complain 'these bars do not say why'
grep -q 'a launch: at most 1 us beyond a bare cuLaunchKernel | [-0-9.e+]* us |' "$work/results/bars.md" || complain 'no launch'

# The programs of a whole run are those that ctest has for such devices.
for backend in cuda:cuda_simulator opencl:pocl; do
    job=${backend#*:}
    "$suite" _device_tests "${backend%:*}" | LC_ALL=C sort >"$work/listed"
    # Not by ctest: its log is that of the run that this is part of.
    sed -n "s/^add_test([^a-z]*\(test_[a-z0-9_]*\)\.${job}[^a-z0-9_].*/\1/p" "$build/tests/CTestTestfile.cmake" | LC_ALL=C sort >"$work/output"
    [ -s "$work/listed" ] && cmp -s "$work/listed" "$work/output" || complain "its tests for $backend are not those of ctest"
done

# A sanitizer that had time for nothing has found nothing, and ends as what takes too long does.
status=0
"$suite" _sanitize "$build" "$work/none" cuda/ memcheck 0 test_convert test_softmax >"$work/output" 2>&1 || status=$?
[ $status -eq 124 ] && grep -q '^none of 2 programs ended in time$' "$work/output" || complain "no time to sanitize: $status"

# A machine that refuses the tool has failed nothing, but what was found before that stays found. sanitized CODE LINE TEST...: of a
# tool that finds something in test_copy, nothing in test_convert, and is refused for others.
mkdir "$work/tools"
cat >"$work/tools/compute-sanitizer" <<'EOF'
#!/bin/sh
case $* in
*test_copy) echo '========= ERROR SUMMARY: 1 error' && exit 9 ;;
*test_convert) echo '========= ERROR SUMMARY: 0 errors' ;;
*) echo '========= Error: Device not supported' && exit 1 ;;
esac
EOF
chmod +x "$work/tools/compute-sanitizer"
sanitized() {
    code=$1 line=$2 status=0
    shift 2
    PATH=$work/tools:$PATH "$suite" _sanitize "$build" "$work/none" cuda/ memcheck 60 "$@" >"$work/output" 2>&1 || status=$?
    [ $status -eq "$code" ] && tail -n 1 "$work/output" | grep -q "^$line" || complain "sanitizing $* ends with $status"
}
sanitized 0 'memcheck reports nothing in 1 of 1' test_convert
sanitized 1 'test_copy: exit 9' test_convert test_copy
sanitized 0 'refused by this machine: .*not supported' test_convert test_softmax
sanitized 1 'test_copy: exit 9, .*1 error; then refused by this machine' test_copy test_softmax

# Of a run of one step there is one line besides the devices'.
rm -rf "$work/results"
"$suite" --quick --only gemm_s8 --build "$build" --out "$work/results" >"$work/output" 2>&1 || complain 'one step failed'
[ "$(grep -c 'it was not asked for' "$work/results/bars.md")" -gt 20 ] || complain 'bars of other steps do not say why they are empty'
grep -q 'bf16 |  |  | gemm_s8: ' "$work/results/bars.md" || complain 's8 beside bf16, without bf16'
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
"devices "* | "_bars "*) exec "$build/bin/tandem" "\$@" ;;
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
