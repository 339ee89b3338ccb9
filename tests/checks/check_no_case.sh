#!/bin/sh
# Checks that a device test program fails if it executes no case, although none of its tests fails.
# TANDEM_TEST_CASE selects no case here.
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
