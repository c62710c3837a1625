#define _GNU_SOURCE
#include "cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include "fault.h"

void join_cgroups(const struct plan *plan) {
    const struct list *files = records(plan, CGROUP);
    for (size_t at = 0; at < files->count; at++) {
        const char *path = files->items[at];
        const int file = open(path, O_WRONLY | O_CLOEXEC);
        /* 0 is the process itself, in `tasks` and in `cgroup.procs`. */
        if (file < 0 || write(file, "0", 1) != 1 || close(file) < 0) fault("%s", path);
    }
}
