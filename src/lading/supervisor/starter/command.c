#define _GNU_SOURCE
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptors.h"
#include "fault.h"

/* Bytes of the container's /etc/passwd that are read. */
#define MOST_ACCOUNTS 65536
/* Exit codes as a shell has them. */
#define NOT_EXECUTABLE 126
#define NOT_FOUND 127
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *variable(const struct plan *plan, const char *name) {
    const size_t length = strlen(name);
    for (char **item = records(plan, ENVIRONMENT); *item; item++)
        if (strncmp(*item, name, length) == 0 && (*item)[length] == '=') return *item + length + 1;
    return NULL;
}

/* Reads the container's accounts. It may be any file, which is opened without waiting for it. */
static size_t read_accounts(char *text, size_t room) {
    const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    ssize_t length = 0;
    if (file < 0) return 0;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) length = read_whole(file, text, room);
    if (close(file) < 0) fault("/etc/passwd");
    return length < 0 ? 0 : (size_t)length;
}

/* Finds the home of a user in lines of name:password:user:group:comment:home:shell. */
static const char *home_in(char *text, unsigned long user) {
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *fields[7], *at = line;
        int count = 0;
        while (count < 7 && (fields[count] = strsep(&at, ":")) != NULL) count++;
        if (count < 7 || *fields[2] < '0' || *fields[2] > '9' || *fields[5] != '/') continue;
        char *end;
        if (strtoul(fields[2], &end, 10) == user && *end == '\0') return fields[5];
    }
    return NULL;
}

void complete_environment(const struct plan *plan) {
    static char text[MOST_ACCOUNTS + 1], home[PATH_MAX + sizeof "HOME="];
    if (variable(plan, "HOME") != NULL) return;
    text[read_accounts(text, MOST_ACCOUNTS)] = '\0';
    const char *directory = home_in(text, number_field(first_record(plan, USER), 0));
    if (directory == NULL || strlen(directory) >= PATH_MAX) directory = "/";
    snprintf(home, sizeof home, "HOME=%s", directory);
    char **next = records(plan, ENVIRONMENT);
    while (*next) next++;
    *next = home;
}

static void reset_signals(void) {
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        /* KILL and STOP, and numbers that the C library uses itself. */
        if (sigaction(number, &usual, NULL) < 0 && errno != EINVAL) fault("signal %d", number);
    sigset_t none;
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0) fault("signals");
}

/* Starts the program by the container's PATH. Returns when no directory has it, with errno. */
static void search(const struct plan *plan, char **arguments) {
    const char *path = variable(plan, "PATH");
    char program[PATH_MAX];
    int number = ENOENT;
    for (path = path ? path : USUAL_PATH; *path;) {
        const size_t length = strcspn(path, ":");
        const int count =
            snprintf(program, sizeof program, "%.*s/%s", (int)length, path, arguments[0]);
        path += length + (path[length] == ':');
        if (length == 0 || count < 0 || (size_t)count >= sizeof program) continue;
        execve(program, arguments, records(plan, ENVIRONMENT));
        /* A directory that the user may not enter has no program for it. */
        if (errno == EACCES)
            number = access(program, F_OK) == 0 ? EACCES : number;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
            return;
    }
    errno = number;
}

_Noreturn void become_command(const struct plan *plan, int terminal) {
    char **arguments = records(plan, ARGUMENT);
    if (setsid() < 0) fault("session");
    if (terminal >= 0 && ioctl(terminal, TIOCSCTTY, 0) < 0) fault("terminal");
    reset_signals();
    const int is_path = strchr(arguments[0], '/') != NULL;
    errno = ENOENT;
    if (is_path)
        execve(arguments[0], arguments, records(plan, ENVIRONMENT));
    else if (*arguments[0] != '\0')
        search(plan, arguments);
    faults_end_with(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
    const int is_absent = errno == ENOENT && !is_path;
    const char *refusal = is_absent ? "not found in $PATH" : "cannot be run";
    fault("executable file `%s` %s", arguments[0], refusal);
}
