#!/bin/sh
# Runs a test program as ctest does, on the devices of JOB and no others:
#
#     tests/run_on.sh JOB PROGRAM [ARGUMENT]...
#
#   pocl               PoCL
#   pocl1              PoCL with one thread
#   pocl_avx2          PoCL that compiles for AVX2, even on a CPU with AVX-512
#   rusticl            rusticl's software device (llvmpipe)
#   intel              Intel's CPU runtime
#   oclgrind           Oclgrind
#   cuda_simulator     the CUDA simulator
#   cuda_simulator_75, cuda_simulator_80   the simulator with compute capability 7.5 or 8.0
#   pocl_rusticl, simulator_pocl           two devices at once; simulator_pocl has two backends
#
# TANDEM_TEST_DEVICES lists the devices that must be found, so a missing driver is a failure. With
# Oclgrind, any report (data race, invalid access, misuse of the API) is a failure too.
set -eu
job=$1
shift
export TANDEM_TEST_JOB="$job" # a failing case prints it in its rerun command
export TANDEM_TUNING_FILE="${TANDEM_TUNING_FILE-off}" # the user's file could change kernel choices
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Adds a driver to the folder of .icd files that every OpenCL loader reads instead of the system's.
only_driver() {
    mkdir -p "$work/icd"
    cp "${TANDEM_ICD_FOLDER:-/etc/OpenCL/vendors}/$1.icd" "$work/icd/" 2>"$work/message" ||
        cat "$work/message" >&2
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
    # PoCL's device name contains its compile target. If PoCL ignores POCL_KERNELLIB_NAME, there is
    # no such device, and the test fails.
    export TANDEM_TEST_DEVICES=haswell POCL_KERNELLIB_NAME=avx2
    "$@" || status=$?
    ;;
intel)
    # Intel's CPU runtime comes as Python wheels (intel-opencl-rt and its dependencies).
    # TANDEM_ICD_FOLDER is a folder with an intel.icd that names its library.
    only_driver intel
    export TANDEM_TEST_DEVICES=opencl/intel TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
    "$@" || status=$?
    ;;
rusticl)
    only_driver rusticl
    # rusticl's compiler takes most of the time, so it runs few cases of each kernel. PoCL runs all.
    export TANDEM_TEST_DEVICES=opencl/rusticl RUSTICL_ENABLE=llvmpipe \
        TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
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
    # Oclgrind's plug-in for uninitialised reads stays off, because version 21.10 crashes in it on
    # ordinary kernels.
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
    [ "$job" = cuda_simulator ] || TANDEM_SIMULATOR_ARCHITECTURE=$(echo "${job##*_}" |
        sed 's/.$/.&/')
    [ "$job" = cuda_simulator ] || export TANDEM_SIMULATOR_ARCHITECTURE
    mkdir "$work/icd" # empty, so that there is no OpenCL device
    export OCL_ICD_VENDORS="$work/icd" OPENCL_VENDOR_PATH="$work/icd"
    export TANDEM_TEST_DEVICES=cuda/simulator TANDEM_TEST_SCALE="${TANDEM_TEST_SCALE-small}"
    simulator=$(dirname "$1")/../lib/libtandem_cuda_simulator.so
    export TANDEM_CUDA_LIBRARY="${TANDEM_CUDA_SIMULATOR:-$simulator}"
    "$@" || status=$?
    ;;
simulator_pocl)
    only_driver pocl
    export TANDEM_TEST_DEVICES=cuda/simulator,opencl/pocl TANDEM_TEST_SCALE=small
    simulator=$(dirname "$1")/../lib/libtandem_cuda_simulator.so
    export TANDEM_CUDA_LIBRARY="${TANDEM_CUDA_SIMULATOR:-$simulator}"
    "$@" || status=$?
    ;;
*)
    echo "run_on.sh: unknown job '$job'" >&2
    status=2
    ;;
esac
exit $status
