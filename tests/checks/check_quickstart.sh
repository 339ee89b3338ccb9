#!/bin/sh
# Checks which packages ./quickstart reports as missing on simulated machines: a fake compiler finds
# only the files of a folder. Nothing is installed. Usage: check_quickstart.sh ROOT
set -eu
root=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
cases=0

mkdir -p "$work/bin" "$work/tree"
cp "$root/quickstart" "$work/tree/"
cat >"$work/bin/cc" <<TEXT
#!/bin/sh
case \$1 in
-E)
    sed -n 's/^#include <\\(.*\\)>/\\1/p' | {
        while read -r header; do [ -e "$work/machine/\$header" ] || exit 1; done
    }
    ;;
-print-file-name=*)
    file=\${1#*=}
    if [ -e "$work/machine/\$file" ]; then echo "$work/machine/\$file"; else echo "\$file"; fi
    ;;
*) exit 1 ;;
esac
TEXT
chmod +x "$work/bin/cc"

# machine FILE...: from now on the compiler finds these files and the headers of the C library.
machine() {
    rm -rf "$work/machine"
    for file in stdio.h setjmp.h stdarg.h stddef.h stdint.h "$@"; do
        mkdir -p "$work/machine/$(dirname "$file")"
        : >"$work/machine/$file"
    done
}

# expect WANTED ARGUMENT...: checks the exit code of ./quickstart. Its output is in the file
# `output`.
expect() {
    wanted=$1
    shift
    cases=$((cases + 1))
    got=0
    PATH="$work/bin:$PATH" "$work/tree/quickstart" "$@" >"$work/output" 2>&1 || got=$?
    if [ "$got" -ne "$wanted" ]; then
        echo "quickstart $*: exit $got, not $wanted"
        cat "$work/output"
        bad=1
    fi
}

# package MISSING|THERE NAME: checks if the tiers up to ci report the package as missing.
package() {
    cases=$((cases + 1))
    PATH="$work/bin:$PATH" "$work/tree/quickstart" --install-only ci --no-install \
        >"$work/output" 2>&1 || :
    if grep -q "^  $2 (" "$work/output"; then got=MISSING; else got=THERE; fi
    if [ "$got" != "$1" ]; then
        found=$(cd "$work/machine" && find . -type f | tr '\n' ' ')
        echo "$2: $got, not $1, where the compiler finds $found"
        bad=1
    fi
}

# needs_both NAME LIBRARY HEADER: checks that a development package needs both its library and
# header.
needs_both() {
    machine "$2" "$3"
    package THERE "$1"
    machine "$2"
    package MISSING "$1"
    machine "$3"
    package MISSING "$1"
}

needs_both libmd-dev libmd.a sha2.h
needs_both libcjson-dev libcjson.so cjson/cJSON.h
needs_both libcmocka-dev libcmocka.so cmocka.h
needs_both libopenblas-dev libopenblas.so openblas_config.h
needs_both libdnnl-dev libdnnl.so oneapi/dnnl/dnnl.h
needs_both libclblast-dev libclblast.so clblast_c.h

# The header of another BLAS, with and without the run-time library of OpenBLAS.
machine cblas.h
package MISSING libopenblas-dev
machine cblas.h libopenblas.so.0
package MISSING libopenblas-dev

machine
expect 0 --help
expect 1 --install-only run --no-install
expect 2 --install-only
expect 2 --install-only nonsense
expect 2 nonsense
expect 2 --nonsense
grep -q "unknown argument '--nonsense'" "$work/output" || {
    echo "quickstart --nonsense does not name it"
    bad=1
}

echo "quickstart: $cases cases"
exit $bad
