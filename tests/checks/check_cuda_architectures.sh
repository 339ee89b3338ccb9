#!/bin/sh
# Checks that every CUDA kernel passes check_cuda_images.sh for all architectures. Compiling them
# all takes most of an hour on one core, so it is done once per change. cuda_architectures.table has
# a hash of each kernel source that has passed, and the bytes of its image; their sum is limited.
# The hash covers everything that the machine code depends on, without comments and without
# operation codes that the source does not use. A source whose hash is not in the table is compiled
# and checked now, and must be added to the table.
#
# Usage: check_cuda_architectures.sh [--update | --compare] [--seconds N] BUILD
#
#   BUILD      a folder configured with -G Ninja -DTANDEM_CUDA_ARCHITECTURES=all
#   --compare  compile nothing, and fail if a source is not in the table; needs no nvcc, and
#   configures
#              BUILD
#   --update   write the table; a source that does not pass is left out, and is a failure
#   --seconds  stop compiling after that time; if many sources have changed, only the first are
#   compiled
#
# Exits with 3 if the table is of another toolkit, which generates other code.
set -eu
usage() {
    sed -n '/^# Usage/,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
# This is about 2 MiB for each architecture and the PTX, and 1 MiB for top-k, cumulative sums and
# argmin.
most_bytes=$((19 << 20))
update=no
compare=no
seconds=36000
while [ $# -gt 1 ]; do
    case $1 in
    --update) update=yes ;;
    --compare) compare=yes ;;
    --seconds) shift && seconds=$1 ;;
    *) usage ;;
    esac
    shift
done
if [ $# -ne 1 ] || [ "$update$compare" = yesyes ]; then usage; fi
checks=$(cd "$(dirname "$0")" && pwd)
table=$checks/cuda_architectures.table
recorded=$(sed -n 's/^toolkit //p' "$table" 2>/dev/null || :)
# The stand-in for nvcc only reports the version that the table is for.
if [ "$compare" = yes ]; then
    if [ -z "$recorded" ]; then
        echo "cuda architectures: $table does not say of which CUDA it is"
        exit 1
    fi
    mkdir -p "$1"
    version=${recorded#V}
    printf '#!/bin/sh\necho "release %s, %s"\n' "${version%.*}" "$recorded" >"$1/nvcc"
    chmod +x "$1/nvcc"
    if ! cmake -S "$checks/../.." -B "$1" -DTANDEM_BUILD_TESTS=OFF -DTANDEM_BUILD_BENCH=OFF \
        -DTANDEM_CUDA_IMAGES=ON -DTANDEM_CUDA_ARCHITECTURES=all \
        -DTANDEM_NVCC="$(cd "$1" && pwd)/nvcc" >"$1/configure.log" 2>&1; then
        cat "$1/configure.log"
        exit 1
    fi
fi
[ -f "$1/CMakeCache.txt" ] || usage
build=$(cd "$1" && pwd)
kernels=$checks/../../kernels
folder=$build/kernels/cuda
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints files without comments and redundant white space.
code_of() {
    cat "$@" | awk '
        { source = source $0 "\n" }
        END {
            while (match(source, /\/\*|\/\/|"/)) {
                mark = substr(source, RSTART, RLENGTH)
                out = out substr(source, 1, RSTART - 1)
                source = substr(source, RSTART + RLENGTH)
                if (mark == "\"") {
                    match(source, /^([^"\\\n]|\\.)*"?/)
                    out = out mark substr(source, 1, RLENGTH)
                    source = substr(source, RLENGTH + 1)
                } else if (mark == "//") {
                    sub(/^[^\n]*/, "", source)
                } else {
                    end = index(source, "*/")
                    out = out " "
                    source = end ? substr(source, end + 2) : ""
                }
            }
            gsub(/[ \t]+/, " ", out)
            gsub(/ ?\n[ \n]*/, "\n", out)
            print out source
        }'
}

# Drops the lines of standard input that define or undefine a TDM_CODE_ number which no other line
# mentions.
without_unused_codes() {
    awk '
        { line[NR] = $0 }
        !/^#(define TDM_CODE_[A-Z0-9_]+ [0-9]+|undef TDM_CODE_[A-Z0-9_]+)$/ {
            rest = $0
            while (match(rest, /TDM_CODE_[A-Z0-9_]+/)) {
                used[substr(rest, RSTART, RLENGTH)]
                rest = substr(rest, RSTART + RLENGTH)
            }
            always[NR]
        }
        END {
            for (i = 1; i <= NR; i++) {
                split(line[i], word, " ")
                if (i in always || word[2] in used)
                    print line[i]
            }
        }'
}

# Prints the rows of cuda_images.table that apply to a source. File $1 has the names of its kernels.
rows_about() {
    awk '
        function pattern(text) {
            gsub(/[.]/, "[.]", text)
            gsub(/[*]/, ".*", text)
            return "^(" text ")$"
        }
        FNR == NR { if (FNR > 1) names[$1]; next }
        /^[ \t]*(#|$)/ { next }
        {
            form = pattern($1)
            for (name in names) if (name ~ form) { $1 = $1; print; next }
        }' "$1" "$checks/cuda_images.table"
}

# Prints the hash of a source: its rows of the table, its code and the options of nvcc.
key_of() {
    { rows_about "$folder/$1.names"
        code_of "$folder/$1.cpp" "$folder/flat/$1" "$work/dialect" | without_unused_codes
        cat "$folder/$1.fatbin.options"
        # shellcheck disable=SC2016  # CMake's variable
        sed -n '/COMMAND "${NVCC}"/,/RESULT_VARIABLE/p' \
            "$checks/../../cmake/compile_cuda_image.cmake"; } | sha256sum | cut -c 1-32
}

# gate TEXT: checks the images of a source by the rows that apply to it; errors are in $work/output.
gate() {
    rm -rf "$work/images"
    mkdir "$work/images"
    cp -R "$folder/$1.fatbin.parts" "$folder/$1.fatbin.log" "$folder/$1.names" "$work/images/"
    "$checks/check_cuda_images.sh" "$checks/cuda_images.table" "$work/images" "$folder" \
        >"$work/output" 2>&1
}

# made TEXT: succeeds if the image is of the current source. An old image may be left if ninja was
# stopped.
made() {
    [ -f "$folder/$1.fatbin" ] && [ -f "$folder/$1.fatbin.log" ] || return 1
    [ -z "$(find "$folder/$1.cpp" "$folder/flat/$1" "$folder/$1.fatbin.options" \
        "$kernels/dialect/dialect.h" "$kernels/dialect/dialect_cxx.h" \
        "$kernels/dialect/dialect_cxx_memory.h" "$kernels/dialect/dialect_cuda.h" \
        "$checks/../../cmake/compile_cuda_image.cmake" \
        -newer "$folder/$1.fatbin")" ]
}

if ! cmake --build "$build" --target tandem_cuda_texts >"$work/output" 2>&1; then
    cat "$work/output"
    exit 1
fi
nvcc=$(sed -n 's/^TANDEM_NVCC:[^=]*=//p' "$build/CMakeCache.txt")
toolkit=$("$nvcc" --version | sed -n 's/.*release [0-9.]*, //p')
[ -f "$table" ] || : >"$table"
if [ "$recorded" != "$toolkit" ] && [ "$update" = no ]; then
    echo "cuda architectures: the table is of CUDA ${recorded:-nothing}, this is $toolkit:" \
        "nothing is compared"
    exit 3
fi

for header in dialect.h dialect_cxx.h dialect_cxx_memory.h dialect_cuda.h; do
    code_of "$kernels/dialect/$header"
done >"$work/dialect"
(cd "$folder" && ls -- *.fatbin.options) | sed 's/\.fatbin\.options$//' |
    LC_ALL=C sort >"$work/texts"
while read -r text; do
    echo "$text $(key_of "$text")"
done <"$work/texts" | LC_ALL=C sort >"$work/keys"
if [ "$recorded" = "$toolkit" ]; then
    sed '/^#/d; /^toolkit /d' "$table" | LC_ALL=C sort >"$work/old"
else
    : >"$work/old"
fi
awk 'FNR == NR { wanted[$1, $2]; next } ($1, $2) in wanted' "$work/keys" "$work/old" >"$work/passed"
awk 'FILENAME == ARGV[1] { there[$1, $2]; next } !(($1, $2) in there) { print $1 }' \
    "$work/old" "$work/keys" >"$work/changed"
cut -d ' ' -f 1 "$work/old" | LC_ALL=C comm -23 - "$work/texts" >"$work/gone"

bad=0
: >"$work/compiled"
if [ "$compare" = no ] && [ -s "$work/changed" ]; then
    cp "$work/changed" "$work/compiled"
    echo "cuda architectures: compiling for all: $(tr '\n' ' ' <"$work/changed")"
    sed "s|.*|kernels/cuda/&.fatbin|" "$work/changed" |
        (cd "$build" && timeout "$seconds" xargs ninja -k 0 >"$work/log" 2>&1) || bad=1
    grep -E 'error|Error' "$work/log" | head -n 20 || :
fi
while read -r text; do
    if ! made "$text"; then
        echo "cuda architectures: $text: not compiled"
        bad=1
    elif gate "$text"; then
        echo "$(grep "^$text " "$work/keys") $(wc -c <"$folder/$text.fatbin")" >>"$work/passed"
    else
        echo "cuda architectures: $text:"
        cat "$work/output"
        bad=1
    fi
done <"$work/compiled"

total=$(wc -l <"$work/texts")
bytes=$(awk '{ sum += $3 } END { print sum + 0 }' "$work/passed")
if [ "$bytes" -gt "$most_bytes" ]; then
    echo "cuda architectures: the images have $bytes bytes, $most_bytes are allowed"
    bad=1
fi
if [ "$update" = yes ]; then
    {
        sed '/^#/!d' "$0" | sed '1d; /^#$/,$d'
        echo '#     tests/checks/check_cuda_architectures.sh --update BUILD'
        echo "toolkit $toolkit"
        LC_ALL=C sort "$work/passed"
    } >"$table"
    echo "cuda architectures: $(wc -l <"$work/passed") of $total kernel sources are in the table," \
        "with images of $bytes bytes"
    exit "$bad"
fi
if [ -s "$work/changed" ] || [ -s "$work/gone" ]; then
    echo "cuda architectures: the table, of CUDA $toolkit," \
        "lacks $(tr '\n' ' ' <"$work/changed")and has too much: $(tr '\n' ' ' <"$work/gone")"
    echo "  run: tests/checks/check_cuda_architectures.sh --update BUILD," \
        "and commit tests/checks/cuda_architectures.table"
    exit 1
fi
echo "cuda architectures: $total kernel sources with images of $bytes bytes," \
    "each compiled for all architectures as it is now by CUDA $toolkit"
exit "$bad"
