#!/bin/sh
# Fails where two source files of the tree share a name, or a name holds a blank.
# Usage: check_file_names.sh ROOT
set -eu
cd "$1"

names=$(find api backend_* kernels quant formats common models bench cli tests examples -type f \
             \( -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.cu' -o -name '*.def' -o -name '*.sh' \) \
             2>/dev/null | sed 's|.*/||')
if [ -z "$names" ]; then
    echo "check_file_names: no sources under $1" >&2
    exit 1
fi
bad=0
for name in $(printf '%s\n' "$names" | sort | uniq -d); do
    echo "more than one file is called $name"
    bad=1
done
if printf '%s\n' "$names" | grep ' '; then
    echo "file names with blanks"
    bad=1
fi
echo "file names: $(printf '%s\n' "$names" | wc -l) read"
exit $bad
