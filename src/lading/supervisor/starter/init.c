#define _GNU_SOURCE
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "command.h"
#include "fault.h"

/* The line that opens the gate (engines.bundle.OPEN_LINE). */
#define OPEN_LINE "go\n"

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

static void notice(int number) { (void)number; }

/* Signals are blocked and waited for; the handlers show that this process hears them: the kernel
 * drops those of a first process that has none. */
static sigset_t heard_signals(void) {
    const struct sigaction handled = {.sa_handler = notice};
    sigset_t heard;
    sigemptyset(&heard);
    for (size_t at = 0; at < sizeof passed_on / sizeof *passed_on; at++) {
        sigaddset(&heard, passed_on[at]);
        if (sigaction(passed_on[at], &handled, NULL) < 0) fault("signal %d", passed_on[at]);
    }
    sigaddset(&heard, SIGTERM);
    sigaddset(&heard, SIGCHLD);
    if (sigaction(SIGTERM, &handled, NULL) < 0 || sigaction(SIGCHLD, &handled, NULL) < 0) fault("signals");
    return heard;
}

static void wait_at(int gate) {
    char line[sizeof OPEN_LINE - 1];
    size_t length = 0;
    while (length < sizeof line) {
        const ssize_t count = read(gate, line + length, sizeof line - length);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            if (count == 0) errno = 0;
            fault("the gate was not opened");
        }
        length += (size_t)count;
    }
    errno = 0;
    if (memcmp(line, OPEN_LINE, sizeof line) != 0) fault("the gate was not opened");
}

static pid_t start_command(const struct plan *plan) {
    /* Nothing is copied: this process waits until the other one has become the command. */
    const pid_t command = vfork();
    if (command < 0) fault("the command's process");
    if (command == 0) become_command(plan, -1);
    return command;
}

/* Returns 0 where nobody hears reports. */
static int tell(int keeper, enum report_kind kind, int value) {
    return keeper < 0 ? 0 : send_report(keeper, kind, value);
}

static void keep_only(int pipe) {
    if (pipe < 0) {
        if (close_from(0, ~0u, 0) < 0) fault("descriptors");
        return;
    }
    if (close_from(0, (unsigned)pipe - 1, 0) < 0 || close_from((unsigned)pipe + 1, ~0u, 0) < 0) fault("descriptors");
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/* Collects ended processes. `code` becomes that of the command. Returns whether any is left. */
static int collect(pid_t command, int keeper, int *code) {
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        if (ended == command) {
            *code = code_of(status);
            /* Without the keeper the kernel ends this process (PR_SET_PDEATHSIG). */
            if (tell(keeper, REPORT_ENDED, *code) < 0) _exit(*code);
        }
    return ended == 0;
}

_Noreturn void run_init(struct plan *plan, int keeper, int gate) {
    const sigset_t heard = heard_signals();
    const int is_kept = first_record(plan, KEEP) != NULL;
    if (tell(keeper, REPORT_READY, 0) < 0) fault("report");
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

static struct list list_of(char **items) {
    struct list list = {.items = items};
    while (items[list.count] != NULL) list.count++;
    return list;
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
    /* Nobody in the container may trace this process, or open what it has open. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fault("dumpable");
    plan.lists[ARGUMENT - 'A'] = list_of(arguments);
    plan.lists[ENVIRONMENT - 'A'] = list_of(environ);
    run_init(&plan, keeper, -1);
}
