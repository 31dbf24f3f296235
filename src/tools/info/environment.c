/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of variables; see environment.h. Values are looked up as the library does it.
 */
#define _GNU_SOURCE
#include "environment.h"

#include "base/env.h"

#include <stdlib.h>

static const char *value_of(const pw_env_help *row) {
    const char *value = secure_getenv(row->name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *environment_problem(void) {
    pw_env env;
    const pw_site site = {.call = "peerwin_init", .rank = PW_NONE, .peer = PW_NONE};
    return pw_env_read(&site, &env) == PEERWIN_OK ? NULL : peerwin_last_error();
}

void environment_list(const char *problem) {
    printf("Environment variables of peerwin %d.%d.%d; they override the options of the program.\n",
           PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH);
    const pw_env_help *row;
    for (int i = 0; (row = pw_env_row(i)) != NULL; i++) {
        const char *value = value_of(row);
        printf("\n%s\n  %s\n  valid: %s\n  now:   %s\n", row->name, row->help, row->values,
               value != NULL ? value : "not set");
    }
    if (problem != NULL)
        printf("\nnot valid: %s\n", problem);
}

void environment_print(void) {
    int set = 0;
    printf("\nenvironment (all variables: peerwin-info --env)\n");
    const pw_env_help *row;
    for (int i = 0; (row = pw_env_row(i)) != NULL; i++) {
        const char *value = value_of(row);
        if (value == NULL)
            continue;
        printf("  %-24s %s\n", row->name, value);
        set++;
    }
    if (set == 0)
        printf("  nothing is set\n");
}

void environment_write(json *j) {
    json_open(j, "environment", '[');
    const pw_env_help *row;
    for (int i = 0; (row = pw_env_row(i)) != NULL; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", row->name);
        json_text(j, "values", row->values);
        json_text(j, "help", row->help);
        json_text(j, "value", value_of(row));
        json_close(j, '}');
    }
    json_close(j, ']');
}
