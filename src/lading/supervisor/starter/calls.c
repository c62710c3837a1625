#define _GNU_SOURCE
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers from 424 on are the same on all architectures. */
enum {
    OPEN_TREE = 428, MOVE_MOUNT = 429, FSOPEN = 430, FSCONFIG = 431, FSMOUNT = 432,
    PIDFD_OPEN = 434, CLOSE_RANGE = 436, OPENAT2 = 437, MOUNT_SETATTR = 442
};
/* AT_RECURSIVE, AT_EMPTY_PATH and OPEN_TREE_CLONE. */
enum { RECURSIVE = 0x8000, EMPTY_PATH = 0x1000, TREE_CLONE = 1 };
/* MOVE_MOUNT_F_EMPTY_PATH and MOVE_MOUNT_T_EMPTY_PATH. */
#define MOVE_BY_DESCRIPTORS (0x04 | 0x40)
/* FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC, and commands of fsconfig. */
#define CLOSE_ON_EXEC 1
enum { SET_FLAG = 0, SET_STRING = 1, CREATE = 6 };
/* KEYCTL_JOIN_SESSION_KEYRING. */
#define JOIN_SESSION_KEYRING 1
/* Look-ups that a rename elsewhere disturbed are tried again so many times. */
#define MOST_TRIES 128

int open_within(int directory, const char *path, int flags, uint64_t resolve) {
    /* Flags, mode, and how to resolve the path (struct open_how). */
    const uint64_t how[] = {(uint64_t)(flags | O_CLOEXEC), 0, resolve};
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        long file = syscall(OPENAT2, directory, path, how, sizeof how);
        if (file >= 0 || (errno != EAGAIN && errno != EINTR)) return (int)file;
    }
    return -1;
}

int copy_tree(int directory, const char *path) {
    const unsigned flags = TREE_CLONE | RECURSIVE | EMPTY_PATH | O_CLOEXEC;
    return (int)syscall(OPEN_TREE, directory, path, flags);
}

int set_attributes(int tree, uint64_t attributes) {
    /* Set, clear, propagation, and the user namespace (struct mount_attr). */
    const uint64_t change[] = {attributes, 0, MS_PRIVATE, 0};
    return (int)syscall(MOUNT_SETATTR, tree, "", EMPTY_PATH | RECURSIVE, change, sizeof change);
}

int attach_tree(int tree, int target) {
    return (int)syscall(MOVE_MOUNT, tree, "", target, "", MOVE_BY_DESCRIPTORS);
}

int mount_new(const char *kind, char *options, uint64_t attributes) {
    const int context = (int)syscall(FSOPEN, kind, CLOSE_ON_EXEC);
    char *rest = options, *option;
    if (context < 0 || syscall(FSCONFIG, context, SET_STRING, "source", kind, 0) < 0) return -1;
    while ((option = strsep(&rest, ",")) != NULL) {
        char *value = option;
        strsep(&value, "=");
        const int command = value != NULL ? SET_STRING : SET_FLAG;
        if (*option && syscall(FSCONFIG, context, command, option, value, 0) < 0) return -1;
    }
    if (syscall(FSCONFIG, context, CREATE, NULL, NULL, 0) < 0) return -1;
    const int tree = (int)syscall(FSMOUNT, context, CLOSE_ON_EXEC, attributes);
    return close(context) < 0 ? -1 : tree;
}

int close_from(unsigned first, unsigned last) {
    struct rlimit most;
    /* Linux 5.9 brought the call; containers of crun and of daemons run on older kernels, too. */
    if (syscall(CLOSE_RANGE, first, last, 0) == 0) return 0;
    if (errno != ENOSYS || getrlimit(RLIMIT_NOFILE, &most) < 0) return -1;
    for (rlim_t number = first; number <= last && number < most.rlim_cur; number++)
        if (close((int)number) < 0 && errno != EBADF) return -1;
    return 0;
}

pid_t fork_into(unsigned long namespaces) {
    return (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
}

int join_new_keyring(void) { return (int)syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL); }

int set_capabilities(uint64_t set) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct words[2] = {{0, 0, 0}, {0, 0, 0}};
    for (int word = 0; word < 2; word++)
        words[word].effective = words[word].permitted = (uint32_t)(set >> (32 * word));
    return (int)syscall(SYS_capset, &header, words);
}

int set_limit(unsigned resource, uint64_t most) {
    const uint64_t limit[2] = {most, most};
    return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}

int filter_calls(const void *program, unsigned short instructions) {
    struct sock_fprog filter = {instructions, (struct sock_filter *)(uintptr_t)program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

const char *lacking_call(void) {
    static const struct {
        long number;
        const char *name;
    } needed[] = {{OPEN_TREE, "open_tree"}, {MOVE_MOUNT, "move_mount"}, {FSOPEN, "fsopen"},
        {PIDFD_OPEN, "pidfd_open"}, {CLOSE_RANGE, "close_range"}, {OPENAT2, "openat2"},
        {MOUNT_SETATTR, "mount_setattr"}};
    for (size_t at = 0; at < COUNT(needed); at++)
        /* Arguments that every kernel refuses: the first of close_range is beyond the last. */
        if (syscall(needed[at].number, -1, 0, -1, 0, 0) < 0 && errno == ENOSYS)
            return needed[at].name;
    return NULL;
}
