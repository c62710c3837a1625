#define _GNU_SOURCE
#include "walls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "calls.h"
#include "descriptors.h"
#include "fault.h"

/* Capabilities have numbers below this one (linux/capability.h). */
#define MOST_CAPABILITIES 64
#define MOST_GROUPS 1024
#define INSTRUCTION 8

void join_cgroups(const struct plan *plan) {
    /* 0 is the process itself, in `tasks` and in `cgroup.procs`. */
    for (char **path = records(plan, CGROUP); *path; path++)
        if (write_file(*path, "0") < 0) fault("%s", *path);
}

static void set_user(uid_t user, gid_t group) {
    if (setresgid(group, group, group) < 0) fault("group %u", group);
    if (setresuid(user, user, user) < 0) fault("user %u", user);
}

void become_owner(const struct plan *plan) {
    if (first_record(plan, IDS) == NULL) return;
    if (first_record(plan, NO_GROUPS) == NULL && setgroups(0, NULL) < 0) fault("groups");
    set_user(0, 0);
}

void hide_process(void) {
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) fault("dumpable");
}

static void set_limits(const struct plan *plan) {
    for (char **item = records(plan, LIMIT); *item; item++)
        if (set_limit((unsigned)number_field(*item, 0), number_field(*item, 1)) < 0)
            fault("limit %s", *item);
}

static void set_groups(const struct plan *plan) {
    if (first_record(plan, NO_GROUPS) != NULL) return;
    gid_t groups[MOST_GROUPS];
    size_t count = 0;
    for (char **item = records(plan, GROUP); *item && count < COUNT(groups); item++)
        groups[count++] = (gid_t)number_field(*item, 0);
    if (setgroups(count, groups) < 0) fault("groups");
}

/* A command of another user can open its streams again by /dev/stdout and the like. The machine's
 * null device is not given away: the container has its own, or one that it cannot change. */
static void give_streams(uid_t user, gid_t group) {
    struct stat status;
    int null = -1;
    for (int stream = 0; stream < FIRST_DESCRIPTOR; stream++) {
        if (fstat(stream, &status) < 0) fault("stream %d", stream);
        if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)) {
            if (null < 0) null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
            if (null < 0 || dup2(null, stream) < 0) fault("/dev/null");
        }
        /* Pipes of the supervisor, and files of read-only mounts, keep their owners. */
        if (fchown(stream, user, group) < 0 && errno != EPERM && errno != EROFS &&
            errno != EINVAL && errno != EBADF)
            fault("stream %d", stream);
    }
    if (null >= 0 && close(null) < 0) fault("/dev/null");
}

/* Changes the directory; whether it could. */
static int change_directory(const char *path) {
    char reached[PATH_MAX];
    if (chdir(path) < 0) return 0;
    /* A directory outside of the root has no path. */
    if (getcwd(reached, sizeof reached) == NULL || reached[0] != '/') {
        errno = 0;
        fault("chdir to %s: it has no path in the container", path);
    }
    return 1;
}

static void filter_system_calls(const struct plan *plan) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fault("no_new_privs");
    const unsigned short instructions = (unsigned short)(plan->filter_size / INSTRUCTION);
    if (filter_calls(first_record(plan, FILTER), instructions) < 0) fault("seccomp");
}

void drop_rights(const struct plan *plan) {
    char *account = first_record(plan, USER);
    const char *directory = first_record(plan, DIRECTORY);
    const uid_t user = (uid_t)number_field(account, 0);
    const gid_t group = (gid_t)number_field(account, 1);
    const uint64_t capabilities = number_field(first_record(plan, CAPABILITIES), 0);
    umask(022);
    /* The filter is first: it refuses nothing of the rest, and no moment is without it in which
     * this process has the user of others in the container. */
    filter_system_calls(plan);
    set_limits(plan);
    for (unsigned long number = 0; number < MOST_CAPABILITIES; number++)
        if (!(capabilities >> number & 1) && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0) {
            /* Numbers that this kernel does not have. */
            if (errno == EINVAL) break;
            fault("capability %lu", number);
        }
    set_groups(plan);
    give_streams(user, group);
    /* Root may enter a directory that the user may not, and the other way round. */
    const int has_entered = change_directory(directory);
    set_user(user, group);
    if (!has_entered && !change_directory(directory)) fault("chdir to %s", directory);
    /* After the change of user, which decides this anew. Nobody in the container may trace this
     * process or open what it has open: it has more rights than the command until the next lines. */
    hide_process();
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) fault("ambient capabilities");
    /* What a program of another user than root gets at its start: none. */
    if (set_capabilities(user == 0 ? capabilities : 0) < 0) fault("capabilities");
    /* A change of rights forgets it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) fault("signal of the parent's end");
}
