/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peers.h. A round is a job of each side on each number of ranks; which side goes first alternates. A job that
 * fails costs its own figures: those that it had written count, the rows in which it ended are left out from then on,
 * and a third failure ends its turns. One job more looks at the stream barrier without MPS, where ranks take turns on
 * the GPU.
 */
#define _GNU_SOURCE
#include "peers.h"

#include "child.h"
#include "peer_limits.h"
#include "peer_plan.h"
#include "report.h"
#include "text.h"

#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096, JOB_LIMIT_S = 45, LAST_SECONDS = 15, MAX_JOBS = 2 * OPTIONS_MAX_RANKS + 2, MOST_FAILURES = 3 };

typedef struct {
    int ranks;
    int side;
    bool sliced; /* without MPS, and the stream barrier only */
    int good;    /* runs that came to their end */
    int failures;
    unsigned skipped; /* works in which runs ended, as options.works */
} peer_job;

typedef struct {
    options opt;
    char self[PATH];        /* this program */
    char program[PATH];     /* NVSHMEM's side, "" = none */
    char library_dir[PATH]; /* of NVSHMEM, "" = the loader's own way */
    bool unique_id;         /* NVSHMEM does not start by the communicator here */
    int gpus;
    peer_job jobs[MAX_JOBS];
    int num_jobs;
    peer_table table;
    report *out;
    double began;
} peers;

static const char *name_of(int side) {
    return side == PEER_OURS ? "peerwin" : "nvshmem";
}

/* ---------------------------------------------------------------------------------------------------- a job */

/* GPUs that ranks are spread over: their thread shares have to add up to a whole on each. */
static int count_gpus(void) {
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
    char rows[PATH], log[PATH], none[PATH], share[16], works[16], libraries[2 * PATH];
    const char *old = getenv("LD_LIBRARY_PATH");
    const char *sort = job->sliced ? "-sliced" : "";
    child_command command = {.count = 0};
    text_format(rows, sizeof rows, "%s/%s-%d%s-%d.rows", p->opt.logs, name_of(job->side), job->ranks, sort, round + 1);
    text_format(log, sizeof log, "%s/%s-%d%s.log", p->opt.logs, name_of(job->side), job->ranks, sort);
    text_format(none, sizeof none, "%s/no-mps", p->opt.logs);
    text_format(share, sizeof share, "%d", thread_share(p, job->ranks));
    text_format(works, sizeof works, "%u", p->opt.works & ~job->skipped);
    text_format(libraries, sizeof libraries, "%s%s%s", p->library_dir, old != NULL ? ":" : "", old != NULL ? old : "");
    const char *environment[16] = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share};
    int used = 2;
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
    fprintf(stderr, "peerwin-bench: %s on %d ranks%s: %s %d; see %s\n", name_of(job->side), job->ranks,
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
    fprintf(stderr, "peerwin-bench: %s on %d ranks ended in %s, which is left out from now on\n", name_of(job->side),
            job->ranks, p->table.at);
}

static void run_job(peers *p, peer_job *job, int round) {
    if (job->failures == MOST_FAILURES)
        return;
    report_progress(p->out, name_of(job->side), 0);
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

/* ------------------------------------------------------------------------------------------------ the rounds */

static void add_job(peers *p, int ranks, int side, bool sliced) {
    p->jobs[p->num_jobs++] = (peer_job){.ranks = ranks, .side = side, .sliced = sliced};
}

static void plan_jobs(peers *p) {
    for (int i = 0; p->opt.ranks[i] != 0; i++) {
        add_job(p, p->opt.ranks[i], PEER_OURS, false);
        if (p->program[0] != '\0')
            add_job(p, p->opt.ranks[i], PEER_THEIRS, false);
    }
    if (p->opt.ranks[0] == 2 && (p->opt.works & 1u << PLAN_STREAM_BARRIER) != 0)
        add_job(p, 2, PEER_OURS, true);
}

static void run_round(peers *p, int round) {
    for (int i = 0; i < p->num_jobs; i++) {
        const bool pair = i + 1 < p->num_jobs && p->jobs[i + 1].side == PEER_THEIRS;
        if (!pair) {
            run_job(p, &p->jobs[i], round);
            continue;
        }
        run_job(p, &p->jobs[round % 2 == 0 ? i : i + 1], round);
        run_job(p, &p->jobs[round % 2 == 0 ? i + 1 : i], round);
        i++;
    }
}

static void run_rounds(peers *p) {
    double longest = 0.0;
    for (int round = 0; round < p->opt.repeats; round++) {
        const double begin = bench_seconds();
        if (round > 0 && begin - p->began + longest > p->opt.seconds) {
            fprintf(stderr, "peerwin-bench: %d rounds of %d: the next one might end after %d s\n", round,
                    p->opt.repeats, p->opt.seconds);
            return;
        }
        run_round(p, round);
        const double lasted = bench_seconds() - begin;
        longest = lasted > longest ? lasted : longest;
    }
}

/* ------------------------------------------------------------------------------------------------ the report */

static const char *outcome_name(peer_outcome outcome) {
    return outcome == PEER_KEPT ? "PASS" : outcome == PEER_BROKEN ? "FAIL" : "no figure";
}

/* Whether limit number `i` is about what was asked for. */
static bool was_asked_for(const peers *p, int i) {
    int ranks = 0;
    bool found = false;
    const char *name = peer_limit_row(i, &ranks);
    name += strncmp(name, "sliced-", 7) == 0 ? 7 : 0;
    for (int k = 0; k < PLAN_ROWS; k++)
        found = found || (strcmp(plan_rows[k].name, name) == 0 && (p->opt.works & 1u << plan_rows[k].work) != 0);
    for (int k = 0; found && p->opt.ranks[k] != 0; k++)
        if (p->opt.ranks[k] == ranks)
            return true;
    return false;
}

/* True if every promise is kept. */
static bool report_limits(peers *p, const peer_row *rows, int count) {
    bool all = true;
    for (int i = 0; i < peer_limit_count(); i++) {
        if (!was_asked_for(p, i))
            continue;
        const peer_verdict v = peer_limit_check(i, rows, count);
        report_limit(p->out, v.what, v.limit, v.measured, outcome_name(v.outcome));
        all = all && v.outcome == PEER_KEPT;
    }
    return all;
}

static void report_texts(peers *p) {
    char text[64];
    if (p->table.device[0] != '\0')
        report_device(p->out, p->table.device);
    text_format(text, sizeof text, "%d", p->gpus);
    report_note(p->out, "GPUs that the ranks are spread over", text);
    for (int side = 0; side < PEER_SIDES; side++) {
        if (p->table.version[side][0] != '\0')
            report_note(p->out, name_of(side), p->table.version[side]);
        for (int i = 0; i < p->table.num_missing[side]; i++)
            report_note(p->out, side == PEER_OURS ? "peerwin has no figure for" : "nvshmem has no figure for",
                        p->table.missing[side][i]);
    }
}

/* True if peerwin came to its end on every number of ranks, and every limit is kept if that was asked for. */
static bool report_all(peers *p) {
    int count = 0;
    bool good = true;
    peer_row *rows = peer_table_merge(&p->table, &count);
    report_texts(p);
    for (int i = 0; i < count; i++)
        report_add(p->out, &rows[i].result);
    const bool kept = report_limits(p, rows, count);
    for (int i = 0; i < p->num_jobs; i++)
        good = good && (p->jobs[i].side != PEER_OURS || p->jobs[i].good > 0);
    free(rows);
    return good && (kept || !p->opt.limits);
}

/* ------------------------------------------------------------------------------------------------- the course */

/* Ranks that share a GPU take turns on it where no MPS daemon runs: nothing is then as fast as it can be. */
static void look_for_mps(const peers *p) {
    const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char pipe[PATH];
    text_format(pipe, sizeof pipe, "%s/nvidia-cuda-mps-control.pid", dir != NULL ? dir : "/tmp/nvidia-mps");
    if (p->opt.ranks[0] > p->gpus && access(pipe, F_OK) != 0)
        fputs("peerwin-bench: no MPS daemon runs here: ranks that share a GPU take turns on it, kernels that wait for "
              "each "
              "other take milliseconds, and NVSHMEM may not start (see nvidia-cuda-mps-control)\n",
              stderr);
}

/* A launcher within a launcher would find the outer one's variables. */
static bool inside_a_job(void) {
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (getenv(signs[i]) != NULL)
            return true;
    return false;
}

static bool make_logs(peers *p) {
    static char full[PATH];
    char none[PATH + 16];
    if (mkdir(p->opt.logs, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "peerwin-bench: cannot make the directory %s: %s\n", p->opt.logs, strerror(errno));
        return false;
    }
    if (realpath(p->opt.logs, full) == NULL) {
        fprintf(stderr, "peerwin-bench: %s: %s\n", p->opt.logs, strerror(errno));
        return false;
    }
    p->opt.logs = full;
    text_format(none, sizeof none, "%s/no-mps", full);
    return mkdir(none, 0777) == 0 || errno == EEXIST;
}

static bool find_self(peers *p) {
    const ssize_t length = readlink("/proc/self/exe", p->self, sizeof p->self - 1);
    p->self[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static int count_cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
}

static int run_all(peers *p) {
    char note[512] = "";
    p->began = bench_seconds();
    p->gpus = count_gpus();
    if (!peers_find_program(&p->opt, p->program, sizeof p->program, p->library_dir, note, sizeof note))
        p->program[0] = '\0';
    p->out = report_open(&p->opt, p->opt.ranks[0], count_cpus());
    if (p->out == NULL)
        return 2;
    if (note[0] != '\0')
        report_note(p->out, "NVSHMEM", note);
    look_for_mps(p);
    plan_jobs(p);
    run_rounds(p);
    const bool good = report_all(p);
    const bool written = report_close(p->out);
    peer_table_free(&p->table);
    return good && written ? EXIT_SUCCESS : EXIT_FAILURE;
}

int peers_main(int argc, char **argv) {
    static peers p; /* large */
    if (inside_a_job()) {
        fputs("peerwin-bench: --peers starts jobs of its own: without mpirun (see peerwin-bench --help)\n", stderr);
        return 2;
    }
    p.opt = options_parse(argc, argv, 0);
    if (p.opt.action != OPTIONS_RUN)
        return p.opt.action == OPTIONS_BAD ? 2 : EXIT_SUCCESS;
    if (!make_logs(&p) || !find_self(&p))
        return EXIT_FAILURE;
    return run_all(&p);
}
