#!/bin/sh
# Fails where a paper links to a file that is not there, or names one in backquotes, like `api/select.c`.
# Usage: check_papers.sh ROOT
set -eu
cd "$1"
papers=$(find . -maxdepth 1 -name '*.md'; find docs examples -name '*.md' 2>/dev/null || :)
if [ -z "$papers" ]; then
    echo "check_papers: no papers under $1" >&2
    exit 1
fi
bad=0
count=0
for paper in $papers; do
    folder=$(dirname "$paper")
    for target in $(grep -oE '\]\([^) ]+\)' "$paper" | sed 's/^](//; s/)$//; s/#.*//' | sort -u); do
        case $target in *://* | '') continue ;; esac
        count=$((count + 1))
        if [ ! -e "$folder/$target" ]; then
            echo "$paper links to $target, which is not there"
            bad=1
        fi
    done
    # Paths of the tree without patterns in them; build/ holds what is made.
    for path in $(grep -oE '`[a-z_]+/[A-Za-z0-9_./-]+\.(c|h|cl|def|sh|py|cmake|txt|md)`' "$paper" | tr -d '`' | sort -u); do
        case $path in build/*) continue ;; esac
        count=$((count + 1))
        if [ ! -e "$path" ] && [ ! -e "api/include/$path" ]; then
            echo "$paper names $path, which is not there"
            bad=1
        fi
    done
done
echo "papers: $count links and names read"
[ "$count" -gt 0 ] || bad=1
exit $bad
