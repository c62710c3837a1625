#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
    for (char *end = path + strlen(path); end > path && end[-1] == '/';) *--end = '\0';
    const int present = open_within(root, *path ? path : ".", O_PATH, WITHIN_ROOT);
    if (present >= 0) return present;
    char *name = strrchr(path, '/');
    if (errno != ENOENT || name == NULL) fault("%s", path);
    *name++ = '\0';
    const int parent = find_or_make(root, path, 1);
    const int made =
        is_directory ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
    if (made < 0 && errno != EEXIST) fault("%s/%s", path, name);
    /* A link that leads nowhere is there, and is refused as a link. */
    const int file = open_within(parent, name, O_PATH | O_NOFOLLOW, WITHOUT_LINKS);
    if (file < 0) fault("%s/%s", path, name);
    put_away(parent, path);
    return file;
}

/* Finds the file at the first bytes of a path, or makes it. */
static int target_in(int root, const char *path, size_t length, int is_directory) {
    char copy[PATH_MAX];
    errno = ENAMETOOLONG;
    if (length >= sizeof copy) fault("%s", path);
    memcpy(copy, path, length);
    copy[length] = '\0';
    return find_or_make(root, copy, is_directory);
}

static int is_directory(int file, const char *path) {
    struct stat status;
    if (fstat(file, &status) < 0) fault("%s", path);
    return S_ISDIR(status.st_mode);
}

/* Sets attributes of a mount that is nowhere yet, attaches it, and closes its target. */
static void attach(int tree, int target, uint64_t attributes, const char *path) {
    if (set_attributes(tree, attributes) < 0 || attach_tree(tree, target) < 0) fault("%s", path);
    put_away(target, path);
}

static void bind_file(int root, const char *source, const char *path, uint64_t attributes) {
    const int tree = copy_tree(AT_FDCWD, source);
    if (tree < 0) fault("%s: %s", path, source);
    attach(tree, target_in(root, path, strlen(path), is_directory(tree, path)), attributes, path);
    put_away(tree, path);
}

static void mount_at(int root, char *path) {
    /* The attributes are first: mounting takes the options apart, and puts zero bytes into them. */
    const uint64_t attributes = number_field(path, 3);
    const int tree = mount_new(field(path, 1), field(path, 2), attributes);
    if (tree < 0) fault("%s", path);
    const int target = target_in(root, path, strlen(path), 1);
    /* A link of the image would lead the kernel's files to another place than programs expect. */
    const int itself = open_within(root, path, O_PATH | O_DIRECTORY, WITHIN_ROOT | WITHOUT_LINKS);
    if (itself < 0 || attach_tree(tree, target) < 0) fault("%s", path);
    put_away(itself, path);
    put_away(tree, path);
    put_away(target, path);
}

/* Makes device files, or binds those of the machine where only its root may make them. */
static void make_devices(const struct plan *plan, int root) {
    for (char **item = records(plan, DEVICE); *item; item++) {
        const char *path = *item, *name = strrchr(path, '/') + 1;
        const mode_t kind = *field(*item, 1) == 'b' ? S_IFBLK : S_IFCHR;
        const mode_t mode = kind | ((mode_t)number_field(*item, 4) & 07777);
        const unsigned major = (unsigned)number_field(*item, 2);
        const unsigned minor = (unsigned)number_field(*item, 3);
        const uid_t user = (uid_t)number_field(*item, 5);
        const gid_t group = (gid_t)number_field(*item, 6);
        const int directory = target_in(root, path, (size_t)(name - path), 1);
        if (mknodat(directory, name, mode, makedev(major, minor)) == 0) {
            if (fchownat(directory, name, user, group, AT_SYMLINK_NOFOLLOW) < 0) fault("%s", path);
        } else {
            /* The root of a user namespace may make no device files. */
            if (errno != EPERM) fault("%s", path);
            bind_file(root, path, path, ATTRIBUTE_NO_SUID | ATTRIBUTE_NO_EXEC);
        }
        put_away(directory, path);
    }
}

static void make_links(int root) {
    static const char *const links[][2] = {{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
        {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}, {"/proc/kcore", "core"},
        {"pts/ptmx", "ptmx"}};
    const int directory = target_in(root, "/dev", sizeof "/dev" - 1, 1);
    for (size_t at = 0; at < COUNT(links); at++)
        if (symlinkat(links[at][0], directory, links[at][1]) < 0) fault("/dev/%s", links[at][1]);
    put_away(directory, "/dev");
}

/* Covers files of the kernel: a masked one appears empty, another is the same but cannot be written.
 * One empty file system lies on all masked directories. */
static void cover(const struct plan *plan, int root, enum record letter) {
    int empty = -1, tree;
    char size[] = "size=0k";
    for (char **path = records(plan, letter); *path; path++) {
        const int target = open_within(root, *path, O_PATH, WITHIN_ROOT);
        /* This kernel does not have it. */
        if (target < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) continue;
        if (target < 0) fault("%s", *path);
        if (letter == READ_ONLY)
            tree = copy_tree(target, "");
        else if (!is_directory(target, *path))
            tree = copy_tree(AT_FDCWD, "/dev/null");
        else if (empty >= 0)
            tree = copy_tree(empty, "");
        else
            tree = empty = mount_new("tmpfs", size, ATTRIBUTE_READ_ONLY);
        if (tree < 0) fault("%s", *path);
        attach(tree, target, ATTRIBUTE_READ_ONLY, *path);
        if (tree != empty) put_away(tree, *path);
    }
    if (empty >= 0) put_away(empty, "empty directory");
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
    for (char **item = records(plan, MOUNT); *item; item++) mount_at(root, *item);
    make_devices(plan, root);
    make_links(root);
    /* New directories of a path, as the root of the container makes them. */
    umask(022);
    for (char **item = records(plan, BIND); *item; item++)
        bind_file(root, field(*item, 1), *item, number_field(*item, 2));
    cover(plan, root, MASKED);
    cover(plan, root, READ_ONLY);
    const char *directory = first_record(plan, DIRECTORY);
    put_away(target_in(root, directory, strlen(directory), 1), "the working directory");
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        fault("%s", path);
    put_away(root, path);
}
