#!/bin/sh
# Checks that a change of a kernel source recompiles the images of that source and no others, and
# that check_cuda_architectures.sh requires them. It builds a copy of the tree with a stand-in for
# nvcc that records the files that it compiles. Usage: check_image_rebuilds.sh SOURCE
set -eu
source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TANDEM_CUDA_IMAGE_CACHE || true
cases=0

cat >"$work/nvcc" <<'EOF'
#!/bin/sh
[ "$1" != --version ] || { echo 'Cuda compilation tools, release 13.0, V13.0.1'; exit; }
while [ $# -gt 1 ]; do
    case $1 in
    -o) image=$2 ;;
    --keep-dir) touch "$2/kept.cubin" "$2/kept.ii" ;;
    esac
    shift
done
[ ! -e "$NVCC_NOTES.slow" ] || { sleep 20; exit 1; }
echo stands in >"$image"
basename "$1" .cpp >>"$NVCC_NOTES"
EOF
chmod +x "$work/nvcc"
export NVCC_NOTES="$work/notes"

mkdir "$work/tree"
(cd "$source" && tar cf - --exclude=.git --exclude=./build --exclude=./shared \
    --exclude=./bench/results .) | tar xf - -C "$work/tree"
ninja=$(command -v ninja || true)
cmake ${ninja:+-G Ninja} -S "$work/tree" -B "$work/build" -DTANDEM_BUILD_TESTS=OFF \
    -DTANDEM_BUILD_BENCH=OFF -DTANDEM_CUDA_IMAGES=ON \
    -DTANDEM_NVCC="$work/nvcc" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }

# expect WHAT: builds, and checks that the compiled sources are those in the file `wanted`.
expect() {
    : >"$NVCC_NOTES"
    cmake --build "$work/build" --target tandem_cuda_images >"$work/output" 2>&1 ||
        { cat "$work/output"; exit 1; }
    LC_ALL=C sort "$NVCC_NOTES" >"$work/got"
    if ! cmp -s "$work/wanted" "$work/got"; then
        echo "image rebuilds: after $1, + is compiled and - should be:"
        diff -u "$work/wanted" "$work/got" | sed 1,2d
        exit 1
    fi
    cases=$((cases + 1))
}

file_of() { find "$work/tree/kernels" -name "$1"; }

# change FILE: changes the content and the time of a file.
change() {
    sleep 0.05
    case $1 in
    *.cmake) echo '# changed' ;;
    *) echo '/* changed */' ;;
    esac >>"$(file_of "$1")"
}

(cd "$work/tree" && cmake -DFOLDER=kernels -P cmake/print_variants.cmake |
    sed -n 's/^TDM_VARIANT([^"]*"\([^"]*\)", "[^"]*", \([^"]*\), ".*/\1 \2/p' |
    grep -v 'TDM_CAP_CPU_CORES\|TDM_CAP_HOST_\|TDM_CAP_INT8_DOT_' | sed 's/ .*//' |
        LC_ALL=C sort -u) >"$work/all"
cp "$work/all" "$work/wanted"
expect 'nothing'
: >"$work/wanted"
expect 'no change'
change copy.cl
echo copy.cl >"$work/wanted"
expect 'a change of copy.cl'
change softmax.cl
change unary.cl
printf '%s\n' softmax.cl unary.cl >"$work/wanted"
expect 'a change of two texts'
change gemm_panel.cl # for CPU cores alone
: >"$work/wanted"
expect 'a change of a text that no CUDA device takes'
change quant_rows.h
while read -r text; do
    ! grep -q '^#include "quant_rows.h"' "$(file_of "$text")" || echo "$text"
done <"$work/all" >"$work/wanted"
[ -s "$work/wanted" ]
expect 'a change of quant_rows.h'
change copy_variants.cmake
: >"$work/wanted"
expect 'a remark in a table of variants'
change dialect_cuda.h
cp "$work/all" "$work/wanted"
expect 'a change of the dialect'
change dialect_opencl.h
: >"$work/wanted"
expect 'a change of the dialect of OpenCL'
headers=$(cd "$work/tree/kernels/dialect" &&
    sed -n 's/^#include "\(dialect[^"]*\)"$/\1/p' \
        dialect.h dialect_cxx.h dialect_cxx_memory.h dialect_cuda.h |
    sort -u | tr '\n' ' ')
if [ "$headers" != \
    'dialect.h dialect_cuda.h dialect_cxx_memory.h dialect_host.h dialect_opencl.h ' ]; then
    echo "image rebuilds: units include $headers," \
        "which cuda_images.cmake and check_cuda_architectures.sh list"
    exit 1
fi

# ---- cuda_architectures.table ----

# This stand-in for check_cuda_images.sh decides whether sources pass.
printf '#!/bin/sh\n[ ! -e "%s" ]\n' "$work/refuse" >"$work/tree/tests/checks/check_cuda_images.sh"
rm -f "$work/tree/tests/checks/cuda_architectures.table"

# expect_table WHAT STATUS ARGUMENT...: checks that check_cuda_architectures.sh exits with STATUS
# and compiles the sources of the file `wanted`.
expect_table() {
    what=$1
    wanted=$2
    shift 2
    : >"$NVCC_NOTES"
    status=0
    "$work/tree/tests/checks/check_cuda_architectures.sh" "$@" "$work/build" >"$work/output" 2>&1 ||
        status=$?
    LC_ALL=C sort "$NVCC_NOTES" >"$work/got"
    if [ "$status" -ne "$wanted" ] || ! cmp -s "$work/wanted" "$work/got"; then
        echo "image rebuilds: after $what the table's check gives $status," \
            "compiles $(tr '\n' ' ' <"$work/got")and says:"
        cat "$work/output"
        exit 1
    fi
    cases=$((cases + 1))
}

expect_table 'nothing' 3
grep -q 'nothing is compared' "$work/output"
expect_table 'nothing' 0 --update
expect_table 'an update' 0
change copy.cl
expect_table 'a remark in copy.cl' 0
echo 'int more;' >>"$work/tree/kernels/elementwise/copy.cl"
echo copy.cl >"$work/wanted"
touch "$work/refuse"
expect_table 'a change of copy.cl that does not pass' 1 --update
rm "$work/refuse"
: >"$work/wanted"
expect_table 'that' 1
grep -q 'lacks copy.cl and' "$work/output"
expect_table 'a change of copy.cl that passes' 0 --update
expect_table 'that' 0
echo '#define STILL 1' >>"$work/tree/kernels/dialect/dialect_cuda.h"
touch "$NVCC_NOTES.slow"
expect_table 'a change of the dialect for whose texts there is no time' 1 --update --seconds 1
rm "$NVCC_NOTES.slow"
cp "$work/all" "$work/wanted"
expect_table 'that' 1
: >"$work/wanted"
expect_table 'that' 0 --update
echo 'softmax_*  *  BAR:1  0  0' >>"$work/tree/tests/checks/cuda_images.table"
expect_table 'a new demand on a text' 1
grep -q 'lacks softmax.cl softmax_group.cl and' "$work/output"

# ---- --compare, without nvcc: nothing is compiled ----

# expect_compared WHAT STATUS SAID: checks the status and that the output contains SAID.
expect_compared() {
    : >"$NVCC_NOTES"
    status=0
    "$work/tree/tests/checks/check_cuda_architectures.sh" --compare "$work/compared" \
        >"$work/output" 2>&1 || status=$?
    if [ "$status" -ne "$2" ] || ! grep -q "$3" "$work/output" || [ -s "$NVCC_NOTES" ]; then
        echo "image rebuilds: without nvcc, after $1, the table's check gives $status, not $2," \
            "and says:"
        cat "$work/output"
        exit 1
    fi
    cases=$((cases + 1))
}
cmake -DTANDEM_CUDA_ARCHITECTURES=all "$work/build" >"$work/output" 2>&1
grep -v _wgmma "$work/all" >"$work/wanted" # those are compiled for 9.0a before and after
expect_table 'other architectures' 0 --update
expect_compared 'an update' 0 'as it is now by CUDA V13.0.1'
change copy.cl
expect_compared 'a remark in copy.cl' 0 'as it is now'
echo 'int still_more;' >>"$work/tree/kernels/elementwise/copy.cl"
expect_compared 'a change of copy.cl' 1 'of CUDA V13.0.1, lacks copy.cl and'
echo 'argmax_*  *  BAR:1  0  0' >>"$work/tree/tests/checks/cuda_images.table"
expect_compared 'a new demand on a text' 1 'lacks argmax.cl argmax_group.cl copy.cl and'
sed -i '/^toolkit /d' "$work/tree/tests/checks/cuda_architectures.table"
expect_compared 'the loss of its toolkit' 1 'does not say of which CUDA it is'

# ---- architectures that the user chooses ----

# expect_architectures CHOSEN WANTED TEXT: checks the architectures that nvcc compiles a source for;
# PTX is compute_*.
expect_architectures() {
    cmake "-DTANDEM_CUDA_ARCHITECTURES=$1" "$work/build" >"$work/output" 2>&1 ||
        { cat "$work/output"; exit 1; }
    got=$(tr ';' '\n' <"$work/build/kernels/cuda/$3.fatbin.options" | sed -n 's/.*,code=//p' |
        tr '\n' ' ')
    if [ "$got" != "$2 " ]; then
        echo "image rebuilds: for architectures $1 $3 is compiled for $got, not for $2"
        exit 1
    fi
    cases=$((cases + 1))
}
expect_architectures '86' 'sm_86 compute_75' copy.cl
expect_architectures '75;90a' 'sm_75 sm_90a compute_75' copy.cl
expect_architectures '80;90a' 'sm_90a' gemm_wgmma.cu
expect_architectures all 'sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_120 compute_75' copy.cl

# ---- a source that no longer exists ----

folder=$work/build/kernels/cuda
mkdir "$folder/gone.cl.fatbin.parts"
touch "$folder/gone.cl.fatbin" "$folder/gone.cl.fatbin.options" "$folder/gone.cl.fatbin.log"
cmake "$work/build" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
if find "$folder" -name 'gone*' | grep .; then
    echo 'image rebuilds: these are left of a source that no longer exists'
    exit 1
fi
[ -f "$folder/copy.cl.fatbin.options" ] ||
    { echo 'image rebuilds: and copy.cl has no options'; exit 1; }
cases=$((cases + 2))
echo "image rebuilds: $cases cases, as expected"
