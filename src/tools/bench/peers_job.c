/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peers_job.h. A job is started with a launcher, has a log for all of its runs and a file of rows for each.
 */
#define _GNU_SOURCE
#include "peers_job.h"

#include "child.h"
#include "peers_place.h"
#include "report.h"
#include "text.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = PEERS_PATH, JOB_LIMIT_S = 45, LAST_SECONDS = 15, MOST_FAILURES = 3 };

const char *peers_name(int side) {
    return side == PEER_OURS ? "peerwin" : side == PEER_THEIRS ? "nvshmem" : "nccl";
}

/* ---------------------------------------------------------------------------------------------------- a job */

int peers_count_gpus(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int gpus = 0;
    if (visible != NULL && visible[0] != '\0') {
        gpus = 1;
        for (; *visible != '\0'; visible++)
            gpus += *visible == ',';
        return gpus;
    }
    glob_t found;
    if (glob("/proc/driver/nvidia/gpus/*", 0, NULL, &found) == 0) {
        gpus = (int)found.gl_pathc;
        globfree(&found);
    }
    return gpus > 0 ? gpus : 1;
}

static int thread_share(const peers *p, int ranks) {
    const int on_a_gpu = (ranks + p->gpus - 1) / p->gpus;
    return on_a_gpu > 100 ? 1 : 100 / on_a_gpu;
}

/* The names of the rows whose works are in the mask, with commas. */
static void list_names(unsigned works, char *names, size_t size) {
    size_t used = 0;
    names[0] = '\0';
    for (int i = 0; i < PLAN_ROWS && used < size; i++) {
        const bool again = i > 0 && strcmp(plan_rows[i].name, plan_rows[i - 1].name) == 0;
        if (!again && (works & 1u << plan_rows[i].work) != 0 &&
            text_format(names + used, size - used, "%s%s", used > 0 ? "," : "", plan_rows[i].name))
            used += strlen(names + used);
    }
}

static void make_command(const peers *p, const peer_job *job, const char *rows, child_command *command) {
    child_words(command, p->opt.mpirun != NULL ? p->opt.mpirun : BENCH_MPIRUN);
    child_word(command, "-n");
    child_word(command, "%d", job->ranks);
    if (job->side == PEER_THEIRS) {
        child_word(command, "%s", p->program);
        child_word(command, "%s", rows);
        if (p->opt.quick)
            child_word(command, "quick");
        return;
    }
    child_word(command, "%s", p->self);
    child_word(command, "--one-side");
    child_word(command, "%s", rows);
    if (p->opt.quick)
        child_word(command, "--quick");
    if (job->sliced || p->opt.only != NULL || job->skipped != 0) {
        char names[1024];
        list_names(p->opt.works & ~job->skipped, names, sizeof names);
        child_word(command, "--only");
        child_word(command, "%s", job->sliced ? "stream-barrier" : names);
    }
}

/* Takes in what a job has written; true if it came to its end. */
static bool read_rows(peers *p, const peer_job *job, const char *rows, int round) {
    FILE *file = fopen(rows, "re");
    if (file == NULL)
        return false;
    const bool done = peer_table_read(&p->table, file, job->sliced ? "sliced-" : "", job->ranks, job->side, round);
    fclose(file);
    return done;
}

/* The end of a log: whoever reads only what is printed here should see why, too. */
static void show_end(const char *log) {
    enum { LINES_BYTES = 1000 };
    char line[512];
    FILE *file = fopen(log, "re");
    if (file == NULL)
        return;
    if (fseek(file, -LINES_BYTES, SEEK_END) == 0 && fgets(line, sizeof line, file) == NULL)
        line[0] = '\0'; /* the first one is cut */
    while (fgets(line, sizeof line, file) != NULL)
        fprintf(stderr, "  | %s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
    fclose(file);
}

/* A job that hangs must not cost the report of the others: all ends soon after the time that the user has given. */
static int limit_of_job(const peers *p) {
    const double left = p->opt.seconds + LAST_SECONDS - (bench_seconds() - p->began);
    return left > JOB_LIMIT_S ? JOB_LIMIT_S : left > 5.0 ? (int)left : 5;
}

static bool start_job(peers *p, const peer_job *job, int round) {
    char rows[PATH], log[PATH], none[PATH], share[16], works[16], libraries[2 * PATH], cpus[PATH];
    const char *old = getenv("LD_LIBRARY_PATH");
    const char *sort = job->sliced ? "-sliced" : "";
    child_command command = {.count = 0};
    text_format(rows, sizeof rows, "%s/%s-%d%s-%d.rows", p->opt.logs, peers_name(job->side), job->ranks, sort,
                round + 1);
    text_format(log, sizeof log, "%s/%s-%d%s.log", p->opt.logs, peers_name(job->side), job->ranks, sort);
    text_format(none, sizeof none, "%s/no-mps", p->opt.logs);
    text_format(share, sizeof share, "%d", thread_share(p, job->ranks));
    text_format(works, sizeof works, "%u", p->opt.works & ~job->skipped);
    text_format(libraries, sizeof libraries, "%s%s%s", p->library_dir, old != NULL ? ":" : "", old != NULL ? old : "");
    peers_place(p->opt.place, job->ranks, p->gpus, cpus, sizeof cpus);
    const char *environment[24] = {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share,       "PEER_CPUS",
        cpus[0] != '\0' ? cpus : NULL,       "PEER_NCCL", job->side == PEER_NCCLS ? p->nccl : NULL};
    int used = 6;
    if (job->sliced) {
        environment[used++] = "CUDA_MPS_PIPE_DIRECTORY";
        environment[used++] = none;
    }
    if (job->side == PEER_THEIRS) {
        const char *const more[] = {"NVSHMEM_REMOTE_TRANSPORT",
                                    "none",
                                    "NVSHMEM_DISABLE_NVLS",
                                    "1",
                                    "PEER_BOOTSTRAP",
                                    p->unique_id ? "uid" : NULL,
                                    "PEER_WORKS",
                                    works};
        memcpy(environment + used, more, sizeof more);
        used += (int)(sizeof more / sizeof *more);
        environment[used++] = p->library_dir[0] != '\0' ? "LD_LIBRARY_PATH" : NULL;
        environment[used++] = libraries;
    }
    unlink(rows); /* of an earlier run */
    make_command(p, job, rows, &command);
    const child_job child = {
        .command = &command, .log = log, .in = -1, .limit_s = limit_of_job(p), .environment = environment};
    const int status = child_run(&child);
    const bool done = read_rows(p, job, rows, round);
    if (status == 0 && done)
        return true;
    fprintf(stderr, "peerwin-bench: %s on %d ranks%s: %s %d; see %s\n", peers_name(job->side), job->ranks,
            job->sliced ? " without MPS" : "", status == CHILD_TOO_LONG ? "too long, status" : "exit status", status,
            log);
    if (job->failures == 0)
        show_end(log);
    return false;
}

/* What a run ended in is left out from then on, so that the rows after it get their figures. */
static void skip_culprit(peers *p, peer_job *job) {
    unsigned works = 0;
    for (int i = 0; i < PLAN_ROWS; i++)
        if (strcmp(plan_rows[i].name, p->table.at) == 0)
            works |= 1u << plan_rows[i].work;
    job->failures++;
    if (works == 0)
        return;
    job->skipped |= works;
    fprintf(stderr, "peerwin-bench: %s on %d ranks ended in %s, which is left out from now on\n", peers_name(job->side),
            job->ranks, p->table.at);
}

void peers_run_job(peers *p, peer_job *job, int round) {
    if (job->failures == MOST_FAILURES)
        return;
    report_progress(p->out, peers_name(job->side), 0);
    const int samples = p->table.count;
    bool good = start_job(p, job, round);
    if (!good && job->side == PEER_THEIRS && p->table.count == samples && job->good == 0 && !p->unique_id) {
        fprintf(stderr, "peerwin-bench: once more, with NVSHMEM started by a unique id\n");
        p->unique_id = true;
        good = start_job(p, job, round);
    }
    job->good += good;
    if (!good)
        skip_culprit(p, job);
}
