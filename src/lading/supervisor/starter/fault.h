/* Faults: one line of text, to a log or to the process that keeps the container. */
#pragma once

#include <stdint.h>

/* Exit code of this program when nothing was started. */
#define NOT_STARTED 125

enum report_kind { REPORT_READY = 1, REPORT_FAULT = 2, REPORT_ENDED = 3 };

/* A message from the container's first process. It is smaller than PIPE_BUF: each is written whole. */
struct report {
    int32_t kind;
    int32_t value;
    char text[504];
};

/* Faults are written as text to this descriptor, which has to stay open. */
void faults_to_log(int descriptor);

/* Faults are written as reports to this pipe. */
void faults_to_keeper(int pipe);

/* Faults end this process with this exit code instead of NOT_STARTED. */
void faults_end_with(int code);

/* Returns 0, also without a pipe (-1), or -1 with errno. */
int send_report(int pipe, enum report_kind kind, int32_t value);

/* Tells the fault, with the error of `errno` unless that is 0, and ends this process. */
_Noreturn void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
