#define _GNU_SOURCE
#include "fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int log_descriptor = 2, keeper = -1, exit_code = NOT_STARTED;

void faults_to_log(int descriptor) {
    log_descriptor = descriptor;
    keeper = -1;
}

void faults_to_keeper(int pipe) { keeper = pipe; }

void faults_end_with(int code) { exit_code = code; }

int send_report(int pipe, enum report_kind kind, int32_t value) {
    struct report report = {.kind = (int32_t)kind, .value = value};
    return pipe < 0 || write(pipe, &report, sizeof report) == (ssize_t)sizeof report ? 0 : -1;
}

_Noreturn void fault(const char *format, ...) {
    struct report report = {.kind = REPORT_FAULT};
    const int number = errno;
    va_list values;
    va_start(values, format);
    /* Room is left for the error and the end of the line. */
    vsnprintf(report.text, sizeof report.text - 100, format, values);
    va_end(values);
    char *end = report.text + strlen(report.text);
    if (number != 0) snprintf(end, 99, ": %s", strerror(number));
    ssize_t written;
    if (keeper >= 0) {
        written = write(keeper, &report, sizeof report);
    } else {
        const size_t length = strlen(report.text);
        report.text[length] = '\n';
        written = write(log_descriptor, report.text, length + 1);
    }
    /* The exit code is all that is left when the fault cannot be written. */
    (void)written;
    _exit(exit_code);
}
