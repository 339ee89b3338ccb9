#!/bin/sh
# The shared library stays within what docs/cuda.md says of its size: 5 MiB, and 2 MiB for each kind of code that its CUDA images
# hold (an architecture, or PTX).   Usage: check_library_size.sh LIBRARY KIND...
set -eu
library=$1
shift
bytes=$(wc -c <"$library")
most=$(((5 + 2 * $#) << 20))
echo "library size: $bytes bytes, $most are allowed${1:+ with code for $*}"
[ "$bytes" -gt 0 ] && [ "$bytes" -le "$most" ]
