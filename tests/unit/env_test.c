/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The environment: every valid value is taken, everything else is refused with the variable, the value and what is
 * valid.
 */
#include <stdlib.h>

#include "base/env.h"
#include "unit/unit.h"

static const pw_site site = {.call = "peerwin_init", .stage = NULL, .rank = 1, .peer = PW_NONE};

static int clear_all(void **state) {
    (void)state;
    for (int i = 0; pw_env_row(i) != NULL; i++) {
        unsetenv(pw_env_row(i)->name);
    }
    return 0;
}

static pw_env read_with(const char *name, const char *value) {
    pw_env env = {0};
    setenv(name, value, 1);
    if (pw_env_read(&site, &env) != PEERWIN_OK) {
        fail_msg("%s=%s was refused: %s", name, value, peerwin_last_error());
    }
    unsetenv(name);
    return env;
}

static void check_refused(const char *name, const char *value, peerwin_status status) {
    pw_env env = {.set = 4711};
    setenv(name, value, 1);
    peerwin_status got = pw_env_read(&site, &env);
    unsetenv(name);
    if (got != status) {
        fail_msg("%s=%s: got %d, want %d", name, value, (int)got, (int)status);
    }
    assert_int_equal(env.set, 4711);
    assert_error_has(name);
    assert_error_has(value);
    assert_error_has("rank 1");
}

static void nothing_set_means_defaults(void **state) {
    pw_env env = {0};
    (void)state;
    assert_int_equal(pw_env_read(&site, &env), PEERWIN_OK);
    assert_int_equal(env.set, 0);
    assert_int_equal(env.log, PW_LOG_WARN);
    assert_int_equal(env.verify, 1);
    assert_int_equal(env.halo_pack, PW_HALO_PACK_AUTO);
}

static void an_empty_value_is_no_value(void **state) {
    (void)state;
    assert_int_equal(read_with("PEERWIN_SPACE", "").set, 0);
    assert_int_equal(read_with("PEERWIN_TIMEOUT", "").set, 0);
}

static void valid_values_are_taken(void **state) {
    (void)state;
    assert_int_equal(read_with("PEERWIN_SPACE", "host").space, PEERWIN_SPACE_HOST);
    assert_int_equal(read_with("PEERWIN_SPACE", "cuda").space, PEERWIN_SPACE_CUDA);
    assert_int_equal(read_with("PEERWIN_HANDLES", "fd").handles, PEERWIN_HANDLE_FD);
    assert_int_equal(read_with("PEERWIN_HANDLES", "host,pool,fabric,legacy,fd").handles, 31);
    assert_int_equal(read_with("PEERWIN_BARRIER", "memop").barrier, PEERWIN_BARRIER_MEMOP);
    assert_int_equal(read_with("PEERWIN_DEVICE", "spread").device, PEERWIN_DEVICE_SPREAD);
    assert_int_equal(read_with("PEERWIN_DEVICE", "3").device, PEERWIN_DEVICE(3));
    assert_int_equal(read_with("PEERWIN_TIMEOUT", "2.5").timeout_ms, 2500);
    assert_int_equal(read_with("PEERWIN_TIMEOUT", "0.001").timeout_ms, 1);
    assert_int_equal(read_with("PEERWIN_TIMEOUT", "-1").timeout_ms, -1);
    assert_int_equal(read_with("PEERWIN_TIMEOUT", "1000000").timeout_ms, 1000000000);
    assert_int_equal(read_with("PEERWIN_STRICT", "1").strict, 1);
    assert_int_equal(read_with("PEERWIN_VERIFY", "0").verify, 0);
    assert_int_equal(read_with("PEERWIN_LOG", "debug").log, PW_LOG_DEBUG);
    assert_int_equal(read_with("PEERWIN_NODE_RANKS", "1000000").node_ranks, 1000000);
    assert_int_equal(read_with("PEERWIN_HALO_PACK", "auto").halo_pack, PW_HALO_PACK_AUTO);
    assert_int_equal(read_with("PEERWIN_HALO_PACK", "always").halo_pack, PW_HALO_PACK_ALWAYS);
    assert_int_equal(read_with("PEERWIN_HALO_PACK", "never").halo_pack, PW_HALO_PACK_NEVER);
    assert_string_equal(read_with("PEERWIN_SOCKET_DIR", "/tmp").socket_dir, "/tmp");
    assert_int_equal(read_with("PEERWIN_NODE_RANKS", "4").set, PW_ENV_NODE_RANKS);
}

static void everything_else_is_refused(void **state) {
    static const char *const rows[][2] = {
        {"PEERWIN_SPACE", "Host"},      {"PEERWIN_SPACE", "auto,host"},    {"PEERWIN_HANDLES", "fd,"},
        {"PEERWIN_HANDLES", ",fd"},     {"PEERWIN_HANDLES", "fd legacy"},  {"PEERWIN_HANDLES", "fabricfabricfabric"},
        {"PEERWIN_BARRIER", "auto"},    {"PEERWIN_DEVICE", "-1"},          {"PEERWIN_DEVICE", "1.5"},
        {"PEERWIN_DEVICE", "gpu0"},     {"PEERWIN_TIMEOUT", "0"},          {"PEERWIN_TIMEOUT", "-0.5"},
        {"PEERWIN_TIMEOUT", "1000001"}, {"PEERWIN_TIMEOUT", "inf"},        {"PEERWIN_TIMEOUT", "nan"},
        {"PEERWIN_TIMEOUT", "3 s"},     {"PEERWIN_TIMEOUT", "1e400"},      {"PEERWIN_STRICT", "2"},
        {"PEERWIN_STRICT", "true"},     {"PEERWIN_VERIFY", "-1"},          {"PEERWIN_LOG", "WARN"},
        {"PEERWIN_NODE_RANKS", "0"},    {"PEERWIN_NODE_RANKS", "1000001"}, {"PEERWIN_NODE_RANKS", "4294967297"},
        {"PEERWIN_NODE_RANKS", "two"},  {"PEERWIN_SOCKET_DIR", "tmp"},     {"PEERWIN_HALO_PACK", "1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_refused(rows[i][0], rows[i][1], PEERWIN_ERR_ARG);
        assert_error_has("valid");
    }
}

static void a_long_directory_is_refused(void **state) {
    char path[200];
    (void)state;
    memset(path, 'd', sizeof(path));
    path[0] = '/';
    path[199] = '\0';
    pw_env env = {0};
    setenv("PEERWIN_SOCKET_DIR", path, 1);
    assert_int_equal(pw_env_read(&site, &env), PEERWIN_ERR_ARG);
    assert_error_has("PEERWIN_SOCKET_DIR");
    assert_error_has("absolute");
    unsetenv("PEERWIN_SOCKET_DIR");
}

/* However long the value is, the sentence still tells what would be valid. */
static void a_very_long_value_does_not_push_the_hint_out(void **state) {
    char value[5000];
    pw_env env = {0};
    (void)state;
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    setenv("PEERWIN_LOG", value, 1);
    assert_int_equal(pw_env_read(&site, &env), PEERWIN_ERR_ARG);
    assert_error_has("PEERWIN_LOG");
    assert_error_has("debug");
    unsetenv("PEERWIN_LOG");
}

static void what_is_not_there_yet_is_unsupported(void **state) {
    (void)state;
    check_refused("PEERWIN_TRACE", "trace.json", PEERWIN_ERR_UNSUPPORTED);
    check_refused("PEERWIN_STATS", "stats.json", PEERWIN_ERR_UNSUPPORTED);
}

static void every_variable_has_help(void **state) {
    int count = 0;
    (void)state;
    for (; pw_env_row(count) != NULL; count++) {
        assert_memory_equal(pw_env_row(count)->name, "PEERWIN_", 8);
        assert_true(strlen(pw_env_row(count)->values) > 0);
        assert_true(strlen(pw_env_row(count)->help) > 10);
    }
    assert_int_equal(count, 14);
    assert_null(pw_env_row(-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_set_means_defaults, clear_all),
        cmocka_unit_test_setup(an_empty_value_is_no_value, clear_all),
        cmocka_unit_test_setup(valid_values_are_taken, clear_all),
        cmocka_unit_test_setup(everything_else_is_refused, clear_all),
        cmocka_unit_test_setup(a_long_directory_is_refused, clear_all),
        cmocka_unit_test_setup(a_very_long_value_does_not_push_the_hint_out, clear_all),
        cmocka_unit_test_setup(what_is_not_there_yet_is_unsupported, clear_all),
        cmocka_unit_test_setup(every_variable_has_help, clear_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
