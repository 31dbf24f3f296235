# Copyright (c) 2026, the peerwin contributors.
# SPDX-License-Identifier: BSD-3-Clause
#
# Writes a manual page of section 3 for every function of a public header, from its doc comments.
#   awk -v version=0.1.0 -v dir=DIRECTORY -v header=peerwin/peerwin.h -f man3.awk include/peerwin/peerwin.h
#
# A doc comment (/** ... */) belongs to the declaration after it. Paragraphs that begin with "Statuses" or a status
# become RETURN VALUE. A plain comment at the head of a part of the header holds for all functions of that part, and
# becomes NOTES, unless the function is collective. Types of the prototype are shown in the synopsis.

# Text as roff wants it: backslashes, dashes and dots at the beginning of a line mean something there.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    while (match(text, /`[^`]*`/))
        text = substr(text, 1, RSTART - 1) "\\fI" substr(text, RSTART + 1, RLENGTH - 2) "\\fP" substr(text, RSTART + RLENGTH)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# The line of a comment without its decoration.
function bare(line) {
    sub(/^ *\/\*\*? ?/, "", line)
    sub(/ *\*\/ *$/, "", line)
    sub(/^ *\*( |$)/, "", line)
    return line
}

# The first sentence on one line, without the full stop, beginning with a small letter.
function summary(text,    first) {
    first = text
    sub(/\n\n.*/, "", first)
    gsub(/\n/, " ", first)
    gsub(/`/, "", first)
    if (match(first, /[.:;] /))
        first = substr(first, 1, RSTART - 1)
    sub(/[.:;]$/, "", first)
    if (first !~ /^[A-Z][A-Z]/)
        first = tolower(substr(first, 1, 1)) substr(first, 2)
    return first
}

function is_status(paragraph) {
    return paragraph ~ /^(Statuses|[A-Z_]+( and [A-Z_]+)?:|TIMEOUT|STATE|ARG)/
}

# Paragraphs of `text`: those that speak of statuses if `statuses`, else the others. Returns how many.
function paragraphs(text, statuses, page,    count, i, n, list) {
    n = split(text, list, "\n\n")
    for (i = 1; i <= n; i++) {
        if (list[i] == "" || (is_status(list[i]) ? 1 : 0) != statuses)
            continue
        if (count++ > 0)
            print ".PP" > page
        lines(list[i], page)
    }
    return count + 0
}

# Lines that are indented, as in lists, stay as they are.
function lines(text, page,    i, n, list) {
    n = split(text, list, "\n")
    for (i = 1; i <= n; i++) {
        if (list[i] ~ /^ /)
            print ".br" > page
        print roff(list[i]) > page
    }
}

function verbatim(text, page,    i, n, list) {
    n = split(text, list, "\n")
    for (i = 1; i <= n; i++)
        print roff(list[i]) > page
}

# Does `text` use the name, as a whole word?
function uses(text, name) {
    return (" " text " ") ~ ("[^a-z0-9_]" name "[^a-z0-9_]")
}

function write_page(k,    page, name, i, j, before) {
    name = names[k]
    page = dir "/" name ".3"
    print ".\\\" Generated from the header's comments; do not edit." > page
    print ".TH " toupper(name) " 3 \"\" \"peerwin " version "\" \"peerwin manual\"" > page
    print ".SH NAME" > page
    print roff(name) " \\- " roff(summary(docs[k])) > page
    print ".SH SYNOPSIS" > page
    print ".nf" > page
    print ".B #include <" header ">" > page
    print ".PP" > page
    verbatim(prototypes[k], page)
    for (i = 1; i <= num_types; i++)
        if (uses(prototypes[k], type_names[i])) {
            print ".PP" > page
            if (type_docs[i] != "")
                verbatim("/* " type_docs[i] " */", page)
            verbatim(types[i], page)
        }
    print ".fi" > page
    print ".SH DESCRIPTION" > page
    paragraphs(docs[k], 0, page)
    # A page needs the section only where there is something to say.
    if (("\n\n" docs[k]) ~ /\n\n(Statuses|[A-Z_]+( and [A-Z_]+)?:|TIMEOUT|STATE|ARG)/) {
        print ".SH RETURN VALUE" > page
        paragraphs(docs[k], 1, page)
    }
    if (notes[k] != "") {
        print ".SH NOTES" > page
        print "Holds for all functions of this part of the header:" > page
        print ".PP" > page
        paragraphs(notes[k], 0, page)
        if (("\n\n" notes[k]) ~ /\n\nStatuses/) {
            print ".PP" > page
            paragraphs(notes[k], 1, page)
        }
    }
    print ".SH SEE ALSO" > page
    for (j = k - 2; j <= k + 2; j++)
        if (j != k && j >= 1 && j <= num_functions) {
            print ".BR " roff(names[j]) " (3)," > page
        }
    print ".BR peerwin (7)" > page
    close(page)
}

# A declaration is complete: what was it?
function finish(    text, name) {
    text = declaration
    declaration = ""
    if (text ~ /^typedef [^{]*;$/ || text ~ /\} peerwin_status;/) {
        ; # opaque, or listed in peerwin(7)
    } else if (text ~ /^typedef/) {
        name = text
        sub(/;$/, "", name)
        sub(/^.*[ *}]/, "", name)
        types[++num_types] = text
        type_names[num_types] = name
        type_docs[num_types] = doc
        gsub(/\n/, "\n   ", type_docs[num_types])
    } else if (doc != "" && text ~ /peerwin_[a-z0-9_]+\(/ && text ~ /^(PEERWIN_API|PW_DEV|static inline)/) {
        name = text
        sub(/\(.*/, "", name)
        sub(/^.*[ *\n]/, "", name)
        sub(/^(PEERWIN_API|PW_DEV) /, "", text)
        sub(/PEERWIN_MUST_USE /, "", text)
        sub(/^static inline /, "", text)
        sub(/ \{.*/, ";", text)
        gsub(/\n +/, "\n    ", text)
        names[++num_functions] = name
        docs[num_functions] = doc
        prototypes[num_functions] = text
        notes[num_functions] = doc ~ /Collective/ ? "" : note
    }
    doc = ""
}

# The part's title; what held for the part before does not hold here.
/^\/\* -+ .* \*\/$/ { note = ""; next }

# Comments, doc or plain.
in_comment == "" && declaration == "" && /^\/\*/ {
    in_comment = /^\/\*\*/ ? "doc" : "plain"
    comment = ""
}
in_comment != "" {
    comment = comment (comment == "" ? "" : "\n") bare($0)
    if (/\*\//) {
        sub(/^\n+/, "", comment)
        sub(/\n+$/, "", comment)
        if (in_comment == "doc")
            doc = comment
        else if (comment ~ /\n/ && num_functions > 0)
            note = comment
        in_comment = ""
    }
    next
}

# The preprocessor's lines declare nothing, but end what a comment was for.
continued { continued = /\\$/; next }
/^#/ { continued = /\\$/; doc = ""; next }

declaration == "" && !/^(PEERWIN_API|PW_DEV|static inline|typedef)/ { next }
{
    declaration = declaration (declaration == "" ? "" : "\n") $0
    if (declaration ~ /^typedef[^\n]*\{/ ? /^\}|\}[^{]*;/ : /;( *\/\*.*)?$|\{$/)
        finish()
}

END {
    for (k = 1; k <= num_functions; k++)
        write_page(k)
    if (num_functions == 0)
        exit 1
}
