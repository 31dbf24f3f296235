/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peers.h. A round is a job of each side on each number of ranks; which of peerwin and NVSHMEM goes first
 * alternates. A job that fails costs its own figures: those that it had written count, the rows in which it ended are
 * left out from then on, and a third failure ends its turns. One job more looks at the stream barrier without MPS,
 * where ranks take turns on the GPU.
 */
#define _GNU_SOURCE
#include "peers.h"

#include "peer_limits.h"
#include "peers_job.h"
#include "report.h"
#include "text.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = PEERS_PATH };

/* ------------------------------------------------------------------------------------------------ the rounds */

static void add_job(peers *p, int ranks, int side, bool sliced) {
    p->jobs[p->num_jobs++] = (peer_job){.ranks = ranks, .side = side, .sliced = sliced};
}

/* Whether a row was asked for that NCCL can have. */
static bool wants_nccl(const peers *p) {
    for (int i = 0; i < PLAN_ROWS; i++)
        if (plan_is_nccls(&plan_rows[i]) && (p->opt.works & 1u << plan_rows[i].work) != 0)
            return true;
    return false;
}

static void plan_jobs(peers *p) {
    for (int i = 0; p->opt.ranks[i] != 0; i++) {
        add_job(p, p->opt.ranks[i], PEER_OURS, false);
        if (p->program[0] != '\0')
            add_job(p, p->opt.ranks[i], PEER_THEIRS, false);
        if (p->nccl[0] != '\0' && p->opt.ranks[i] <= p->gpus && wants_nccl(p))
            add_job(p, p->opt.ranks[i], PEER_NCCLS, false);
    }
    if (p->opt.ranks[0] == 2 && p->gpus < 2 && (p->opt.works & 1u << PLAN_STREAM_BARRIER) != 0)
        add_job(p, 2, PEER_OURS, true);
}

static void run_round(peers *p, int round) {
    for (int i = 0; i < p->num_jobs; i++) {
        const bool pair = i + 1 < p->num_jobs && p->jobs[i + 1].side == PEER_THEIRS;
        if (!pair) {
            peers_run_job(p, &p->jobs[i], round);
            continue;
        }
        peers_run_job(p, &p->jobs[round % 2 == 0 ? i : i + 1], round);
        peers_run_job(p, &p->jobs[round % 2 == 0 ? i + 1 : i], round);
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
    if (peer_limit_is_apart(i) != (ranks <= p->gpus))
        return false;
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
            report_note(p->out, peers_name(side), p->table.version[side]);
        for (int i = 0; i < p->table.num_places[side]; i++) {
            text_format(text, sizeof text, "%s on CPUs", peers_name(side));
            report_note(p->out, text, p->table.places[side][i]);
        }
        for (int i = 0; i < p->table.num_missing[side]; i++) {
            text_format(text, sizeof text, "%s has no figure for", peers_name(side));
            report_note(p->out, text, p->table.missing[side][i]);
        }
    }
}

/* Where NCCL has no figure for a row that it could have, the row says why. */
static void explain_nccl(const peers *p, measure_result *result) {
    for (int i = 0; i < PLAN_ROWS; i++)
        if (strcmp(plan_rows[i].name, result->name) == 0 && plan_is_nccls(&plan_rows[i]))
            result->no_third = p->nccl[0] == '\0'        ? "not installed"
                               : result->ranks > p->gpus ? "no: ranks share a GPU"
                                                         : "no figure";
}

/* True if peerwin came to its end on every number of ranks, and every limit is kept if that was asked for. */
static bool report_all(peers *p) {
    int count = 0;
    bool good = true;
    peer_row *rows = peer_table_merge(&p->table, &count);
    report_texts(p);
    for (int i = 0; i < count; i++) {
        explain_nccl(p, &rows[i].result);
        report_add(p->out, &rows[i].result);
    }
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
    p->gpus = peers_count_gpus();
    if (!peers_find_program(&p->opt, p->program, sizeof p->program, p->library_dir, note, sizeof note))
        p->program[0] = '\0';
    peers_find_nccl(&p->opt, p->library_dir, p->nccl, sizeof p->nccl);
    p->out = report_open(&p->opt, p->opt.ranks[0], count_cpus());
    if (p->out == NULL)
        return 2;
    if (note[0] != '\0')
        report_note(p->out, "NVSHMEM", note);
    report_note(p->out, "NCCL", p->nccl[0] != '\0' ? p->nccl : "not installed (NCCL_HOME, Python packages, /usr)");
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
