#!/bin/sh
# Checks the Markdown files. It fails if one links to a missing file or names one in backquotes,
# like `api/device/select.c`, and if one states another number of CUDA kernels than the tables
# kernels/FOLDER/NAME_variants.cmake have.
#
# It also fails if a paragraph has figures of CUDA devices and its section does not contain
# "measured on", "not measured", "nothing was measured" or **model**. Before the first section, the
# last three apply to all sections. Usage: check_docs.sh ROOT
set -eu
cd "$1"
papers=$(find . -maxdepth 1 -name '*.md'; find docs examples -name '*.md' 2>/dev/null || :)
if [ -z "$papers" ]; then
    echo "check_docs: no papers under $1" >&2
    exit 1
fi
# unmarked PAPER: prints the places of paragraphs whose figures of CUDA devices have no such note.
unmarked() {
    awk '
        function end_paragraph() {
            if (paragraph ~ /CUDA|H100|H200|wgmma/ &&
                paragraph ~ /[0-9] ?([TG]B\/s|TFLOP\/s|us[^a-z]|µs)|[0-9](×|x)[ ,.;:)\n]/) {
                found++
                line[found] = first
            }
            paragraph = ""
        }
        function end_section(i) {
            end_paragraph()
            for (i = 1; i <= found && !marked && !all_marked; i++) print FILENAME ":" line[i]
            if (!sections) all_marked = unmeasured
            found = marked = unmeasured = 0
        }
        /^```/ { code = !code }
        /^#/ && !code { end_section(); sections += /^##/ }
        /^[ \t]*$/ { end_paragraph(); next }
        {
            if (paragraph == "") first = FNR
            paragraph = paragraph $0 "\n"
            text = tolower(paragraph)
            if (text ~ /(not|nothing)([ \n](here|was))*[ \n]measured|[*][*]model[.]?[*][*]/)
                marked = unmeasured = 1
            if (text ~ /measured[ \n]on/) marked = 1
        }
        END { end_section() }' "$1"
}

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
    for place in $(unmarked "$paper"); do
        echo "$place gives figures of CUDA devices and does not say whether they were measured" \
            "on hardware"
        bad=1
    done
    # Paths of the tree without patterns. build/ has generated files.
    for path in $(grep -oE '`[a-z_]+/[A-Za-z0-9_./-]+\.(c|h|cl|def|sh|py|cmake|txt|md)`' "$paper" |
        tr -d '`' | sort -u); do
        case $path in build/*) continue ;; esac
        count=$((count + 1))
        if [ ! -e "$path" ] && [ ! -e "api/include/$path" ]; then
            echo "$paper names $path, which is not there"
            bad=1
        fi
    done
done
# Variants for CPUs alone do not count as CUDA kernels.
if [ -f cmake/print_variants.cmake ]; then
    kernels=$(cmake -DFOLDER=kernels -P cmake/print_variants.cmake | grep '^TDM_VARIANT(' |
        grep -vc 'TDM_CAP_CPU_CORES\|TDM_CAP_HOST_\|TDM_CAP_INT8_DOT_' || :)
    for said in $(echo "$papers" | xargs grep -hoE '[0-9]+ CUDA kernels' | cut -d ' ' -f 1); do
        if [ "$said" != "$kernels" ]; then
            echo "a paper says $said CUDA kernels, the tables have $kernels"
            bad=1
        fi
    done
fi
echo "papers: $count links and names read"
[ "$count" -gt 0 ] || bad=1
exit $bad
