#!/bin/sh
# Takes pictures of the pages that report and compare write for committed results: on a phone (390
# pixels wide), on a screen (1280) and on paper. A person looks at them; this is no test.
#
#     tests/checks/look_at_pages.sh PROGRAM FOLDER [RESULTS.json]...
#
# PROGRAM is build/release/bin/tandem. The default results are all reports in bench/results. FOLDER
# gets NAME.html, NAME-390.png, NAME-1280.png and NAME.pdf for each page NAME, and NAME-print-1.png
# and so on if pdftoppm is installed. Needs Chromium, from $CHROMIUM or the path. Fails only if a
# picture cannot be made.
set -eu
[ $# -ge 2 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- "$(dirname "$0")"/../../bench/results/*-report*.json
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser ||
    command -v google-chrome || :)}
[ -n "$browser" ] || {
    echo 'look_at_pages: there is no Chromium; name one by CHROMIUM' >&2
    exit 1
}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

browse() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$work/profile" "$@" >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log" >&2; return 1; }
}

# A window is at least 500 pixels wide, so the phone is a frame of 390 pixels in a separate page.
look_at() {
    page=$folder/$1.html
    {
        printf '<!DOCTYPE html><body style="margin:0"><iframe src="%s" ' "$page"
        printf 'style="border:0;width:390px;height:9000px"></iframe>'
    } >"$work/narrow.html"
    browse --window-size=500,9000 --screenshot="$folder/$1-390.png" "file://$work/narrow.html"
    browse --window-size=1280,9000 --screenshot="$folder/$1-1280.png" "file://$page"
    browse --no-pdf-header-footer --print-to-pdf="$folder/$1.pdf" "file://$page"
    rm -f "$folder/$1"-print-*.png
    if command -v pdftoppm >/dev/null; then
        pdftoppm -r 60 -png "$folder/$1.pdf" "$folder/$1-print"
    fi
    for picture in "$folder/$1-390.png" "$folder/$1-1280.png" "$folder/$1.pdf"; do
        [ -s "$picture" ] || { echo "look_at_pages: no $picture" >&2; return 1; }
        echo "$picture"
    done
}

for results in "$@"; do
    name=$(basename "$results" .json)
    "$program" report --from "$results" --html "$folder/$name.html" >/dev/null
    look_at "$name"
done
if [ $# -gt 1 ]; then
    "$program" compare "$@" --force --html "$folder/compare.html" >/dev/null
    look_at compare
fi
