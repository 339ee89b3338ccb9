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

expect 0 ok infer "$build"

# The same from a pack that was unpacked elsewhere: what is not of every system is in it.
"$suite" --quick --build "$build" --pack "$work/pack.tar" >"$work/output" 2>&1 || complain 'nothing was packed'
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xf "$work/pack.tar"
packed=$work/elsewhere/gpu_suite
for file in "$packed/build/release/bin/"*; do
    LD_LIBRARY_PATH=$packed/build/release/lib ldd "$file" >"$work/output"
    ! grep -E 'lib(cmocka|cjson)' "$work/output" | grep -v "=> $packed/" || complain "$file takes a library of this machine"
done
(
    cd "$work/elsewhere" && status=0
    gpu_suite/bench/gpu_suite --quick --only tests_cuda,launch,infer --out results >"$work/output" 2>&1 || status=$?
    [ $status -eq 0 ] && [ "$(grep -c '^ok ' results/summary.txt)" -eq 4 ] || complain "the pack ends with $status"
)

# All steps together end in time, those beside others apart, which end with them.
total=$("$suite" _caps | awk '$3 == "" { n += $2 } END { print n }')
apart=$("$suite" _caps | awk '$3 == "apart" { n += $2 } END { print n }')
together=$("$suite" _caps | awk '$1 == "memcheck" || $1 == "racecheck" { n += $2 } $1 == "tests_opencl" { n -= $2 } END { print n }')
[ "$together" -eq 0 ] || complain "the tests on OpenCL end $together s before or after what is beside them"
[ "$total" -ge 400 ] && [ "$total" -le 510 ] || complain "its steps may take $total s"
# Three minutes of sustained work, and what goes before, in what one call of a lent machine may take.
[ "$apart" -ge 195 ] && [ "$apart" -le 240 ] || complain "its steps apart may take $apart s"

# Each bar is a row of both files. What the simulator cannot give is what other libraries and other devices are needed for.
bars=$(grep -c '"bar":' "$work/results/bars.json") || true
[ "$bars" -ge 29 ] && [ "$(grep -c '^| [a-zA-Z]* [a-z]* |' "$work/results/bars.md")" -eq "$bars" ] ||
    complain "bars.md and bars.json do not have the same rows"
sed -n 's/^| [^|]* | \([^|]*\) |  |  | .*/\1/p' "$work/results/bars.md" >"$work/output"
! grep -v 'OpenCL\|sanitizer\|cuBLAS\|language models\|none below' "$work/output" || complain 'these bars have no figure'
! sed -n 's/^| [^|]* | [^|]* |  |  | \(.*\) |$/\1/p' "$work/results/bars.md" |
    grep -v 'no device matches\|no compute-sanitizer\|no CUDA device\|no worker program' || complain 'these bars do not say why'
grep -q '^ok .* report_again .*medians of [0-9]* of [0-9]* cases are within 3 %' "$work/results/summary.txt" || complain 'reports were not compared'
grep -q 'two reports agree within 3 % on at least 95 % of rows | [0-9.e+]* % |' "$work/results/bars.md" || complain 'no agreement'
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
if [ "${TANDEM_POOL-}" != direct ] || [ "${TANDEM_TEST_SCALE-}" != small ] || ! echo "$*" | grep -q -e '--report-api-errors no '; then
    echo "it would see nothing of a pool's tensors, or what the driver refuses by right: $*" && exit 9
fi
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

# What many programs end with. all_run CODE LINE SECONDS: three programs, of which test_slow is killed when the time is over.
mkdir -p "$work/programs/bin"
for test in test_quick test_slow test_wrong; do
    printf '#!/bin/sh\necho "%s" >>"%s"\necho "executed: 2 cases"\n' $test "$work/order" >"$work/programs/bin/$test"
done
echo 'exec sleep 60' >>"$work/programs/bin/test_slow"
echo 'exit 1' >>"$work/programs/bin/test_wrong"
chmod +x "$work/programs/bin/"*
all_run() {
    code=$1 line=$2 seconds=$3 status=0
    shift 3
    "$suite" _run_all "$work/programs" "$work/all" cuda/ 1 "$seconds" "$@" >"$work/output" 2>&1 || status=$?
    [ $status -eq "$code" ] && [ "$(tail -n 1 "$work/output")" = "$line" ] || complain "all of $* end with $status"
}
all_run 0 '1 of 1 programs passed, 0 had no time, 2 cases' 60 test_quick
all_run 0 '1 of 3 programs passed, 2 had no time, 4 cases' 2 test_quick test_slow test_quick
all_run 1 '1 of 3 programs passed, 1 had no time, 6 cases' 2 test_wrong test_quick test_slow
all_run 124 'none of 2 programs ended in time' 0 test_quick test_wrong
[ "$("$suite" _device_tests cuda | head -n 1)" = "$(cd "$1/tests" && grep -E '// ctest:.* device.* cost=' test_*.c |
    grep -v 'ctest:.* opencl ' | sed 's/\(.*\)\.c:.*cost=\([0-9]*\).*/\2 \1/' | sort -k 1,1nr -k 2 | sed 's/.* //;q')" ] ||
    complain 'what costs most is not first'

# A bar of a step that had no time for all is met in part.
mkdir "$work/part"
printf '%-8s %4s  %-24s %s\n' ok 36 tests_opencl '60 of 69 programs passed, 9 had no time, 4711 cases' >"$work/part/summary.txt"
printf '%-8s %4s  %-24s %s\n' ok 36 tests_cuda '71 of 71 programs passed, 0 had no time, 4711 cases' >>"$work/part/summary.txt"
"$build/bin/tandem" _bars "$work/part" && cp "$work/part/bars.md" "$work/output"
grep -q "OpenCL | ok | in part | tests_opencl: 60 of 69" "$work/output" && grep -q "CUDA device | ok | yes | tests_cuda: 71" "$work/output" ||
    complain 'steps without time for all are not met in part'

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

# Two reports are compared where there are two, of a device whose name has a space. reports CODE WORD SECOND COMPARE: what the second
# report and the comparison end with.
reports() {
    rm -rf "$work/results" "$work/reported"
    stand_ins nothing
    cat >"$work/build/bin/tandem" <<EOF
#!/bin/sh
case \$1 in
devices | _bars) exec "$build/bin/tandem" "\$@" ;;
report)
    [ "\$2 \$3" = '--device cuda/simulator/Tandem simulator' ] || exit 2
    [ ! -e "$work/reported" ] || exit $3
    : >"$work/reported"
    while [ \$# -gt 1 ]; do
        [ "\$1" != --json ] || echo '{}' >"\$2"
        shift
    done
    ;;
compare) exit $4 ;;
esac
EOF
    status=0
    GPU_SUITE_DEVICE='cuda/simulator/Tandem simulator' "$suite" --quick --build "$work/build" --out "$work/results" \
        --only report,report_again >"$work/output" 2>&1 || status=$?
    [ $status -eq "$1" ] && grep -q "^$2  *[0-9]*  report_again " "$work/results/summary.txt" || complain "reports that end with $3 and $4: $status"
}
reports 0 ok 0 0
reports 1 FAILED 1 0
reports 1 FAILED 0 1
stand_ins nothing
"$suite" --quick --build "$work/build" --out "$work/results" --only report_again >"$work/output" 2>&1 || complain 'an old report is none'
rm "$work/results/report.json"
"$suite" --quick --build "$work/build" --out "$work/results" --only report_again >"$work/output" 2>&1 || complain 'no first report'
grep -q '^skipped .* report_again ' "$work/results/summary.txt" || complain 'a report is compared with nothing'

# Limits are kept up for a minute each where that is asked for, or all have their time beside it. kept_up STATE COMMAND ARGUMENT...
stand_ins nothing
cat >"$work/build/bin/tandem" <<EOF
#!/bin/sh
case \$1 in
devices | _bars) exec "$build/bin/tandem" "\$@" ;;
report) echo "\$*" >>"$work/commands" ;;
esac
EOF
kept_up() {
    state=$1 command=$2
    shift 2
    rm -rf "$work/results" "$work/commands"
    : >"$work/commands"
    "$suite" "$@" --build "$work/build" --out "$work/results" >"$work/output" 2>&1 || true # which tests are there is not asked
    grep -q "^$state .* sustained " "$work/results/summary.txt" && [ "$(grep -c -e "$command" "$work/commands")" -eq 1 ] ||
        complain "limits are not kept up as by $*"
}
kept_up ok '--suite sustained --sustain 60 --seconds 202 --visits 1' --only sustained
kept_up ok '--suite sustained --sustain 60 --seconds 202 --visits 1' --seconds 720
kept_up ok 'gemm --seconds 14 ' --seconds 720
kept_up skipped 'gemm --seconds 14 ' --seconds 510
kept_up skipped 'gemm --seconds 23 ' --seconds 719
grep -q ' sustained  *a minute of each limit takes 210 s more: .* --seconds 720' "$work/results/summary.txt" || complain 'it does not say how'

# The time of all begins when the build is there: the stand-in of cmake makes it in half an hour, says the stand-in of date.
cat >"$work/tools/cmake" <<EOF
#!/bin/sh
echo "\$*" >>"$work/cmake.log"
case \$1 in --build) echo 1800 >"$work/late" && cp -R "$work/build" "$work/made" ;; esac
EOF
cat >"$work/tools/date" <<EOF
#!/bin/sh
if [ "\$*" = +%s ]; then echo \$((\$(/bin/date +%s) + \$(cat "$work/late"))); else exec /bin/date "\$@"; fi
EOF
chmod +x "$work/tools/cmake" "$work/tools/date"
echo 0 >"$work/late"
PATH=$work/tools:$PATH "$suite" --quick --only launch --build "$work/made" --out "$work/built" >"$work/output" 2>&1 || complain 'no build was made'
grep -q '^ok .* launch ' "$work/built/summary.txt" || complain 'its steps had no time after the build'
grep -q -e "--build $work/made --target tandem_gpu_suite " "$work/cmake.log" || complain 'it builds more than it runs'
rm "$work/tools/date" "$work/tools/cmake"

# The same GPU's OpenCL without a file by which a loader finds it. A stand-in sees it where a condition holds alone; its tests run
# beside the sanitizer, and what they end with counts. opencl CODE WORD LIBRARY; stand_ins_opencl TEST-THAT-FAILS CONDITION.
stand_ins_opencl() {
    stand_ins "$1"
    cat >"$work/build/bin/tandem" <<EOF
#!/bin/sh
case \$1 in
devices)
    "$build/bin/tandem" "\$@" || exit
    if $2; then sed -i 's|"devices":[[:space:]]*\[|&{"selector": "opencl/nvidia/a GPU"},|' "\$3"; fi
    ;;
_bars) exec "$build/bin/tandem" "\$@" ;;
*) echo "\$*" >>"$work/commands" ;;
esac
EOF
}
opencl() {
    rm -rf "$work/results" "$work/commands"
    status=0
    GPU_SUITE_OPENCL_LIBRARY=$3 PATH=$work/tools:$PATH "$suite" --quick --build "$work/build" --out "$work/results" \
        --only tests_opencl,memcheck,racecheck,opencl_gemm_f32,gemm_f32 >"$work/output" 2>&1 || status=$?
    [ $status -eq "$1" ] && grep -q "^$2  *[0-9]*  tests_opencl " "$work/results/summary.txt" || complain "OpenCL by $3 ends with $status"
}
library=$work/libnvidia-opencl.so.1
: >"$library"
stand_ins_opencl nothing "grep -qs '^$library\$' \"\$OCL_ICD_VENDORS\"/nvidia.icd \"\$OPENCL_VENDOR_PATH\"/nvidia.icd"
opencl 0 ok "$library"
[ "$(sed -n 's/.* gemm --shapes \([^ ]*\) .*\( --rotate [^ ]*\).*/\1\2/p' "$work/commands" | sort | uniq -c | awk '{ print $1 }')" = 2 ] ||
    complain 'f32 by OpenCL and by CUDA are not asked for alike'
opencl 0 skipped "$work/nothing"
grep -q "no device matches opencl/nvidia: NVIDIA's ICD" "$work/results/summary.txt" || complain 'without a library the reason is another'
stand_ins_opencl nothing "[ \"\${TANDEM_OPENCL_LIBRARY-}\" = '$library' ]"
opencl 0 ok "$library"
stand_ins_opencl nothing false
opencl 0 skipped "$library"
stand_ins_opencl test_softmax true
opencl 1 FAILED "$library"
[ -e "$work/results/tests/opencl.test_softmax.log" ] || complain 'the log of a failed test on OpenCL is not there'
stand_ins test_softmax
expect 1 FAILED tests_cuda "$work/build"
for case in launch pool quant memory gemv; do
    stand_ins $case
    expect 1 FAILED $case "$work/build"
done
stand_ins infer
expect 1 FAILED infer "$work/build"
echo "gpu suite: $runs runs, as expected"
