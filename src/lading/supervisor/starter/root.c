#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "calls.h"
#include "fault.h"

/* Targets are looked up below the root without leaving it: the image's links lead to its own files,
 * those of /proc nowhere. Nothing of the container runs yet, but files that it shares with another
 * container may change meanwhile. */

static void put_away(int file, const char *path) {
    if (close(file) < 0) fault("%s", path);
}

/* Finds a directory of a path, or makes it; its last name is at `name`. */
static int directory_in(int parent, int root, const char *prefix, const char *name) {
    int file = open_within(root, prefix, O_PATH | O_DIRECTORY, WITHIN_ROOT);
    if (file >= 0 || errno != ENOENT) return file;
    if (mkdirat(parent, name, 0755) < 0) return -1;
    return open_within(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, WITHOUT_LINKS);
}

/* Finds the file that a mount lies on, or makes it. */
static int target_in(int root, const char *path, int is_directory) {
    int file = open_within(root, path, O_PATH, WITHIN_ROOT);
    if (file >= 0) return file;
    if (errno != ENOENT) fault("%s", path);
    char prefix[PATH_MAX];
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof prefix) fault("%s", path);
    int parent = fcntl(root, F_DUPFD_CLOEXEC, 3);
    if (parent < 0) fault("%s", path);
    for (const char *name = path + strspn(path, "/"); *name;) {
        const char *end = name + strcspn(name, "/");
        const char *next = end + strspn(end, "/");
        memcpy(prefix, path, (size_t)(end - path));
        prefix[end - path] = '\0';
        const char *last = prefix + (name - path);
        int inner;
        if (*next || is_directory) {
            inner = directory_in(parent, root, prefix, last);
        } else {
            const int made = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
            if (made < 0) fault("%s", path);
            put_away(made, path);
            inner = open_within(parent, last, O_PATH | O_NOFOLLOW, WITHOUT_LINKS);
        }
        if (inner < 0) fault("%s", path);
        put_away(parent, path);
        parent = inner;
        name = next;
    }
    return parent;
}

static int is_directory(int file, const char *path) {
    struct stat status;
    if (fstat(file, &status) < 0) fault("%s", path);
    return S_ISDIR(status.st_mode);
}

/* Sets attributes of a mount that is nowhere yet, attaches it, and closes it. */
static void attach(int tree, int target, uint64_t attributes, const char *path) {
    if (set_attributes(tree, attributes) < 0 || attach_tree(tree, target) < 0) fault("%s", path);
    put_away(tree, path);
    put_away(target, path);
}

static void bind_file(int root, const char *source, const char *path, uint64_t attributes) {
    const int tree = copy_tree(source);
    if (tree < 0) fault("%s: %s", path, source);
    attach(tree, target_in(root, path, is_directory(tree, path)), attributes, path);
}

/* Sets the options "name=value,flag,..."; their text is changed. */
static int set_options(int context, const char *kind, char *options) {
    if (set_option(context, "source", kind) < 0) return -1;
    char *rest = options, *option;
    while ((option = strsep(&rest, ",")) != NULL) {
        if (*option == '\0') continue;
        char *value = strchr(option, '=');
        if (value != NULL) *value++ = '\0';
        if (set_option(context, option, value) < 0) return -1;
    }
    return 0;
}

/* Mounts a new file system. Returns 0 where this machine forbids it and the plan can do without. */
static int mount_new(int root, char *item) {
    char *path = field(item, 0), *kind = field(item, 1), *options = field(item, 2);
    /* Before the options are taken apart, which puts zero bytes into the record. */
    const uint64_t attributes = number_field(item, 3);
    const int may_fail = number_field(item, 4) != 0;
    const int context = new_file_system(kind);
    int mounted = -1;
    if (context >= 0 && set_options(context, kind, options) == 0)
        mounted = mount_file_system(context, attributes);
    if (mounted < 0) {
        if (!may_fail || (errno != EPERM && errno != EACCES && errno != ENODEV)) fault("%s", path);
        if (context >= 0) put_away(context, path);
        return 0;
    }
    put_away(context, path);
    const int target = target_in(root, path, 1);
    /* A link of the image would lead the kernel's files to another place than all programs expect. */
    const int itself = open_within(root, path, O_PATH | O_DIRECTORY, WITHIN_ROOT | WITHOUT_LINKS);
    if (itself < 0) fault("%s", path);
    put_away(itself, path);
    if (attach_tree(mounted, target) < 0) fault("%s", path);
    put_away(mounted, path);
    put_away(target, path);
    return 1;
}

static const struct {
    const char *path;
    unsigned major, minor;
} devices[] = {{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7}, {"/dev/tty", 5, 0}, {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}};

/* Directory of a device file, and its name in `name`. */
static int device_directory(int root, const char *path, const char **name) {
    char prefix[PATH_MAX];
    *name = strrchr(path, '/') + 1;
    const size_t length = (size_t)(*name - path);
    errno = ENAMETOOLONG;
    if (length >= sizeof prefix) fault("%s", path);
    memcpy(prefix, path, length);
    prefix[length] = '\0';
    return target_in(root, prefix, 1);
}

/* Makes a device file. Returns -1 where only the machine's root may. */
static int make_device(int root, const char *path, mode_t mode, dev_t device, uid_t user, gid_t group) {
    const char *name;
    const int directory = device_directory(root, path, &name);
    const int made = mknodat(directory, name, mode, device);
    if (made < 0 && errno == EPERM) {
        put_away(directory, path);
        return -1;
    }
    if (made < 0 || fchownat(directory, name, user, group, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(directory, name, mode & 07777, 0) < 0)
        fault("%s", path);
    put_away(directory, path);
    return 0;
}

static void make_devices(const struct plan *plan, int root) {
    const int is_mapped = first_record(plan, IDS) != NULL;
    for (size_t at = 0; at < sizeof devices / sizeof *devices; at++) {
        const char *path = devices[at].path;
        const dev_t device = makedev(devices[at].major, devices[at].minor);
        /* The root of a user namespace may make no device files. */
        if (is_mapped || make_device(root, path, S_IFCHR | 0666, device, 0, 0) < 0)
            bind_file(root, path, path, ATTRIBUTE_NO_SUID | ATTRIBUTE_NO_EXEC);
    }
    const struct list *more = records(plan, DEVICE);
    for (size_t at = 0; at < more->count; at++) {
        char *item = more->items[at];
        const mode_t kind = *field(item, 1) == 'b' ? S_IFBLK : S_IFCHR;
        const dev_t device = makedev((unsigned)number_field(item, 2), (unsigned)number_field(item, 3));
        if (make_device(root, item, kind | ((mode_t)number_field(item, 4) & 07777), device,
                (uid_t)number_field(item, 5), (gid_t)number_field(item, 6)) < 0)
            fault("%s", item);
    }
}

static void make_links(int root) {
    static const char *const links[][2] = {{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
        {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"/proc/kcore", "core"}, {"pts/ptmx", "ptmx"}};
    const int directory = target_in(root, "/dev", 1);
    for (size_t at = 0; at < sizeof links / sizeof *links; at++)
        if (symlinkat(links[at][0], directory, links[at][1]) < 0) fault("/dev/%s", links[at][1]);
    put_away(directory, "/dev");
}

/* Opens a file of the kernel; -1 where this kernel does not have it. */
static int kernel_file(int root, const char *path) {
    const int file = open_within(root, path, O_PATH, WITHIN_ROOT);
    if (file < 0 && errno != ENOENT && errno != ENOTDIR && errno != EACCES) fault("%s", path);
    return file;
}

/* One empty file system lies on all masked directories. */
static void mask(const struct plan *plan, int root) {
    int empty = -1;
    const struct list *masked = records(plan, MASKED);
    for (size_t at = 0; at < masked->count; at++) {
        const char *path = masked->items[at];
        const int target = kernel_file(root, path);
        if (target < 0) continue;
        if (!is_directory(target, path)) {
            const int null = copy_tree("/dev/null");
            if (null < 0) fault("%s: /dev/null", path);
            attach(null, target, ATTRIBUTE_READ_ONLY, path);
            continue;
        }
        int tree;
        if (empty < 0) {
            const int context = new_file_system("tmpfs");
            if (context < 0 || set_option(context, "source", "tmpfs") < 0 || set_option(context, "size", "0k") < 0 ||
                (tree = mount_file_system(context, ATTRIBUTE_READ_ONLY)) < 0)
                fault("%s", path);
            put_away(context, path);
            empty = fcntl(tree, F_DUPFD_CLOEXEC, 3);
            if (empty < 0) fault("%s", path);
        } else {
            tree = copy_open_tree(empty);
            if (tree < 0) fault("%s", path);
        }
        attach(tree, target, ATTRIBUTE_READ_ONLY, path);
    }
    if (empty >= 0) put_away(empty, "/proc");
}

static void protect(const struct plan *plan, int root) {
    const struct list *paths = records(plan, READ_ONLY);
    for (size_t at = 0; at < paths->count; at++) {
        const char *path = paths->items[at];
        const int target = kernel_file(root, path);
        if (target < 0) continue;
        const int tree = copy_open_tree(target);
        if (tree < 0) fault("%s", path);
        attach(tree, target, ATTRIBUTE_READ_ONLY, path);
    }
}

void enter_root(const struct plan *plan) {
    const char *path = first_record(plan, ROOT);
    umask(0);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) fault("private mounts");
    /* The root becomes a mount of this namespace alone, as pivot_root(2) asks. */
    const int root = copy_tree(path);
    const int target = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || target < 0 || attach_tree(root, target) < 0) fault("%s", path);
    put_away(target, path);
    const struct list *mounts = records(plan, MOUNT);
    for (size_t at = 0; at < mounts->count; at++) mount_new(root, mounts->items[at]);
    make_devices(plan, root);
    make_links(root);
    /* New directories of a path, as the root of the container makes them. */
    umask(022);
    const struct list *binds = records(plan, BIND);
    for (size_t at = 0; at < binds->count; at++)
        bind_file(root, field(binds->items[at], 1), binds->items[at], number_field(binds->items[at], 2));
    mask(plan, root);
    protect(plan, root);
    put_away(target_in(root, first_record(plan, DIRECTORY), 1), "the working directory");
    if (fchdir(root) < 0 || pivot_here() < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) fault("%s", path);
    put_away(root, path);
}
