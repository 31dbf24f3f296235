/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads of the library's own. They block all signals, from their first moment on: handlers are the program's, and
 * run on its threads.
 */
#ifndef PW_BASE_THREAD_H
#define PW_BASE_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>

/*
 * 0 or an errno. `stack_bytes` 0 is the program's default. The thread runs on the processors `where`, from its first
 * moment on as well; NULL: on the calling thread's.
 */
static inline int pw_thread_start(pthread_t *thread_out, size_t stack_bytes, const cpu_set_t *where,
                                  void *(*run)(void *), void *argument) {
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code != 0)
        return code;
    if (stack_bytes != 0)
        code = pthread_attr_setstacksize(&attributes, stack_bytes);
    if (code == 0 && where)
        code = pthread_attr_setaffinity_np(&attributes, sizeof *where, where);
    if (code == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(thread_out, &attributes, run, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return code;
}

/* Of this thread, as debuggers and top show it; at most 15 letters. */
static inline void pw_thread_name(const char *name) {
    (void)pthread_setname_np(pthread_self(), name);
}

#endif
