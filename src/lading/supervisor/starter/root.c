#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Finds a file of the root, or makes it and the directories above it. The path is changed. */
static int find_or_make(int root, char *path, int is_directory) {
    for (size_t length = strlen(path); length > 0 && path[length - 1] == '/'; length--) path[length - 1] = '\0';
    const int present = open_within(root, *path ? path : ".", O_PATH, WITHIN_ROOT);
    if (present >= 0) return present;
    char *name = strrchr(path, '/');
    if (errno != ENOENT || name == NULL) fault("%s", path);
    *name++ = '\0';
    const int parent = find_or_make(root, path, 1);
    const int made = is_directory ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
    /* A link that leads nowhere is there, and is refused as a link. */
    const int file = made == 0 || errno == EEXIST ? open_within(parent, name, O_PATH | O_NOFOLLOW, WITHOUT_LINKS) : -1;
    if (file < 0) fault("%s/%s", path, name);
    put_away(parent, path);
    return file;
}

/* Finds the file that a mount lies on, or makes it. */
static int target_in(int root, const char *path, int is_directory) {
    char copy[PATH_MAX];
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof copy) fault("%s", path);
    return find_or_make(root, strcpy(copy, path), is_directory);
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
    const int tree = copy_tree(AT_FDCWD, source);
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

static void mount_new(int root, char *item) {
    char *path = field(item, 0), *kind = field(item, 1), *options = field(item, 2);
    /* Before the options are taken apart, which puts zero bytes into the record. */
    const uint64_t attributes = number_field(item, 3);
    const int context = new_file_system(kind);
    if (context < 0 || set_options(context, kind, options) < 0) fault("%s", path);
    const int mounted = mount_file_system(context, attributes), target = target_in(root, path, 1);
    if (mounted < 0) fault("%s", path);
    /* A link of the image would lead the kernel's files to another place than all programs expect. */
    const int itself = open_within(root, path, O_PATH | O_DIRECTORY, WITHIN_ROOT | WITHOUT_LINKS);
    if (itself < 0 || attach_tree(mounted, target) < 0) fault("%s", path);
    put_away(itself, path);
    put_away(context, path);
    put_away(mounted, path);
    put_away(target, path);
}

static const struct {
    const char *path;
    unsigned major, minor;
} devices[] = {{"/dev/null", 1, 3}, {"/dev/zero", 1, 5}, {"/dev/full", 1, 7}, {"/dev/tty", 5, 0}, {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}};

/* Makes a device file. Returns -1 where only the machine's root may. */
static int make_device(int root, const char *path, mode_t mode, dev_t device, uid_t user, gid_t group) {
    char prefix[PATH_MAX];
    const char *name = strrchr(path, '/') + 1;
    const int length = snprintf(prefix, sizeof prefix, "%.*s", (int)(name - path), path);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length >= sizeof prefix) fault("%s", path);
    const int directory = target_in(root, prefix, 1);
    const int made = mknodat(directory, name, mode, device);
    if ((made < 0 && errno != EPERM) ||
        (made == 0 && fchownat(directory, name, user, group, AT_SYMLINK_NOFOLLOW) < 0))
        fault("%s", path);
    put_away(directory, path);
    return made;
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

static int empty_directory(void) {
    const int context = new_file_system("tmpfs");
    if (context < 0 || set_option(context, "source", "tmpfs") < 0 || set_option(context, "size", "0k") < 0)
        fault("empty directory");
    const int tree = mount_file_system(context, ATTRIBUTE_READ_ONLY);
    put_away(context, "empty directory");
    return tree;
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
            const int null = copy_tree(AT_FDCWD, "/dev/null");
            if (null < 0) fault("%s: /dev/null", path);
            attach(null, target, ATTRIBUTE_READ_ONLY, path);
            continue;
        }
        const int tree = empty < 0 ? empty_directory() : copy_tree(empty, "");
        if (tree < 0 || attach_tree(tree, target) < 0) fault("%s", path);
        put_away(target, path);
        if (empty < 0)
            empty = tree;
        else
            put_away(tree, path);
    }
    if (empty >= 0) put_away(empty, "empty directory");
}

static void protect(const struct plan *plan, int root) {
    const struct list *paths = records(plan, READ_ONLY);
    for (size_t at = 0; at < paths->count; at++) {
        const char *path = paths->items[at];
        const int target = kernel_file(root, path);
        if (target < 0) continue;
        const int tree = copy_tree(target, "");
        if (tree < 0) fault("%s", path);
        attach(tree, target, ATTRIBUTE_READ_ONLY, path);
    }
}

void enter_root(const struct plan *plan) {
    const char *path = first_record(plan, ROOT);
    umask(0);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) fault("private mounts");
    /* The root becomes a mount of this namespace alone, as pivot_root(2) asks. */
    const int root = copy_tree(AT_FDCWD, path);
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
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) fault("%s", path);
    put_away(root, path);
}
