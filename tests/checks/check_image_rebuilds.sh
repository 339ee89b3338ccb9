#!/bin/sh
# A change of a kernel text compiles the images of that text anew and no others: a copy of the tree is built with a
# stand-in for nvcc that notes what it is given.   Usage: check_image_rebuilds.sh SOURCE
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
echo stands in >"$image"
basename "$1" .cpp >>"$NVCC_NOTES"
EOF
chmod +x "$work/nvcc"
export NVCC_NOTES="$work/notes"

mkdir "$work/tree"
(cd "$source" && tar cf - --exclude=.git --exclude=./build --exclude=./shared --exclude=./bench/results .) | tar xf - -C "$work/tree"
ninja=$(command -v ninja || true)
cmake ${ninja:+-G Ninja} -S "$work/tree" -B "$work/build" -DTANDEM_BUILD_TESTS=OFF -DTANDEM_BUILD_BENCH=OFF -DTANDEM_CUDA_IMAGES=ON \
    -DTANDEM_NVCC="$work/nvcc" >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }

# expect WHAT: the texts that are compiled now are those in the file `wanted`.
expect() {
    : >"$NVCC_NOTES"
    cmake --build "$work/build" --target tandem_cuda_images >"$work/output" 2>&1 || { cat "$work/output"; exit 1; }
    LC_ALL=C sort "$NVCC_NOTES" >"$work/got"
    if ! cmp -s "$work/wanted" "$work/got"; then
        echo "image rebuilds: after $1, + is compiled and - should be:"
        diff -u "$work/wanted" "$work/got" | sed 1,2d
        exit 1
    fi
    cases=$((cases + 1))
}

# change FILE: its content and its time.
change() {
    sleep 0.05
    echo '/* changed */' >>"$work/tree/kernels/$1"
}

(cd "$work/tree/kernels" && sed -n 's/^TDM_VARIANT([^"]*"\([^"]*\)", "[^"]*", \([^"]*\), ".*/\1 \2/p' variants.def |
    grep -v 'TDM_CAP_CPU_CORES\|TDM_CAP_HOST_\|TDM_CAP_INT8_DOT_' | sed 's/ .*//' | LC_ALL=C sort -u) >"$work/all"
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
    ! grep -q '^#include "quant_rows.h"' "$work/tree/kernels/$text" || echo "$text"
done <"$work/all" >"$work/wanted"
[ -s "$work/wanted" ]
expect 'a change of quant_rows.h'
change variants.def
: >"$work/wanted"
expect 'a remark in variants.def'
change dialect_cuda.h
cp "$work/all" "$work/wanted"
expect 'a change of the dialect'
echo "image rebuilds: $cases cases, as expected"
