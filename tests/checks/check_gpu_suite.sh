#!/bin/sh
# Checks bench/gpu_suite with the CUDA simulator as the device. Every step must have a line in
# summary.txt, a failing step must fail the suite, and the table must have the results of all steps.
# The first quick run has all steps. Later runs use a build of stand-in programs, one of which
# fails. Usage: check_gpu_suite.sh SOURCE BUILD SIMULATOR
set -eu
suite=$1/bench/gpu_suite
build=$(cd "$2" && pwd)
export TANDEM_CUDA_LIBRARY="$3" TANDEM_SIMULATOR_LOG=off TANDEM_TEST_SCALE=small
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/icd" # empty, so that there is no OpenCL device
export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
steps="devices $("$suite" _caps | awk '{ print $1 }' | tr '\n' ' ')"
runs=0

complain() {
    echo "gpu suite: $1"
    cat "$work/output"
    exit 1
}

# expect CODE WORD STEP BUILD: the suite exits with CODE, the line of STEP begins with WORD, and
# CODE steps have failed.
expect() {
    rm -rf "$work/results"
    status=0
    "$suite" --quick --build "$4" --out "$work/results" >"$work/output" 2>&1 || status=$?
    [ "$status" -eq "$1" ] || complain "it ended with $status instead of $1, $3 was to be $2"
    for step in $steps; do
        grep -q "^[A-Za-z]*  *[0-9]*  $step " "$work/results/summary.txt" ||
            complain "summary.txt has no line of $step"
    done
    grep -q "^$2  *[0-9]*  $3 " "$work/results/summary.txt" || complain "$3 is not $2"
    wrong=$(grep -c '^FAILED\|^TIMEOUT' "$work/results/summary.txt" || true)
    [ "$wrong" -eq "$1" ] || complain "$wrong steps failed"
    runs=$((runs + 1))
}

expect 0 ok tests "$build"

# The suite leaves at most eight files, and the table has rows of every suite.
[ "$(find "$work/results" -type f | wc -l)" -le 8 ] || complain 'it left more than eight files'
for suite_name in gemm memory launch pool; do
    grep -Eq "^$suite_name .* [0-9.e+-]+ us " "$work/results/summary.txt" ||
        complain "the table has no row of $suite_name"
done
# The table shows Tandem's speed as a multiple of the peer's, and its share of the read bandwidth.
printf '\t"results":\t[{\n' >"$work/table.json"
for row in 'tandem 1000 "of_read":0.5' 'cublaslt 2000 "tandem_is":0.5'; do
    # shellcheck disable=SC2086  # a list of words
    set -- $row
    printf '\t\t\t"suite":\t"gemm",\n\t\t\t"case":\t"one",\n\t\t\t"impl":\t"%s",\n' "$1"
    printf '\t\t\t"median_s":\t0.5,\n\t\t\t"gflops":\t%s,\n' "$2"
    printf '\t\t\t"gbs":\t3,\n\t\t\t"status":\t"ok",\n\t\t\t"metrics":\t{\n'
    printf '\t\t\t\t%s\n\t\t\t}\n\t\t}, {\n' "$3"
done >>"$work/table.json"
"$suite" _table "$work/table.json" >"$work/output"
[ "$(wc -l <"$work/output")" -eq 1 ] && grep -q 'one .* 3 GB/s .*0.50 x cublaslt' "$work/output" ||
    complain 'the table is wrong'

# All steps together fit into ten minutes.
total=$("$suite" _caps | awk '{ n += $2 } END { print n }')
[ "$total" -eq 540 ] || complain "its steps may take $total s"

# The suite also runs from a pack that is unpacked elsewhere. The pack has the libraries that a
# system may lack.
"$suite" --quick --build "$build" --pack "$work/pack.tar" >"$work/output" 2>&1 ||
    complain 'nothing was packed'
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xf "$work/pack.tar"
packed=$work/elsewhere/gpu_suite
for file in "$packed/build/release/bin/"*; do
    LD_LIBRARY_PATH=$packed/build/release/lib ldd "$file" >"$work/output"
    ! grep -E 'lib(cmocka|cjson)' "$work/output" | grep -v "=> $packed/" ||
        complain "$file takes a library of this machine"
done
(
    cd "$work/elsewhere" && status=0
    gpu_suite/bench/gpu_suite --quick --only tests,launch --out results >"$work/output" 2>&1 ||
        status=$?
    [ $status -eq 0 ] && [ "$(grep -c '^ok ' results/summary.txt)" -eq 3 ] ||
        complain "the pack ends with $status"
)

# The programs of a full run are the tests that ctest runs on CUDA devices, except those of
# benchmark code.
"$suite" _device_tests | LC_ALL=C sort >"$work/listed"
# This must not call ctest, which would overwrite the log of the run that this check is part of.
sed -n 's/^add_test([^a-z]*\(test_[a-z0-9_]*\)\.cuda_simulator[^a-z0-9_].*/\1/p' \
    "$build/tests/CTestTestfile.cmake" | LC_ALL=C sort >"$work/ctest"
LC_ALL=C comm -23 "$work/listed" "$work/ctest" >"$work/output"
[ ! -s "$work/output" ] || complain 'these tests are not ones of ctest'
[ "$(wc -l <"$work/listed")" -ge 40 ] || complain 'it leaves out tests of kernels'

# all_run CODE LINE SECONDS PROGRAM...: runs several programs at once and checks exit code and last
# line. test_slow is killed when the time is over.
mkdir -p "$work/programs/bin"
for test in test_quick test_slow test_wrong; do
    printf '#!/bin/sh\necho "executed: 2 cases"\n' >"$work/programs/bin/$test"
done
echo 'exec sleep 60' >>"$work/programs/bin/test_slow"
echo 'exit 1' >>"$work/programs/bin/test_wrong"
chmod +x "$work/programs/bin/"*
all_run() {
    code=$1 line=$2 seconds=$3 status=0
    shift 3
    "$suite" _run_all "$work/programs" "$work/all" cuda/ 1 "$seconds" "$@" >"$work/output" 2>&1 ||
        status=$?
    [ $status -eq "$code" ] && [ "$(tail -n 1 "$work/output")" = "$line" ] ||
        complain "all of $* end with $status"
}
all_run 0 '1 of 3 programs passed, 2 had no time, 4 cases' 2 test_quick test_slow test_quick
all_run 1 '1 of 3 programs passed, 1 had no time, 6 cases' 2 test_wrong test_quick test_slow
all_run 124 'none of 2 programs ended in time' 0 test_quick test_wrong

# A run of one step adds its line and its results to a folder that has others.
rm -rf "$work/results"
for step in launch pool; do
    "$suite" --quick --only $step --build "$build" --out "$work/results" >"$work/output" 2>&1 ||
        complain "$step failed"
done
names=$(sed -n 's/^ok *[0-9]* *\([a-z0-9_]*\).*/\1/p' "$work/results/summary.txt" | tr '\n' ' ')
[ "$names" = 'launch devices pool ' ] ||
    complain '--only gives other steps'
grep -q '^launch ' "$work/results/summary.txt" ||
    complain 'the table lacks what an earlier call measured'

# stand_ins FAILING: makes a build whose tests and benchmarks do nothing, except FAILING, which
# fails.
stand_ins() {
    rm -rf "$work/build"
    mkdir -p "$work/build/bin"
    for test in test_convert test_copy_across test_softmax; do
        printf '#!/bin/sh\necho "executed: 1 cases"\n[ "%s" != %s ]\n' "$1" $test \
            >"$work/build/bin/$test"
    done
    cat >"$work/build/bin/tandem" <<EOF
#!/bin/sh
case "\$1 \${2-}" in
"bench $1") exit 1 ;;
"devices "*) exec "$build/bin/tandem" "\$@" ;;
esac
EOF
    chmod +x "$work/build/bin/"*
}
stand_ins test_softmax
expect 1 FAILED tests "$work/build"
grep -q '^==== tests.test_softmax.log' "$work/results/log.txt" ||
    complain 'the log of a failed test is not there'
for case in launch pool memory; do
    stand_ins $case
    expect 1 FAILED $case "$work/build"
done

# The time limit starts after the build. The stand-ins of cmake and date pretend that the build
# takes half an hour.
stand_ins nothing
mkdir "$work/tools"
cat >"$work/tools/cmake" <<EOF
#!/bin/sh
echo "\$*" >>"$work/cmake.log"
case \$1 in --build) echo 1800 >"$work/late" && cp -R "$work/build" "$work/made" ;; esac
EOF
cat >"$work/tools/date" <<EOF
#!/bin/sh
if [ "\$*" = +%s ]; then
    echo \$((\$(/bin/date +%s) + \$(cat "$work/late")))
else
    exec /bin/date "\$@"
fi
EOF
chmod +x "$work/tools/cmake" "$work/tools/date"
echo 0 >"$work/late"
PATH=$work/tools:$PATH "$suite" --quick --only launch --build "$work/made" --out "$work/built" \
    >"$work/output" 2>&1 || complain 'no build was made'
grep -q '^ok .* launch ' "$work/built/summary.txt" ||
    complain 'its steps had no time after the build'
grep -q -e "--build $work/made --target tandem_gpu_suite " "$work/cmake.log" ||
    complain 'it builds more than it runs'
echo "gpu suite: $runs runs, as expected"
