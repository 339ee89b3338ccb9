#!/bin/sh
# Checks the machine code of the CUDA kernels of a build. Each kernel must exist for each
# architecture and contain the instructions that cuda_images.table requires. It must not need more
# registers, stack or spills than the table allows.
#
# Usage: check_cuda_images.sh TABLE FOLDER [ALL]
#
# FOLDER is kernels/cuda of a build, see cmake/compile_cuda_image.cmake. If it has images of only
# some kernel sources, ALL is a folder with the names of all kernels: rows of the table may apply to
# others.
#
# No disassembler is needed. A cubin is an ELF file with a section .text.<kernel> of 16-byte
# instructions. The low 12 bits are the operation. Memory operations have their width in bits 73 to
# 75 (asynchronous copies from sm_100 on in 74 to 76).
set -eu
table=$1
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$folder" -name '*.cubin' | LC_ALL=C sort >"$work/cubins"
if [ ! -s "$work/cubins" ]; then
    echo "cuda images: no cubin in $folder"
    exit 1
fi

# instructions CUBIN: prints a line "kernel operation count" for each operation, and for memory
# operations also "kernel operation.width count" with the width in bits.
instructions() {
    readelf -SW "$1" 2>/dev/null |
        sed -n 's/^ *\[ *[0-9]*\] \.text\.//p' |
        sed -n 's/^\([^ ]*\) *PROGBITS *[0-9a-f]* *\([0-9a-f]*\) *\([0-9a-f]*\) .*/\1 \2 \3/p' \
            >"$work/sections"
    od -A x -v -t x8 -w16 "$1" | awk -v newest="$((${architecture%[a-z]} >= 100))" '
        function number(text, i, value) {
            for (i = 1; i <= length(text); i++)
                value = value * 16 + index("123456789abcdef", substr(text, i, 1))
            return value
        }
        function put(kernel, op) {
            for (op in count) print kernel, op, count[op]
            split("", count)
        }
        BEGIN {
            # A first digit e or o stands for any even or odd digit: another bit of the digit
            # distinguishes register operands from constants.
            split("FFMA:e23 FADD:e21 FMUL:e20 IMAD:e24 IDP:e26 HMMA:e3c IMMA:e37 HFMA2:e31 " \
                  "DFMA:e2b LDG:381 LDG:981 LDS:984 LDL:983 STG:386 STG:986 STS:388 STS:988 " \
                  "STL:387 STL:987 LDGSTS:fae LDSM:83b STSM:844 " \
                  "SHFL:o89 BAR:b1d HGMMA:9f0 IGMMA:9f1 UTMALDG:5b4 UTMASTG:3b5 USETMAXREG:9c8 " \
                  "UTMALDG_MULTICAST:3b4 UCGABAR_ARV:9c7 UCGABAR_WAIT:dc7", rows, " ")
            for (i in rows) { split(rows[i], row, ":"); names[row[2]] = row[1] }
            split("8 8 16 16 32 64 128 0", widths, " ")
        }
        FNR == NR {
            start[FNR] = number($2); end[FNR] = start[FNR] + number($3)
            kernel[FNR] = $1; sections = FNR
            next
        }
        {
            place = number($1)
            if (!current || place < start[current] || place >= end[current]) {
                if (current) put(kernel[current])
                current = 0
                for (i = 1; i <= sections && !current; i++)
                    if (place >= start[i] && place < end[i]) current = i
                if (!current) next
            }
            code = substr($2, 14, 3)
            digit = index("123456789abcdef", substr(code, 1, 1))
            name = code in names ? names[code] : names[(digit % 2 ? "o" : "e") substr(code, 2)]
            if (name == "") next
            memory = name ~ /^(LD|ST)/ && name !~ /SM$/
            low = index("123456789abcdef", substr($3, 14, 1))
            high = index("123456789abcdef", substr($3, 13, 1))
            shifted = name == "LDGSTS" && newest # the width is one bit higher there
            width = shifted ? high % 2 * 4 + int(low / 4) : int(low / 2)
            width = memory ? "." widths[width + 1] : ""
            count[name width]++
            if (memory) count[name]++
        }
        END { if (current) put(kernel[current]) }' "$work/sections" -
    awk '{ print $1, "KERNEL", 1 }' "$work/sections"
}

# Serialized wgmma instructions are correct but slow, and ptxas only prints a message.
if grep -h "wgmma.mma_async instructions are serialized" "$folder"/*.fatbin.log; then
    echo "cuda images: products of warpgroups are serialized"
    exit 1
fi

: >"$work/facts"
while read -r cubin; do
    text=$(basename "$(dirname "$cubin")" .fatbin.parts)
    architecture=$(basename "$cubin" .cubin)
    architecture=${architecture##*compute_}
    architecture=${architecture##*sm_}
    instructions "$cubin" | sed "s/^/$architecture /" >"$work/found"
    cat "$work/found" >>"$work/facts"
    # Before sm_80 a source whose kernels all copy asynchronously has no kernel.
    if [ ! -s "$work/found" ] && [ "${architecture%[a-z]}" -ge 80 ]; then
        echo "$cubin: no kernel can be read"
        exit 1
    fi
    sed "1d; s/^/$architecture /; s/\$/ EXPECTED 1/" "$folder/$text.names" >>"$work/facts"
done <"$work/cubins"

# Adds the names of ALL. Then adds what ptxas printed, as "architecture kernel STACK bytes",
# "... SPILL bytes" and "... REGISTERS count".
[ $# -lt 3 ] || sed '/^TDM-STAND-IN$/d; s/^/- /; s/$/ NAME 1/' "$3"/*.names >>"$work/facts"
cat "$folder"/*.fatbin.log | awk '
    /Compiling entry function/ {
        split($0, part, "\047")
        kernel = part[2]
        architecture = part[4]
        sub(/^sm_/, "", architecture)
    }
    /bytes stack frame/ && kernel != "" {
        print architecture, kernel, "STACK", $1
        print architecture, kernel, "SPILL", $5 + $9
    }
    kernel != "" && match($0, /Used [0-9]+ registers/) {
        print architecture, kernel, "REGISTERS", substr($0, RSTART + 5, RLENGTH - 15)
        kernel = ""
    }' >>"$work/facts"

awk '
    function pattern(text) {
        gsub(/[.]/, "[.]", text)
        gsub(/[*]/, ".*", text)
        return "^(" text ")$"
    }
    function complain(text) { print "cuda images: " text; bad++ }
    # Checks one requirement of a line of the table: "OPERATION:at least", "REGISTERS:at most" or
    # "REGISTERS=exactly".
    function look(key, wanted, line, item) {
        split(wanted, item, /[:=]/)
        if (item[1] != "REGISTERS") {
            if (count[key, item[1]] + 0 < item[2] + 0)
                complain("sm_" key ": " count[key, item[1]] + 0 " instructions " item[1] \
                         ", line " line " wants " item[2])
        } else if (!((key, "REGISTERS") in count) || count[key, "REGISTERS"] > item[2] + 0 ||
                   (wanted ~ /=/ && count[key, "REGISTERS"] < item[2] + 0))
            complain("sm_" key ": " count[key, "REGISTERS"] + 0 " registers, line " line \
                     " wants " wanted)
    }
    FNR == NR {
        if ($0 ~ /^[ \t]*(#|$)/) next
        rows++
        if (NF != 5) complain("line " FNR " of the table has " NF " columns, not 5")
        line[rows] = FNR
        kernels[rows] = pattern($1)
        gsub(/,/, "|", $2)
        architectures[rows] = pattern($2)
        needs[rows] = $3; stack[rows] = $4; spill[rows] = $5
        next
    }
    {
        key = $1 " " $2
        if ($3 == "KERNEL") { there[key] = 1; seen[$1]++ }
        else if ($3 == "EXPECTED") expected[$2] = 1
        else if ($3 == "NAME") elsewhere[$2] = 1
        else if ($3 == "STACK") used[key] = $4
        else if ($3 == "SPILL") spilled[key] = $4
        else count[key, $3] = $4
    }
    END {
        # Kernels with asynchronous copies are not compiled before sm_80, those with wgmma only for
        # sm_90a.
        for (name in expected)
            for (architecture in seen)
                if (architecture + 0 >= 80 && (name !~ /__sm90a$/ || architecture == "90a") &&
                    !((architecture " " name) in there))
                    complain("sm_" architecture " " name ": there is no such kernel")
        for (key in there) {
            split(key, part, " ")
            total++
            stack_limit = spill_limit = "none"
            asked = 0
            for (i = 1; i <= rows; i++) {
                if (part[2] !~ kernels[i] || part[1] !~ architectures[i]) continue
                met[i] = 1
                if (stack_limit == "none" && stack[i] != "-") stack_limit = stack[i]
                if (spill_limit == "none" && spill[i] != "-") spill_limit = spill[i]
                wanted = needs[i] == "-" ? 0 : split(needs[i], need, ",")
                for (n = 1; n <= wanted; n++) {
                    look(key, need[n], line[i])
                    if (need[n] !~ /^REGISTERS/) asked = 1
                }
            }
            if (!asked) complain("sm_" key ": no row of the table asks for an instruction of it")
            if (!(key in used)) complain("sm_" key ": ptxas said nothing of it")
            if (used[key] > stack_limit + 0)
                complain("sm_" key ": a stack of " used[key] " bytes, " stack_limit + 0 \
                         " are allowed")
            if (spilled[key] > spill_limit + 0)
                complain("sm_" key ": spills of " spilled[key] " bytes, " spill_limit + 0 \
                         " are allowed")
        }
        for (i = 1; i <= rows; i++) {
            due = 0
            for (name in seen) if (name ~ architectures[i]) due = 1
            for (name in elsewhere) if (name ~ kernels[i]) due = 0
            if (due && !met[i]) complain("line " line[i] " of the table is about no kernel")
        }
        for (name in seen) told = told " sm_" name ": " seen[name]
        print "cuda images:" told " kernels, " bad + 0 " complaints"
        exit bad > 0 || total == 0
    }' "$table" "$work/facts"
