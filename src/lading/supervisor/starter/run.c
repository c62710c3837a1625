#define _GNU_SOURCE
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "command.h"
#include "descriptors.h"
#include "fault.h"
#include "init.h"
#include "root.h"
#include "sealed.h"
#include "walls.h"

/* That of queues and shared memory is made later, so that it belongs to the container's root. */
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWNET)

/* The two processes: the keeper outside, and the first process of the container. */
struct link {
    int reports[2];   /* from the first process */
    int permission[2]; /* to the first process: its ids are mapped */
};

static volatile sig_atomic_t first_process;

static void open_loopback(void) {
    struct ifreq request = {.ifr_name = "lo"};
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) < 0 || close(any) < 0) fault("loopback interface");
}

/* The first process: makes everything, and waits at the gate with no more rights than the command. */
_Noreturn static void be_first(struct plan *plan, const struct link *link) {
    int keeper = link->reports[1], permission = link->permission[0], gate = -1;
    char *number = first_record(plan, GATE);
    if (number != NULL && first_record(plan, KEEP) == NULL) gate = descriptor_of(number_field(number, 0));
    int *const kept[] = {&keeper, &permission, &gate};
    keep_descriptors(kept, sizeof kept / sizeof *kept);
    faults_to_keeper(keeper);
    char letter;
    ssize_t count;
    while ((count = read(permission, &letter, 1)) < 0 && errno == EINTR) {}
    /* The keeper has told its own fault. */
    if (count != 1 || close(permission) < 0) _exit(NOT_STARTED);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fault("dumpable");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) fault("signal of the keeper's end");
    forget_arguments();
    become_owner(plan);
    if (unshare(CLONE_NEWIPC) < 0) fault("namespace of queues");
    if (join_new_keyring() < 0 && errno != ENOSYS) fault("session keyring");
    enter_root(plan);
    const char *name = first_record(plan, HOST_NAME);
    if (name != NULL && sethostname(name, strlen(name)) < 0) fault("host name");
    open_loopback();
    drop_rights(plan);
    /* Once more: a change of rights forgets it. A keeper that has ended since gets no report. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) fault("signal of the keeper's end");
    complete_environment(plan);
    run_init(plan, keeper, gate);
}

static void write_process_file(pid_t pid, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text) || close(file) < 0) fault("%s", name);
}

static void map_ids(const struct plan *plan, pid_t pid) {
    char *ids = first_record(plan, IDS);
    if (ids == NULL) return;
    if (first_record(plan, NO_GROUPS) != NULL) write_process_file(pid, "setgroups", "deny");
    write_process_file(pid, "uid_map", field(ids, 0));
    write_process_file(pid, "gid_map", field(ids, 1));
}

/* A line is written whole, at the end of the file: whoever reads it later never sees a part of it. */
static int tell(int file, const char *name, int value) {
    char line[64];
    const int length = snprintf(line, sizeof line, "{\"%s\":%d}\n", name, value);
    return write(file, line, (size_t)length) == length ? 0 : -1;
}

static void tell_notice(const struct plan *plan, pid_t pid) {
    const char *path = first_record(plan, NOTICE);
    if (path == NULL) return;
    const int file = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0 || tell(file, "pid", pid) < 0 || close(file) < 0) fault("notice");
}

static void pass_on(int number) {
    if (first_process > 0) kill((pid_t)first_process, number);
}

static void hear_signals(void) {
    static const int heard[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    const struct sigaction handled = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (size_t at = 0; at < sizeof heard / sizeof *heard; at++)
        if (sigaction(heard[at], &handled, NULL) < 0) fault("signal %d", heard[at]);
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    if (sigaction(SIGPIPE, &ignored, NULL) < 0) fault("signal %d", SIGPIPE);
}

/* Reads one report, of which everything may be wrong. Returns 0 at their end. */
static int read_report(int reports, struct report *report) {
    ssize_t count;
    while ((count = read(reports, report, sizeof *report)) < 0 && errno == EINTR) {}
    if (count != (ssize_t)sizeof *report) return 0;
    report->text[sizeof report->text - 1] = '\0';
    for (char *letter = report->text; *letter; letter++)
        if ((unsigned char)*letter < ' ') *letter = '?';
    return 1;
}

/* Waits for reports; a kept container ends when its gate is closed. */
static int wait_for_report(int reports, int gate, pid_t pid) {
    struct pollfd waited[] = {{.fd = reports, .events = POLLIN}, {.fd = gate, .events = POLLIN}};
    for (;;) {
        if (poll(waited, 2, -1) < 0) {
            if (errno == EINTR) continue;
            fault("poll");
        }
        if (waited[0].revents) return 1;
        if (waited[1].revents) {
            kill(pid, SIGKILL);
            waited[1].fd = -1;
        }
    }
}

static int keep(pid_t pid, int reports, int gate, int status) {
    struct report report;
    int code = -1;
    while (wait_for_report(reports, gate, pid) && read_report(reports, &report)) {
        if (report.kind == REPORT_READY) (void)tell(status, "ready", 1);
        if (report.kind == REPORT_ENDED && code < 0) code = report.value & 0xff;
        if (report.kind == REPORT_FAULT && code < 0) {
            /* The container has ended itself. */
            errno = 0;
            fault("%s", report.text);
        }
    }
    /* Not collected: its number is its own until this process has ended, and the lock of the status
     * file with it, so that who holds both enters no other process. */
    siginfo_t ended = {0};
    while (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) < 0)
        if (errno != EINTR) fault("the first process");
    if (code < 0) code = ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
    /* On a full disk the exit code still tells it to whoever waits. */
    (void)tell(status, "code", code);
    return code;
}

int run_container(struct plan *plan, int status, int log) {
    struct link link;
    sigset_t all, before;
    errno = EINVAL;
    if (first_record(plan, ROOT) == NULL || first_record(plan, GATE) == NULL ||
        (first_record(plan, KEEP) == NULL) == (first_record(plan, ARGUMENT) == NULL))
        fault("the plan is incomplete");
    /* Whoever finds the file locked knows that its numbers are those of this container. */
    if (flock(status, LOCK_EX | LOCK_NB) < 0) fault("status file");
    join_cgroups(plan);
    if (pipe2(link.reports, O_CLOEXEC) < 0 || pipe2(link.permission, O_CLOEXEC) < 0) fault("pipes");
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &before) < 0) fault("signals");
    const pid_t pid = fork_into(NAMESPACES | (first_record(plan, IDS) != NULL ? CLONE_NEWUSER : 0));
    if (pid < 0) fault("namespaces");
    if (pid == 0) be_first(plan, &link);
    first_process = pid;
    hear_signals();
    if (sigprocmask(SIG_SETMASK, &before, NULL) < 0) fault("signals");
    map_ids(plan, pid);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fault("dumpable");
    int reports = link.reports[0], permission = link.permission[1];
    int gate = first_record(plan, KEEP) != NULL ? descriptor_of(number_field(first_record(plan, GATE), 0)) : -1;
    if (tell(status, "pid", pid) < 0) fault("status file");
    tell_notice(plan, pid);
    int *const kept[] = {&log, &status, &reports, &permission, &gate};
    keep_descriptors(kept, sizeof kept / sizeof *kept);
    faults_to_log(log);
    discard_plan(plan);
    if (write(permission, "", 1) != 1 || close(permission) < 0) fault("permission");
    /* The streams are the command's alone: their end is its end. */
    if (close_from(0, FIRST_DESCRIPTOR - 1, 0) < 0) fault("streams");
    return keep(pid, reports, gate, status);
}
