/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs the fuzz target over a directory of inputs, each also cut short and with every byte changed, with any
 * compiler. Fails if the corpus holds no record that the decoder takes: it would be out of date.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "window/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096 };

static int is_taken(const uint8_t *bytes, size_t size) {
    pw_hello hello;
    pw_announce announce;
    pw_note note;
    pw_card card;
    return (size == PW_HELLO_BYTES && pw_hello_decode(bytes, &hello) == 0) ||
           (size == PW_ANNOUNCE_BYTES && pw_announce_decode(bytes, &announce) == 0) ||
           (size == PW_NOTE_BYTES && pw_note_decode(bytes, &note) == 0) ||
           (size == PW_CARD_BYTES && pw_card_decode(bytes, &card) == 0);
}

static int replay(const char *path) {
    uint8_t bytes[MOST];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (size_t length = 0; length <= size; length++) {
        LLVMFuzzerTestOneInput(bytes, length);
    }
    for (size_t i = 0; i < size; i++) {
        for (int change = 1; change < 256; change++) {
            bytes[i] ^= (uint8_t)change;
            LLVMFuzzerTestOneInput(bytes, size);
            bytes[i] ^= (uint8_t)change;
        }
    }
    return is_taken(bytes, size);
}

int main(int argc, char **argv) {
    int inputs = 0;
    int taken = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        fprintf(stderr, "usage: %s directory of inputs\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[1024];
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
            taken += replay(path);
            inputs++;
        }
    }
    closedir(folder);
    printf("%d inputs, %d of them records\n", inputs, taken);
    return taken >= 9 ? 0 : 1;
}
