#!/bin/sh
# Checks that the checks of the tree can fail. Each runs on a small correct tree, then on the same
# tree with one fault. Usage: check_the_checks.sh FOLDER_OF_CHECKS
set -eu
checks=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
cases=0

fresh_tree() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    cd "$work/tree"
    mkdir -p api/include/tandem backend_opencl kernels quant bench/peers tests examples
    echo '#include <stdint.h>' >api/include/tandem/dtype.h
    echo '#include "api/backend.h"' >api/core.c
    echo '#include <tandem/dtype.h>' >api/backend.h
    echo '#include <CL/cl.h>' >backend_opencl/opencl_memory.c
    echo '#include "dialect.h"' >kernels/gemm.cl
    mkdir cmake
    printf 'execute_process(COMMAND echo "TDM_VARIANT(%s)")\n' 'one, COPY, 0' \
        'two, COPY, TDM_CAP_CPU_CORES' >cmake/print_variants.cmake
    echo '#include "quant/number_formats.h"' >quant/number_formats.c
    echo '#include "common/op_gemm.h"' >bench/suite_gemm.c
    echo 'See [the core](api/core.c), and `quant/number_formats.c`. There are 1 CUDA kernels.' \
        >README.md
}

# expect WANTED CHECK: the check must pass (0) or fail (1) on the current tree.
expect() {
    cases=$((cases + 1))
    if sh "$checks/$2" "$work/tree" >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$1" ]; then
        echo "$2: wanted $1, got $got after: $planted"
        cat "$work/output"
        bad=1
    fi
}

# plant FILE LINE CHECK: adding the line to the file must make the check fail.
plant() {
    fresh_tree
    planted="'$2' in $1"
    echo "$2" >>"$work/tree/$1"
    expect 1 "$3"
}

planted=nothing
fresh_tree
expect 0 check_layering.sh
expect 0 check_docs.sh
expect 0 check_prose.sh

plant README.md '[gone](docs/gone.md)' check_docs.sh
plant README.md 'see `api/gone.c`' check_docs.sh
plant README.md 'There are 2 CUDA kernels.' check_docs.sh
plant README.md 'An H100 copies 3000 GB/s.' check_docs.sh
plant README.md 'On CUDA it is 1.5× as fast.' check_docs.sh
plant README.md 'A launch by CUDA takes 5 us there.' check_docs.sh
plant README.md 'Measured on PoCL.

## Other

wgmma: 700 TFLOP/s' check_docs.sh
for mark in 'Not measured on hardware.' 'Measured on an H200, 2026-11-22.' 'It is a **model**.'; do
    fresh_tree
    planted="an H200's figure, and $mark"
    printf '\n## H200\n\nIt copies 4000 GB/s.\n\n%s\n' "$mark" >>"$work/tree/README.md"
    expect 0 check_docs.sh
done
plant README.md 'The reals are bounded.' check_prose.sh
plant api/core.c 'int x; /* asks ahead */' check_prose.sh
plant api/core.c '/* Of what is left */' check_prose.sh
plant api/core.c '
/*
 * Whether it is there. */' check_prose.sh
plant api/core.c 'int x; // As before' check_prose.sh
plant quant/number_formats.c "/* $(printf '%098d' 0) */" check_prose.sh
plant api/core.c '#include "backend_opencl/opencl_memory.h"' check_layering.sh
plant api/core.c '#include <CL/cl.h>' check_layering.sh
plant api/core.c '  #  include   "common/command/standard_streams.h"  // why' check_layering.sh
plant api/core.c '#include "../quant/number_formats.h"' check_layering.sh
plant api/core.c '#include "kernels/dialect/dialect.h"' check_layering.sh
plant api/include/tandem/dtype.h '#include "api/device/core.h"' check_layering.sh
plant api/include/tandem/dtype.h '#include <CL/cl.h>' check_layering.sh
plant backend_opencl/opencl_memory.c '#include "api/device/core.h"' check_layering.sh
plant backend_opencl/opencl_memory.c '#include "quant/number_formats.h"' check_layering.sh
plant kernels/kernel_index.c '#include "api/backend.h"' check_layering.sh
plant kernels/kernel_index.c '#include <tandem/tensor.h>' check_layering.sh
plant quant/number_formats.c '#include "api/backend.h"' check_layering.sh
plant bench/suite_gemm.c '#include "tests/support/oracle.h"' check_layering.sh
plant bench/suite_gemm.c '#include "backend_opencl/opencl_memory.h"' check_layering.sh
plant examples/first.c '#include "api/device/core.h"' check_layering.sh

fresh_tree
planted='no sources'
find "$work/tree" -type f -exec rm {} +
expect 1 check_layering.sh


# library WANTED CODE LINKER_OPTION...: runs check_symbols.sh on a library of that code. Its header
# declares tdm_one and, in two lines, tdm_two.
library() {
    cases=$((cases + 1))
    wanted=$1
    code=$2
    shift 2
    rm -rf "$work/library"
    mkdir -p "$work/library/include/tandem"
    cd "$work/library"
    printf '%s\n' '#define TDM_API __attribute__((visibility("default")))' \
        'TDM_API int tdm_one(void);' \
        'TDM_API const char *' 'tdm_two(int a,' '    int b);' >include/tandem/tandem.h
    printf '%s\n' '#include <tandem/tandem.h>' "$code" >library.c
    cc -fvisibility=hidden -Iinclude -shared -fPIC -o libtandem.so library.c "$@"
    if sh "$checks/check_symbols.sh" libtandem.so include >output 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$wanted" ]; then
        echo "check_symbols.sh: wanted $wanted, got $got for: $code $*"
        cat output
        bad=1
    fi
}

one='int tdm_one(void) { return 1; }'
two='const char *tdm_two(int a, int b) { return a < b ? "" : 0; }'
visible='__attribute__((visibility("default")))'
name='-Wl,-soname,libtandem.so.0.2'
library 0 "$one $two" $name
library 0 "$one $two int tdm_hidden(void) { return 0; }" $name
library 1 "$one" $name
library 1 "$one $two $visible int tdm_three;" $name
library 1 "$one $two $visible int three;" $name
library 1 "$one $two const char *const tdm_row = \"probe_chase_s32\";" $name
library 1 "$one $two" -Wl,-soname,libtandem.so.1
library 1 "$one $two" $name -Wl,--no-as-needed -lcmocka

# executed WANTED TABLE LINE...: runs check_executed_cases.sh. The first device executed a case of a
# portable variant, a case without a variant, and one of a variant that only it has (0x2). The
# second device, which has other variants (0x4), executed the cases of the lines.
executed() {
    cases=$((cases + 1))
    wanted=$1
    printf '%s\n' "$2" >"$work/table"
    shift 2
    printf '%s\n' '0x3 capabilities' '0x1 row: [5,7] dense' '0x0 limits' '0x2 own: [3]' \
        >"$work/test_it.first"
    printf '%s\n' '0x5 capabilities' "$@" >"$work/test_it.second"
    if sh "$checks/check_executed_cases.sh" test_it "$work" first second "$work/table" \
        >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$wanted" ]; then
        echo "check_executed_cases.sh: wanted $wanted, got $got for: $*"
        cat "$work/output"
        bad=1
    fi
}
executed 0 '' '0x0 limits' '0x1 row: [5,7] dense' '0x4 other: [9]'
executed 1 '' '0x0 limits' '0x4 other: [9]'
executed 1 '' '0x1 row: [5,7] dense'
executed 1 '' '0x0 limits' '0x1 row: [5,7] dense' '0x1 row: [5,7] dense'
executed 0 'test_it first row: [5,*' '0x0 limits'
executed 1 'test_it second row: [5,*' '0x0 limits'
executed 1 'test_it first row: [5,*' '0x0 limits' '0x1 row: [5,7] dense'
executed 1 'test_it first *'

# rows WANTED NAME... -- NAME... -- NAME...: runs check_executed_rows.sh on CUDA variants and a
# portable one. The names are the variants executed on the simulator, on it as 8.0, and on it as
# 7.5.
rows() {
    cases=$((cases + 1))
    wanted=$1
    named=$*
    shift
    {
        echo 'TDM_VARIANT(one, COPY, "copy.cl", "-DN=4",' \
            'TDM_CAP_CUDA, "spir64", 1, 0, 0, 0, 0, 0, 0, 0)'
        echo 'TDM_VARIANT(two, COPY, "copy.cl", "",' \
            'TDM_CAP_LOCAL_MEMORY | TDM_CAP_CUDA, "cuda", 1, 0, 0, 0, 0, 0, 0, 0)'
        echo 'TDM_VARIANT(three, COPY, "copy.cl", "", 0, "spir64", 1, 0, 0, 0, 0, 0, 0, 0)'
        echo 'TDM_VARIANT(wide, GEMM, "g.cu", "",' \
            'TDM_CAP_CUDA | TDM_CAP_TENSOR_CORES, "cuda", 1, 0, 0, 0, 0, 0, 65552, 0)'
        echo 'TDM_VARIANT(small, GEMM, "g.cu", "",' \
            'TDM_CAP_CUDA | TDM_CAP_TENSOR_CORES, "cuda", 1, 0, 0, 0, 0, 0, 65536, 0)'
        echo 'TDM_VARIANT(copies, GEMM, "g.cl", "",' \
            'TDM_CAP_CUDA | TDM_CAP_ASYNC_COPY, "cuda", 1, 0, 0, 0, 0, 0, 0, 0)'
        echo 'TDM_VARIANT(late, GEMM, "g.cu", "",' \
            'TDM_CAP_CUDA | TDM_CAP_WGMMA, "cuda", 1, 0, 0, 0, 0, 0, 0, 0)'
    } >"$work/variants.def"
    for job in cuda_simulator cuda_simulator_80 cuda_simulator_75; do
        echo '0x3 capabilities' >"$work/test_it.$job"
        while [ $# -gt 0 ] && [ "$1" != -- ]; do
            echo "0x1 $1: [5,7] dense" >>"$work/test_it.$job"
            shift
        done
        [ $# -eq 0 ] || shift
    done
    if sh "$checks/check_executed_rows.sh" "$work/variants.def" "$work" \
        >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$wanted" ]; then
        echo "check_executed_rows.sh: wanted $wanted, got $got for: $named"
        cat "$work/output"
        bad=1
    fi
}
new='one two wide small copies late'
# shellcheck disable=SC2086  # lists of words
{
    rows 0 $new -- wide small copies -- small
    rows 0 $new three -- one wide small copies -- small two
    rows 1 one two wide small copies three -- wide small copies -- small
    rows 1 $new -- wide small -- small
    rows 1 $new -- small copies -- small
    rows 1 $new -- wide small copies --
    rows 1 $new -- wide small copies late -- small
    rows 1 $new -- wide small copies -- small copies
    rows 1
}

# images WANTED ROW...: runs check_cuda_images.sh on a kernel with one FFMA and a table of these
# rows.
mkdir -p "$work/images/k.cl.fatbin.parts"
printf '%s\n' TDM-STAND-IN one >"$work/images/k.cl.names"
printf '%s\n' "ptxas info : Compiling entry function 'one' for 'sm_80'" \
    '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' \
    'ptxas info : Used 8 registers' >"$work/images/k.cl.fatbin.log"
printf '%s\n' '.section .text.one,"ax",@progbits' '.balign 16' '.quad 0x223, 0' >"$work/one.s"
cc -c "$work/one.s" -o "$work/images/k.cl.fatbin.parts/k.compute_80.cubin"
images() {
    cases=$((cases + 1))
    wanted=$1
    shift
    printf '%s\n' "$@" >"$work/table"
    if sh "$checks/check_cuda_images.sh" "$work/table" "$work/images" \
        >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$wanted" ]; then
        echo "check_cuda_images.sh: wanted $wanted, got $got for: $*"
        cat "$work/output"
        bad=1
    fi
}
images 0 'one * FFMA:1 0 0'
images 1 'one * FFMA:2 0 0'
images 0 'one * REGISTERS:8 - -' 'o* 80 FFMA:1 0 0'
images 1 'one * REGISTERS:8 0 0'
images 1 'one * - 0 0'
images 1 'one * - 0 0' 'one 75 FFMA:1 0 0'
images 1 'one * FFMA:1 0 0' 'two * FFMA:1 0 0'

# cycles WANTED TABLE_LINE: runs check_cycles.sh on the objects below and a table of that line.
cycles() {
    cases=$((cases + 1))
    printf '%s\n' "$2" >"$work/table"
    if sh "$checks/check_cycles.sh" "$work/ring" "$work/ring/build" "$work/table" \
        >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$1" ]; then
        echo "check_cycles.sh: wanted $1, got $got for: $2"
        cat "$work/output"
        bad=1
    fi
}
objects=$work/ring/build/CMakeFiles/tandem_objects.dir
mkdir -p "$objects"
cd "$work/ring"
cycles 1 ''
printf 'int b(void);\nint a(void) { return b(); }\n' >a.c
printf 'int b(void) { return 0; }\n' >b.c
for file in a b; do cc -c -o "$objects/$file.c.o" "$file.c"; done
cycles 0 ''
cycles 1 'a.c b.c: no longer a cycle'
printf 'int a(void);\nint b(void) { return a(); }\n' >b.c
cc -c -o "$objects/b.c.o" b.c
cycles 1 ''
cycles 1 'a.c b.c'
cycles 1 'a.c: one of two'
cycles 0 'a.c b.c: a reason'

# budget WANTED ROW FILES README: runs check_budget.sh on a table of that row. The folder has two
# lines, FILES empty files, and a README.md unless README is `no`.
budget() {
    cases=$((cases + 1))
    rm -rf "$work/budget"
    mkdir -p "$work/budget/tree/api" "$work/budget/checks"
    cp "$checks/check_budget.sh" "$work/budget/checks/"
    printf '%s\n' "$2" >"$work/budget/checks/budget.table"
    printf 'int x;\nint y;\n' >"$work/budget/tree/api/x.c"
    i=0
    while [ "$i" -lt "$3" ]; do
        i=$((i + 1))
        : >"$work/budget/tree/api/x$i.c"
    done
    [ "$4" = no ] || echo '# API' >"$work/budget/tree/api/README.md"
    if sh "$work/budget/checks/check_budget.sh" "$work/budget/tree" \
        >"$work/output" 2>&1; then got=0; else got=1; fi
    if [ "$got" != "$1" ]; then
        echo "check_budget.sh: wanted $1, got $got for: $2, $3 files, README $4"
        cat "$work/output"
        bad=1
    fi
}
budget 0 '2 api' 0 no
budget 1 '1 api' 0 no
budget 1 '2 quant' 0 no
budget 1 '2 api' 5 no
budget 0 '2 api' 5 yes
budget 1 '2 api' 25 yes

echo "checks: $cases cases, $([ $bad -eq 0 ] && echo all || echo not all) as expected"
exit $bad
