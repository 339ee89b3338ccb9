#!/bin/sh
# Installs a build into a new folder with a space in its name and moves that folder. Then builds and
# runs a separate project on it: through find_package and through pkg-config, against the shared and
# the static library, as C11 and as C++.
# Usage: check_consumer.sh ROOT BUILD_FOLDER
set -eu
root=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# check NAME COMMAND...: runs the command, shows its output if it fails, and counts the result.
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 30 "$work/log"
    fi
}

cmake_consumer() {
    cmake -S "$root/tests/consumer" -B "$work/cmake $1" "-DCMAKE_PREFIX_PATH=$prefix" \
        "-DTANDEM_LINK=$1" &&
        cmake --build "$work/cmake $1" && LD_LIBRARY_PATH='' "$work/cmake $1/consumer"
}

# compile OUTPUT PREFIX PKG_CONFIG_OPTION COMPILER...: compiles the consumer. pkg-config quotes the
# flags of tandem.pc for a shell, hence the eval.
compile() {
    output=$1
    flags=$(PKG_CONFIG_PATH="$2/$libdir/pkgconfig" pkg-config "$3" --cflags --libs tandem)
    shift 3
    compiler="$*"
    eval "set -- $flags"
    # shellcheck disable=SC2086  # a compiler and its options
    $compiler -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror \
        "$root/tests/consumer/consumer.c" -x none "$@" -o "$output"
}

shared_by_pkg_config() {
    compile "$work/pc_shared" "$prefix" --shared cc -std=c11 -x c &&
        LD_LIBRARY_PATH="$prefix/$libdir" "$work/pc_shared"
}

cxx_by_pkg_config() {
    compile "$work/pc_cxx" "$prefix" --shared clang -std=c++11 -x c++ &&
        LD_LIBRARY_PATH="$prefix/$libdir" "$work/pc_cxx"
}

# Without the shared library the linker uses the static one, which must work with --static.
static_by_pkg_config() {
    cp -R "$prefix" "$work/static only" && rm "$work/static only/$libdir"/libtandem.so* &&
        compile "$work/pc_static" "$work/static only" --static cc -std=c11 -x c &&
        "$work/pc_static"
}

refuses_another_version() {
    echo 'find_package(tandem 99.0 REQUIRED)' >"$work/version.cmake"
    ! cmake "-DCMAKE_PREFIX_PATH=$prefix" -P "$work/version.cmake" >"$work/version.log" 2>&1 &&
        grep -q 'requested version "99.0"' "$work/version.log"
}

# The simulator is installed only with its component. A program finds it like a driver.
simulator_alone() {
    cmake --install "$build" --component simulator --prefix "$work/simulator prefix" &&
        find "$work/simulator prefix" "$prefix" -name 'libtandem_cuda_simulator*' \
            >"$work/simulators" &&
        installed=$(cat "$work/simulators") &&
        [ "$installed" = "$work/simulator prefix/$libdir/libtandem_cuda_simulator.so" ] &&
        mkdir "$work/no drivers" && simulated &&
        grep -q ' on cuda/simulator/.*compute capability 9[.]0' "$work/simulated" &&
        (export TANDEM_SIMULATOR_ARCHITECTURE=7.5 && simulated) &&
        grep -q ' on cuda/simulator/.*compute capability 7[.]5' "$work/simulated"
}
simulated() {
    OCL_ICD_VENDORS="$work/no drivers" OPENCL_VENDOR_PATH="$work/no drivers" \
        TANDEM_CUDA_LIBRARY="$work/simulator prefix/$libdir/libtandem_cuda_simulator.so" \
        LD_LIBRARY_PATH="$prefix/$libdir" "$work/cmake tandem::tandem/consumer" >"$work/simulated"
}

# The installed examples can be built, and every document that a header names is installed.
installed_examples() {
    documents=$prefix/share/doc/tandem
    cmake -S "$documents/examples" -B "$work/examples" "-DCMAKE_PREFIX_PATH=$prefix" &&
        cmake --build "$work/examples" || return 1
    for example in "$documents"/examples/*.c; do
        example=${example##*/}
        LD_LIBRARY_PATH='' "$work/examples/${example%.c}" || return 1
    done
    grep -rho 'docs/[a-z-]*\.md' "$prefix/include" | sort -u >"$work/cited"
    [ -s "$work/cited" ] && while read -r document; do
        [ -f "$documents/$document" ] || { echo "no $document" && return 1; }
    done <"$work/cited"
}

installed_program_runs() { "$prefix/bin/tandem" --version; }

check "install" cmake --install "$build" --prefix "$work/first prefix"
prefix="$work/second prefix"
mv "$work/first prefix" "$prefix"
libdir=$(cd "$prefix" && find . -name 'libtandem.a' | sed 's|^\./||; s|/libtandem.a$||')

check "find_package, shared" cmake_consumer tandem::tandem
check "find_package, static" cmake_consumer tandem::tandem_static
check "pkg-config, shared" shared_by_pkg_config
check "pkg-config, static" static_by_pkg_config
check "pkg-config, C++" cxx_by_pkg_config
check "another version is refused" refuses_another_version
check "the simulator in a folder of its own" simulator_alone
check "installed examples and documents" installed_examples
check "the installed program starts" installed_program_runs

echo "consumer: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
