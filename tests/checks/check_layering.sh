#!/bin/sh
# Reads the #include lines of every C source and header and fails on includes that the layers
# forbid:
#
#     cli -> bench, models -> common -> formats -> api -> quant, the index of kernels
#     backend_* -> api/backend.h
#
# Every folder may include its own files, <tandem/...> and the C library.
# Usage: check_layering.sh ROOT
set -eu
root=$1
cd "$root"

# from | to: a file whose path matches `from` may include what matches `to` (extended expressions).
# The first row that matches `from` counts. Quoted includes and <tandem/...>, <CL/...> and <cuda...>
# are checked.
rules="
^api/include/tandem/opencl\.h$ | ^<tandem/|^<CL/
^api/include/tandem/cuda\.h$   | ^<tandem/|^<cuda
^api/include/                  | ^<tandem/
^api/                          | ^<tandem/|^api/|^quant/|^kernels/(kernel_index|prebuilt)\.h$|\
^kernels/[a-z_]+/(op_codes|[a-z_]+_args)\.h$
^backend_opencl/               | ^<tandem/|^backend_opencl/|^api/backend\.h$|^<CL/
^backend_cuda/                 | ^<tandem/|^backend_cuda/|^api/backend\.h$
^kernels/                      | ^<tandem/(dtype|status|device)\.h>|^kernels/|\
^[a-z0-9_]+\.(h|cl|def)$
^quant/                        | ^<tandem/(dtype|status)\.h>|^quant/
^formats/                      | ^<tandem/|^formats/|^quant/
^common/                       | ^<tandem/|^common/|^formats/|^quant/|^build_info\.h$
^models/                       | ^<tandem/|^models/|^common/|^formats/|^quant/
^bench/                        | ^<tandem/|^bench/|^common/|^formats/|^api/|^quant/|\
^kernels/kernel_index\.h$|^kernels/probe/[a-z_]+_args\.h$|^build_info\.h$|^<CL/|^<cuda
^cli/                          | ^<tandem/|^cli/|^bench/|^common/|^models/|^formats/|^quant/|\
^api/pool/monitor_page\.h$
^examples/own_kernel\.c$        | ^<tandem/|^<CL/
^examples/                     | ^<tandem/
^tests/consumer/               | ^<tandem/
^tests/fake_cublas/            | ^<tandem/|^quant/|^<cu(da|blas)
^tests/cuda/cuda_decl          | ^backend_cuda/|^tests/|^<cuda
^tests/                        | ^<tandem/|^tests/|^cli/|^bench/|^common/|^models/|^formats/|\
^api/|^quant/|^kernels/|^backend_[a-z]+/|^<CL/|^build_info\.h$
"

files=$(find api backend_* kernels quant formats common models bench cli tests examples -type f \
             \( -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.def' \) 2>/dev/null | sort)
if [ -z "$files" ]; then
    echo "check_layering: no sources under $root" >&2
    exit 1
fi

# shellcheck disable=SC2086  # file names of this project have no spaces
grep -HnE '^[[:space:]]*#[[:space:]]*include' $files | awk -v rules="$rules" '
BEGIN {
    count = split(rules, lines, "\n")
    for (i = 1; i <= count; ++i) {
        bar = index(lines[i], " | ")
        if (bar == 0) continue
        from = substr(lines[i], 1, bar)
        gsub(/ +$/, "", from)
        rule_from[++rows] = from
        rule_to[rows] = substr(lines[i], bar + 3)
    }
}
{
    file = $0; sub(/:.*/, "", file)
    line = $0; sub(/^[^:]*:/, "", line); sub(/:.*/, "", line)
    target = $0; sub(/.*#[ \t]*include[ \t]*/, "", target); sub(/[ \t]*(\/[\/*].*)?$/, "", target)
    if (target ~ /^</ && target !~ /^<(tandem|CL|cuda)/) next
    gsub(/"/, "", target)
    ++edges
    for (i = 1; i <= rows; ++i) if (file ~ rule_from[i]) break
    if (i > rows) {
        printf "%s:%s: no layer is written down for this folder\n", file, line; ++bad
    } else if (target !~ rule_to[i] || target ~ /\.\.\//) {
        printf "%s:%s: must not include %s\n", file, line, target; ++bad
    }
}
END {
    printf "layering: %d includes read, %d forbidden\n", edges, bad
    exit (bad > 0 || edges == 0)
}'
