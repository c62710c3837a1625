#define _GNU_SOURCE
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "command.h"
#include "descriptors.h"
#include "fault.h"
#include "walls.h"

/* The line that opens the gate (engines.bundle.OPEN_LINE). */
#define OPEN_LINE "go\n"

static void notice(int number) { (void)number; }

/* Signals are blocked and waited for; the handlers show that this process hears them: the kernel
 * drops those of a first process that has none. */
static sigset_t heard_signals(void) {
    static const int numbers[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTERM, SIGCHLD};
    const struct sigaction handled = {.sa_handler = notice};
    sigset_t heard;
    sigemptyset(&heard);
    for (size_t at = 0; at < COUNT(numbers); at++) {
        sigaddset(&heard, numbers[at]);
        if (sigaction(numbers[at], &handled, NULL) < 0) fault("signal %d", numbers[at]);
    }
    return heard;
}

static void wait_at(int gate) {
    char line[sizeof OPEN_LINE - 1];
    const ssize_t count = read_whole(gate, line, sizeof line);
    if (count >= 0) errno = 0;
    if (count != (ssize_t)sizeof line || memcmp(line, OPEN_LINE, sizeof line) != 0)
        fault("the gate was not opened");
}

static pid_t start_command(const struct plan *plan) {
    /* Nothing is copied: this process waits until the other one has become the command. */
    const pid_t command = vfork();
    if (command < 0) fault("the command's process");
    if (command == 0) become_command(plan, -1);
    return command;
}

static void keep_only(int pipe) {
    /* All others, or all where there is none. */
    if (pipe > 0 && close_from(0, (unsigned)pipe - 1) < 0) fault("descriptors");
    if (close_from((unsigned)(pipe + 1), ~0u) < 0) fault("descriptors");
}

/* Collects ended processes. `code` becomes that of the command. Returns whether any is left. */
static int collect(pid_t command, int keeper, int *code) {
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        if (ended == command) {
            *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            /* Without the keeper the kernel ends this process (PR_SET_PDEATHSIG). */
            if (send_report(keeper, REPORT_ENDED, *code) < 0) _exit(*code);
        }
    return ended == 0;
}

_Noreturn void run_init(struct plan *plan, int keeper, int gate) {
    const sigset_t heard = heard_signals();
    const int is_kept = first_record(plan, KEEP) != NULL;
    if (send_report(keeper, REPORT_READY, 0) < 0) fault("report");
    if (gate >= 0) wait_at(gate);
    const pid_t command = is_kept ? 0 : start_command(plan);
    keep_only(keeper);
    discard_plan(plan);
    int code = -1, is_stopping = 0;
    for (;;) {
        const int number = sigwaitinfo(&heard, NULL);
        if (number == SIGCHLD) {
            const int is_anyone_left = collect(command, keeper, &code);
            /* The end of the command ends all others, at once unless they were asked to end: then
             * they have the time that the supervisor gives them. */
            if (code >= 0 && !(is_stopping && is_anyone_left)) _exit(code);
        } else if (number == SIGTERM) {
            is_stopping = 1;
            /* There may be no process but this one. */
            kill(-1, SIGTERM);
        } else if (number > 0 && command > 0 && kill(-command, number) < 0) {
            /* Its session is made a moment after its start. */
            kill(command, number);
        }
    }
}

_Noreturn void run_bare_init(const char *reports, char **arguments) {
    struct plan plan = {.bytes = NULL};
    /* Signals wait until `run_init` takes them, also that of a command which ends at once. */
    sigset_t all;
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0) fault("signals");
    int keeper = -1;
    if (strcmp(reports, "-") != 0) {
        /* Without waiting: the command can fill the pipe, and must not stop this process by that. */
        keeper = open(reports, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
        if (keeper < 0) fault("%s", reports);
        faults_to_keeper(keeper);
    }
    hide_process();
    plan.lists[ARGUMENT - 'A'] = arguments;
    plan.lists[ENVIRONMENT - 'A'] = environ;
    run_init(&plan, keeper, -1);
}
