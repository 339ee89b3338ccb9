#!/bin/sh
# Runs a test program on one OpenCL implementation, or the CUDA simulator, and no other, as ctest does:
#
#     tests/run_on.sh pocl|pocl1|pocl_avx2|rusticl|intel|pocl_rusticl|oclgrind|cuda_simulator PROGRAM [ARGUMENT]...
#
# (pocl_avx2: PoCL compiles for a CPU with AVX2 and without AVX-512, whatever this one has beyond that.)
# (cuda_simulator_75 and cuda_simulator_80: the simulator as a device of compute capability 7.5, 8.0.)
# (pocl_rusticl and simulator_pocl: on two at once, for what spans devices, here of two backends.)
# TANDEM_TEST_DEVICES names what must be found, so a missing driver is a failure. Under Oclgrind any
# report (data race, invalid access, misuse of the API) is a failure too.
set -eu
job=$1
shift
export TANDEM_TEST_JOB="$job" # for the rerun line of a failing case
export TANDEM_TUNING_FILE="${TANDEM_TUNING_FILE-off}" # the user's own would change what is chosen
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One driver per process: a folder that holds its .icd alone, which every loader understands.
only_driver() {
    mkdir -p "$work/icd"
    cp "${TANDEM_ICD_FOLDER:-/etc/OpenCL/vendors}/$1.icd" "$work/icd/" 2>"$work/message" || cat "$work/message" >&2
    export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
}

status=0
case $job in
pocl)
    only_driver pocl
    export TANDEM_TEST_DEVICES=opencl/pocl
    "$@" || status=$?
    ;;
pocl1)
    only_driver pocl
    export TANDEM_TEST_DEVICES=opencl/pocl POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1
    "$@" || status=$?
    ;;
pocl_avx2)
    only_driver pocl
    # PoCL names the device by what it compiles for, so a PoCL that does not know the variable has no such device.
    export TANDEM_TEST_DEVICES=haswell POCL_KERNELLIB_NAME=avx2
    "$@" || status=$?
    ;;
intel)
    # Intel's CPU runtime comes as Python wheels (intel-opencl-rt and what it needs): TANDEM_ICD_FOLDER names a folder with an
    # intel.icd that names its library.
    only_driver intel
    export TANDEM_TEST_DEVICES=opencl/intel TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
    "$@" || status=$?
    ;;
rusticl)
    only_driver rusticl
    # Its compiler takes most of the time: few cases of each kernel here, all of them on PoCL.
    export TANDEM_TEST_DEVICES=opencl/rusticl RUSTICL_ENABLE=llvmpipe TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
    "$@" || status=$?
    ;;
pocl_rusticl)
    only_driver pocl
    only_driver rusticl
    export TANDEM_TEST_DEVICES=opencl/pocl,opencl/rusticl RUSTICL_ENABLE=llvmpipe
    "$@" || status=$?
    ;;
oclgrind)
    runtime=$(find /usr/lib /usr/local/lib -name liboclgrind-rt.so 2>/dev/null | head -n 1)
    # Its uninitialised-read plug-in stays off: version 21.10 crashes in it on ordinary kernels.
    export TANDEM_TEST_DEVICES=opencl/oclgrind TANDEM_TEST_SCALE=small
    export TANDEM_OPENCL_LIBRARY="${runtime:-liboclgrind-rt.so}"
    export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_LOG="$work/oclgrind.log"
    "$@" || status=$?
    if [ -s "$work/oclgrind.log" ]; then
        echo "Oclgrind reports:" >&2
        head -n 200 "$work/oclgrind.log" >&2
        [ $status -ne 0 ] || status=1
    fi
    ;;
cuda_simulator | cuda_simulator_75 | cuda_simulator_80)
    [ "$job" = cuda_simulator ] || TANDEM_SIMULATOR_ARCHITECTURE=$(echo "${job##*_}" | sed 's/.$/.&/')
    [ "$job" = cuda_simulator ] || export TANDEM_SIMULATOR_ARCHITECTURE
    mkdir "$work/icd" # no OpenCL beside it
    export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
    export TANDEM_TEST_DEVICES=cuda/simulator TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
    export TANDEM_CUDA_LIBRARY="${TANDEM_CUDA_SIMULATOR:-$(dirname "$1")/../lib/libtandem_cuda_simulator.so}"
    "$@" || status=$?
    ;;
simulator_pocl)
    only_driver pocl
    export TANDEM_TEST_DEVICES=cuda/simulator,opencl/pocl TANDEM_TEST_SCALE=small
    export TANDEM_CUDA_LIBRARY="${TANDEM_CUDA_SIMULATOR:-$(dirname "$1")/../lib/libtandem_cuda_simulator.so}"
    "$@" || status=$?
    ;;
*)
    echo "run_on.sh: unknown job '$job'" >&2
    status=2
    ;;
esac
exit $status
