/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The JSON writer; see json.h.
 */
#include "json.h"

#include <stddef.h>

/* Continuation bytes that have to follow `lead`, -1 if it begins no character. */
static int continuation(unsigned char lead) {
    if (lead < 0x80)
        return 0;
    if (lead >= 0xc2 && lead < 0xe0)
        return 1;
    if (lead >= 0xe0 && lead < 0xf0)
        return 2;
    return lead >= 0xf0 && lead < 0xf5 ? 3 : -1;
}

/* Overlong forms, surrogates and numbers past U+10FFFF show in the second byte. */
static bool second_fits(unsigned char lead, unsigned char second) {
    switch (lead) {
    case 0xe0:
        return second >= 0xa0;
    case 0xed:
        return second < 0xa0;
    case 0xf0:
        return second >= 0x90;
    case 0xf4:
        return second < 0x90;
    default:
        return true;
    }
}

/* The length of the character that `text` begins with, 0 if it is no valid UTF-8. */
static size_t character(const char *text) {
    const int more = continuation((unsigned char)text[0]);
    for (int i = 1; i <= more; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    if (more < 0 || (more > 0 && !second_fits((unsigned char)text[0], (unsigned char)text[1])))
        return 0;
    return (size_t)more + 1;
}

static void quote(FILE *file, const char *text) {
    fputc('"', file);
    while (*text != '\0') {
        const unsigned char c = (unsigned char)*text;
        const size_t length = character(text);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c == 0x7f || length == 0)
            fprintf(file, "\\u%04x", (unsigned)c);
        else
            fwrite(text, 1, length, file);
        text += length > 0 ? length : 1;
    }
    fputc('"', file);
}

/* The comma, the place, the name. */
static void begin(json *j, const char *name) {
    if (j->filled)
        fputc(',', j->file);
    if (j->depth > 0)
        fprintf(j->file, "\n%*s", 2 * j->depth, "");
    if (name != NULL) {
        quote(j->file, name);
        fputs(": ", j->file);
    }
    j->filled = true;
}

void json_open(json *j, const char *name, char bracket) {
    begin(j, name);
    fputc(bracket, j->file);
    j->depth++;
    j->filled = false;
}

void json_close(json *j, char bracket) {
    j->depth--;
    if (j->filled)
        fprintf(j->file, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->file);
    j->filled = true;
    if (j->depth == 0)
        fputc('\n', j->file);
}

void json_text(json *j, const char *name, const char *text) {
    begin(j, name);
    if (text != NULL)
        quote(j->file, text);
    else
        fputs("null", j->file);
}

void json_number(json *j, const char *name, long long number) {
    begin(j, name);
    fprintf(j->file, "%lld", number);
}

void json_bool(json *j, const char *name, bool value) {
    begin(j, name);
    fputs(value ? "true" : "false", j->file);
}
