#!/bin/sh
# Fails on words that a newcomer cannot know, on comments that open with "Of", "As", "What" or "Whether", and on lines of more
# than 100 columns. Reviewers judge the rest of the language (CONTRIBUTING.md).   Usage: check_prose.sh ROOT
set -eu
cd "$1"

sources=$(find api backend_* kernels quant formats common models cli bench tests examples cmake docs CMakeLists.txt README.md \
               CHANGELOG.md CONTRIBUTING.md quickstart .ci -type f \
               \( -name '*.[ch]' -o -name '*.cl' -o -name '*.cu' -o -name '*.cpp' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -name '*.md' \
                  -o -name '*.cmake' -o -name CMakeLists.txt -o -name quickstart -o -path '.ci/*' \) 2>/dev/null |
              grep -vE '/check_prose\.sh$|/check_the_checks\.sh$' || true)
if [ -z "$sources" ]; then
    echo "check_prose: nothing to read under $1" >&2
    exit 1
fi

# Columns are characters: every byte that continues a UTF-8 character is dropped. In documentation tables, code and lines with an
# address may be longer.
# shellcheck disable=SC2086  # names of files have no blanks (check_file_names.sh)
LC_ALL=C awk '
function complain(what) { print FILENAME ":" FNR ": " what; bad = 1 }
BEGIN {
    words = "kernel texts?|past the caches|ask(s|ed)? ahead|long loops|of bound|reals|mend(s|ed|ing)?|rehearsals?|entrants?|paper devices?"
    words = "(^|[^a-z])(" words ")([^a-z]|$)"
    mark = "^[ \t]*(//|/\\*+|#+)[ \t]*"
}
FNR == 1 { code = 0; was_comment = 0; opens = 0; document = FILENAME ~ /\.md$/; hashes = FILENAME !~ /\.([ch]|cl|cu|cpp|def|md)$/ }
{
    line = $0
    gsub(/[\200-\277]/, "", line)
    if (document && line ~ /^ *```/) code = !code
    if (length(line) > 100 && !(document && (code || line ~ /^(    | *\|)/ || line ~ /https?:/)))
        complain(length(line) " columns")
    lower = tolower(line)
    if (match(lower, words)) complain("say it in plain words: " substr(line, RSTART, RLENGTH))
    if (document) next
    # The first words of a comment, which may stand in the line below its mark.
    text = line
    is_comment = hashes ? line ~ /^[ \t]*#/ : line ~ /^[ \t]*(\/\/|\/\*)/
    continues = is_comment && was_comment && (hashes || line ~ /^[ \t]*\/\//)
    if (opens) sub(/^[ \t]*\*[ \t]*/, "", text)
    else if (is_comment) sub(mark, "", text)
    else if (!hashes && match(line, /\/[\/*]+[ \t]+(Of|As|What|Whether) /)) { text = substr(line, RSTART); sub(mark, "", text) }
    else text = ""
    if (!continues && text ~ /^(Of|As|What|Whether) /) complain("a comment opens with \"" substr(text, 1, index(text, " ") - 1) "\"")
    opens = !hashes && line ~ /^[ \t]*\/\*+[ \t]*$/
    was_comment = is_comment
}
END { print "prose: " NR " lines read"; exit bad }' $sources
