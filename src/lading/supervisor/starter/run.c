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

static volatile sig_atomic_t first_process;

static void open_loopback(void) {
    struct ifreq request = {.ifr_name = "lo"};
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) < 0 || close(any) < 0)
        fault("loopback interface");
}

/* The first process: makes everything, and waits at the gate with no more rights than the command.
 * The keeper permits it to begin when its ids are mapped, and gets its reports. */
_Noreturn static void be_first(struct plan *plan, int keeper) {
    int gate = first_record(plan, KEEP) != NULL ? -1 : descriptor_record(plan, GATE);
    keep_descriptors((int *[]){&keeper, &gate, NULL});
    faults_to_keeper(keeper);
    char letter;
    /* The keeper has told its own fault. */
    if (read_whole(keeper, &letter, 1) != 1) _exit(NOT_STARTED);
    hide_process();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) fault("signal of the parent's end");
    forget_arguments();
    become_owner(plan);
    if (unshare(CLONE_NEWIPC) < 0) fault("namespace of queues");
    if (join_new_keyring() < 0 && errno != ENOSYS) fault("session keyring");
    enter_root(plan);
    const char *name = first_record(plan, HOST_NAME);
    if (name != NULL && sethostname(name, strlen(name)) < 0) fault("host name");
    open_loopback();
    drop_rights(plan);
    complete_environment(plan);
    run_init(plan, keeper, gate);
}

static void write_process_file(pid_t pid, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    if (write_file(path, text) < 0) fault("%s", name);
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
    for (size_t at = 0; at < COUNT(heard); at++)
        if (sigaction(heard[at], &handled, NULL) < 0) fault("signal %d", heard[at]);
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) fault("signal %d", SIGPIPE);
}

/* Reads one report, of which everything may be wrong. Returns 0 at their end. */
static int read_report(int reports, struct report *report) {
    if (read_whole(reports, report, sizeof *report) != (ssize_t)sizeof *report) return 0;
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
    /* A message is one report, or the permission; here and in the container. */
    int here_there[2];
    sigset_t all, before;
    if (first_record(plan, ROOT) == NULL || first_record(plan, GATE) == NULL ||
        (first_record(plan, KEEP) == NULL) == (first_record(plan, ARGUMENT) == NULL))
        fault("the plan is incomplete");
    /* Whoever finds the file locked knows that its numbers are those of this container. */
    if (flock(status, LOCK_EX | LOCK_NB) < 0) fault("status file");
    join_cgroups(plan);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, here_there) < 0) fault("sockets");
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, &before) < 0) fault("signals");
    const unsigned long of_ids = first_record(plan, IDS) != NULL ? CLONE_NEWUSER : 0;
    const pid_t pid = fork_into(NAMESPACES | of_ids);
    if (pid < 0) fault("namespaces");
    if (pid == 0) be_first(plan, here_there[1]);
    first_process = pid;
    hear_signals();
    if (sigprocmask(SIG_SETMASK, &before, NULL) < 0) fault("signals");
    map_ids(plan, pid);
    hide_process();
    int first = here_there[0];
    int gate = first_record(plan, KEEP) != NULL ? descriptor_record(plan, GATE) : -1;
    if (tell(status, "pid", pid) < 0) fault("status file");
    tell_notice(plan, pid);
    keep_descriptors((int *[]){&log, &status, &first, &gate, NULL});
    faults_to_log(log);
    discard_plan(plan);
    if (write(first, "", 1) != 1) fault("permission");
    /* The streams are the command's alone: their end is its end. */
    if (close_from(0, FIRST_DESCRIPTOR - 1) < 0) fault("streams");
    return keep(pid, first, gate, status);
}
