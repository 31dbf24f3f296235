/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Status texts and the last error: whole sentences, cut but never overrun, each thread's own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "unit/unit.h"

static void every_status_has_name_and_text(void **state) {
    (void)state;
#define ENTRY(name, number, text)                                                                                      \
    assert_int_equal(PEERWIN_##name, number);                                                                          \
    assert_string_equal(peerwin_strerror(PEERWIN_##name), text);                                                       \
    assert_string_equal(pw_status_name(number), "PEERWIN_" #name);
    PEERWIN_STATUS_MAP(ENTRY)
#undef ENTRY
    assert_null(pw_status_name(5));
    assert_null(pw_status_name(-1));
    assert_null(pw_status_name(44));
    assert_string_equal(peerwin_strerror((peerwin_status)5), "unknown status");
    assert_int_equal(peerwin_version(), PEERWIN_VERSION);
}

static void a_failure_names_call_stage_rank_and_peer(void **state) {
    (void)state;
    assert_int_equal(pw_fail(PEERWIN_ERR_RANGE, PW_SITE("peerwin_put", "map", 3, 7), "offset %d", 12),
                     PEERWIN_ERR_RANGE);
    assert_string_equal(peerwin_last_error(), "peerwin_put: map: rank 3, peer 7: offset 12");
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE("peerwin_put", NULL, 3, PW_NONE), "no"), PEERWIN_ERR_ARG);
    assert_string_equal(peerwin_last_error(), "peerwin_put: rank 3: no");
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE(NULL, NULL, PW_NONE, PW_NONE), "no"), PEERWIN_ERR_ARG);
    assert_string_equal(peerwin_last_error(), "no");
}

static void a_long_text_is_cut_and_ended(void **state) {
    char text[4 * PW_ERROR_TEXT];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE("call", "stage", 1, 2), "%s", text), PEERWIN_ERR_ARG);
    assert_int_equal(strlen(peerwin_last_error()), PW_ERROR_TEXT - 1);
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE(text, text, 1, 2), "end"), PEERWIN_ERR_ARG);
    assert_int_equal(strlen(peerwin_last_error()), PW_ERROR_TEXT - 1);
    assert_int_equal(pw_error_adopt(PEERWIN_ERR_STATE, text), PEERWIN_ERR_STATE);
    assert_int_equal(strlen(peerwin_last_error()), PW_ERROR_TEXT - 1);
}

static void the_last_error_may_be_part_of_the_next(void **state) {
    (void)state;
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE("inner", NULL, PW_NONE, PW_NONE), "cause"), PEERWIN_ERR_ARG);
    assert_int_equal(
        pw_fail(PEERWIN_ERR_STATE, PW_SITE("outer", NULL, PW_NONE, PW_NONE), "because %s", peerwin_last_error()),
        PEERWIN_ERR_STATE);
    assert_string_equal(peerwin_last_error(), "outer: because inner: cause");
    assert_int_equal(pw_error_adopt(PEERWIN_ERR_ARG, peerwin_last_error() + 7), PEERWIN_ERR_ARG);
    assert_string_equal(peerwin_last_error(), "because inner: cause");
}

static void running_out_of_descriptors_is_called_so(void **state) {
    const pw_site *site = PW_SITE("peerwin_win_alloc", "exchange", 2, PW_NONE);
    (void)state;
    assert_int_equal(pw_fail_errno(site, EMFILE, "recvmsg"), PEERWIN_ERR_NO_MEMORY);
    assert_error_has("descriptor");
    assert_error_has("EMFILE");
    assert_error_has("recvmsg");
    assert_error_has("rank 2");
    assert_int_equal(pw_fail_errno(site, ENFILE, "open"), PEERWIN_ERR_NO_MEMORY);
    assert_error_has("descriptor");
    assert_int_equal(pw_fail_errno(site, ETOOMANYREFS, "sendmsg"), PEERWIN_ERR_NO_MEMORY);
    assert_error_has("descriptor");
}

static void system_errors_keep_their_code_and_name(void **state) {
    const pw_site *site = PW_SITE("peerwin_init", NULL, 0, PW_NONE);
    (void)state;
    assert_int_equal(pw_fail_errno(site, ENOMEM, "mmap"), PEERWIN_ERR_NO_MEMORY);
    assert_error_has("mmap");
    assert_int_equal(pw_fail_errno(site, EPERM, "memfd_create"), PEERWIN_ERR_PERMISSION);
    assert_int_equal(pw_fail_errno(site, ENOSYS, "pidfd_open"), PEERWIN_ERR_UNSUPPORTED);
    assert_int_equal(pw_fail_errno(site, EXDEV, "rename"), PEERWIN_ERR_SYSTEM);
    assert_error_has("18");
}

static void *other_thread(void *argument) {
    (void)argument;
    int clean = peerwin_last_error()[0] == '\0';
    peerwin_status status = pw_fail(PEERWIN_ERR_ARG, PW_SITE("other", NULL, PW_NONE, PW_NONE), "thread");
    return clean && status == PEERWIN_ERR_ARG ? NULL : argument;
}

static void each_thread_has_its_own(void **state) {
    pthread_t thread;
    void *failed = NULL;
    (void)state;
    assert_int_equal(pw_fail(PEERWIN_ERR_ARG, PW_SITE("mine", NULL, PW_NONE, PW_NONE), "own"), PEERWIN_ERR_ARG);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &failed), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_string_equal(peerwin_last_error(), "mine: own");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_name_and_text),
        cmocka_unit_test(a_failure_names_call_stage_rank_and_peer),
        cmocka_unit_test(a_long_text_is_cut_and_ended),
        cmocka_unit_test(the_last_error_may_be_part_of_the_next),
        cmocka_unit_test(running_out_of_descriptors_is_called_so),
        cmocka_unit_test(system_errors_keep_their_code_and_name),
        cmocka_unit_test(each_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
