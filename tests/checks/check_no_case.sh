#!/bin/sh
# A test program of devices that executes no case, which TANDEM_TEST_CASE brings about here, fails although none of its tests does.
# Usage: check_no_case.sh PROGRAM
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if TANDEM_TEST_CASE='no case is called this' "$1" >"$work/output" 2>&1; then
    echo "no case: $1 executed none, and ended with 0"
    cat "$work/output"
    exit 1
fi
grep 'no case was executed$' "$work/output" || { cat "$work/output"; exit 1; }
! grep '^\[  FAILED  \] .*test(s)' "$work/output"
