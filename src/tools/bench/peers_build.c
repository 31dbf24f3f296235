/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Finding NVSHMEM and building the program that is measured beside peerwin. Its source is within this program; what is
 * built stays among the logs and is used again as long as source and command are the same.
 */
#define _GNU_SOURCE
#include "peers.h"

#include "child.h"
#include "text.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096, BUILD_LIMIT_S = 180, ASK_LIMIT_S = 20 };

/* peer_source.S */
extern const char bench_peer_program[], bench_peer_rows[], bench_peer_kernels[], bench_peer_halo[], bench_peer_plan[],
    bench_peer_place[], bench_halo_shape[], bench_halo_kernels_h[], bench_halo_kernels[];

static const struct {
    const char *name;
    const char *text;
} sources[] = {
    {"peer_nvshmem.cu", bench_peer_program},
    {"peer_nvshmem_rows.cuh", bench_peer_rows},
    {"peer_nvshmem_kernels.cuh", bench_peer_kernels},
    {"peer_nvshmem_halo.cuh", bench_peer_halo},
    {"peer_plan.h", bench_peer_plan},
    {"peer_place.h", bench_peer_place},
    {"halo_shape.h", bench_halo_shape},
    {"halo_kernels.h", bench_halo_kernels_h},
    {"halo_kernels.cuh", bench_halo_kernels},
};

typedef struct {
    char include[PATH], lib[PATH];
} installation;

/* --------------------------------------------------------------------------------------------------- finding */

static bool is_there(const char *dir, const char *name) {
    char path[PATH + 64];
    text_format(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

/* Headers and both libraries at these places? */
static bool look_at(const char *include, const char *lib, installation *found_out) {
    if (!is_there(include, "nvshmem.h") || !is_there(lib, "libnvshmem_device.a") ||
        (!is_there(lib, "libnvshmem_host.so.3") && !is_there(lib, "libnvshmem_host.so")))
        return false;
    text_format(found_out->include, sizeof found_out->include, "%s", include);
    text_format(found_out->lib, sizeof found_out->lib, "%s", lib);
    return true;
}

static bool look_below(const char *prefix, installation *found_out) {
    char include[PATH], lib[PATH];
    if (prefix == NULL || prefix[0] == '\0')
        return false;
    text_format(include, sizeof include, "%s/include", prefix);
    text_format(lib, sizeof lib, "%s/lib", prefix);
    if (look_at(include, lib, found_out))
        return true;
    text_format(lib, sizeof lib, "%s/lib64", prefix);
    return look_at(include, lib, found_out);
}

/* The last line that a program prints; "" if it fails. */
static void ask(const options *opt, const child_command *command, char *answer, size_t size) {
    char out[PATH], log[PATH], line[PATH];
    text_format(out, sizeof out, "%s/answer.txt", opt->logs);
    text_format(log, sizeof log, "%s/build.log", opt->logs);
    const child_job job = {.command = command, .log = log, .only = out, .in = -1, .limit_s = ASK_LIMIT_S};
    answer[0] = '\0';
    if (child_run(&job) != 0)
        return;
    FILE *file = fopen(out, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0')
            text_format(answer, size, "%s", line);
    }
    if (file != NULL)
        fclose(file);
}

/* As a package of Python's. */
static bool ask_python(const options *opt, installation *found_out) {
    static const char *const names[] = {"python3", "python"};
    char path[PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        child_command command = {.count = 0};
        if (!child_find(names[i], path, sizeof path))
            continue;
        child_word(&command, "%s", path);
        child_word(&command, "-c");
        child_word(&command, "import nvidia.nvshmem as m; print(list(m.__path__)[0])");
        ask(opt, &command, path, sizeof path);
        if (look_below(path, found_out))
            return true;
    }
    return false;
}

static bool look_around(installation *found_out) {
    static const char *const patterns[] = {
        "/usr/local/nvshmem*",
        "/opt/nvidia/nvshmem*",
        "/usr/lib/python3*/*-packages/nvidia/nvshmem",
        "/usr/local/lib/python3*/*-packages/nvidia/nvshmem",
        "/opt/*/lib/python3*/site-packages/nvidia/nvshmem",
        "/root/*/lib/python3*/site-packages/nvidia/nvshmem",
    };
    bool found = look_at("/usr/include/nvshmem_13", "/usr/lib/x86_64-linux-gnu/nvshmem/13", found_out) ||
                 look_at("/usr/include/nvshmem_12", "/usr/lib/x86_64-linux-gnu/nvshmem/12", found_out);
    for (size_t i = 0; !found && i < sizeof patterns / sizeof *patterns; i++) {
        glob_t paths;
        if (glob(patterns[i], 0, NULL, &paths) != 0)
            continue;
        for (size_t k = 0; !found && k < paths.gl_pathc; k++)
            found = look_below(paths.gl_pathv[k], found_out);
        globfree(&paths);
    }
    return found;
}

static bool find_nvshmem(const options *opt, installation *found_out) {
    return look_below(getenv("NVSHMEM_HOME"), found_out) || look_below(getenv("NVSHMEM_PREFIX"), found_out) ||
           ask_python(opt, found_out) || look_around(found_out);
}

static bool find_nvcc(char *path, size_t size) {
    static const char *const places[] = {BENCH_NVCC, "nvcc", "/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"};
    const char *home = getenv("CUDA_HOME");
    char at_home[PATH];
    text_format(at_home, sizeof at_home, "%s/bin/nvcc", home != NULL ? home : "");
    if (home != NULL && child_find(at_home, path, size))
        return true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i][0] != '\0' && child_find(places[i], path, size))
            return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------- building */

/* Code for the GPU that is here: "90" for a compute capability of 9.0. */
static void choose_code(const options *opt, child_command *command) {
    child_command question = {.count = 0};
    char answer[64];
    int major = 0, minor = 0;
    child_words(&question, "nvidia-smi --query-gpu=compute_cap --format=csv,noheader");
    ask(opt, &question, answer, sizeof answer);
    if (sscanf(answer, "%d.%d", &major, &minor) == 2)
        child_word(command, "-gencode=arch=compute_%d%d,code=sm_%d%d", major, minor, major, minor);
    else
        child_word(command, "-gencode=arch=compute_90,code=[compute_90,sm_90]");
}

/* A word with `prefix` for each of a list with semicolons. */
static void add_list(child_command *command, const char *prefix, const char *list) {
    while (*list != '\0') {
        const size_t length = strcspn(list, ";");
        if (length > 0)
            child_word(command, "%s%.*s", prefix, (int)length, list);
        list += length + (list[length] == ';');
    }
}

static void make_command(const options *opt, const char *nvcc, const installation *at, const char *program,
                         child_command *command) {
    child_word(command, "%s", nvcc);
    child_words(command, "-std=c++17 -O3 -rdc=true");
    choose_code(opt, command);
    child_word(command, "-I%s", at->include);
    add_list(command, "-I", BENCH_MPI_INCLUDE);
    child_word(command, "%s/peer_nvshmem.cu", opt->logs);
    child_word(command, "-o");
    child_word(command, "%s", program);
    child_word(command, "-L%s", at->lib);
    child_word(command, "-lnvshmem_device");
    child_word(command, is_there(at->lib, "libnvshmem_host.so") ? "-lnvshmem_host" : "-l:libnvshmem_host.so.3");
    child_words(command, "-Xlinker -rpath -Xlinker");
    child_word(command, "%s", at->lib);
    add_list(command, "", BENCH_MPI_LIBRARIES);
}

/* Writes a text to a file, unless it is there already: then *same stays what it was. False if that failed. */
static bool write_text(const char *dir, const char *name, const char *text, bool *same) {
    const size_t bytes = strlen(text);
    char path[PATH + 64];
    text_format(path, sizeof path, "%s/%s", dir, name);
    char *old = malloc(bytes + 1);
    FILE *file = fopen(path, "re");
    const bool found =
        old != NULL && file != NULL && fread(old, 1, bytes + 1, file) == bytes && memcmp(old, text, bytes) == 0;
    free(old);
    if (file != NULL)
        fclose(file);
    if (found)
        return true;
    *same = false;
    file = fopen(path, "we");
    if (file == NULL)
        return false;
    const bool written = fwrite(text, 1, bytes, file) == bytes;
    return fclose(file) == 0 && written;
}

/* The command as one text. */
static void join(const child_command *command, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < command->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s\n", command->argv[i]);
}

static bool build(const options *opt, const char *nvcc, const installation *at, const char *program) {
    char log[PATH], text[CHILD_TEXT];
    bool same = true;
    child_command command = {.count = 0};
    text_format(log, sizeof log, "%s/build.log", opt->logs);
    make_command(opt, nvcc, at, program, &command);
    join(&command, text, sizeof text);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!write_text(opt->logs, sources[i].name, sources[i].text, &same))
            return false;
    if (!write_text(opt->logs, "build-command.txt", text, &same))
        return false;
    if (same && access(program, X_OK) == 0)
        return true;
    unlink(program);
    fprintf(stderr, "peerwin-bench: building the NVSHMEM program, half a minute or less\n");
    const child_job job = {.command = &command, .log = log, .in = -1, .limit_s = BUILD_LIMIT_S};
    return child_run(&job) == 0 && access(program, X_OK) == 0;
}

bool peers_find_program(const options *opt, char *program, size_t size, char *library_dir, char *note,
                        size_t note_size) {
    installation at;
    char nvcc[PATH];
    library_dir[0] = '\0';
    if (opt->program != NULL) {
        text_format(note, note_size, "%.400s, as given", opt->program);
        return child_find(opt->program, program, size);
    }
    if (!find_nvshmem(opt, &at)) {
        text_format(note, note_size,
                    "not found (NVSHMEM_HOME, Python packages, /usr, /usr/local, /opt): peerwin alone; "
                    "pip install nvidia-nvshmem-cu13 brings it");
        return false;
    }
    if (!find_nvcc(nvcc, sizeof nvcc)) {
        text_format(note, note_size, "in %.300s, but there is no nvcc to build with: peerwin alone", at.lib);
        return false;
    }
    text_format(program, size, "%s/peer_nvshmem", opt->logs);
    if (!build(opt, nvcc, &at, program)) {
        text_format(note, note_size, "in %.200s; the program was not built (see %.200s/build.log): peerwin alone",
                    at.lib, opt->logs);
        return false;
    }
    text_format(library_dir, size, "%s", at.lib);
    text_format(note, note_size, "in %.400s", at.lib);
    return true;
}
