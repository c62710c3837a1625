/* lading-start: makes a container by a plan and is its first process, or enters one.
 *
 *   lading-start run PLAN STATUS LOG    PLAN: a descriptor; STATUS, LOG: files that are made
 *   lading-start exec PLAN NUMBER       NUMBER: a file for the number of the command's process
 *   lading-start init REPORTS COMMAND   is the first process of a container of another program, and
 *                                       reports to a named pipe; -: only faults, to standard error
 *   lading-start check                  whether this kernel has all that is needed */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "descriptors.h"
#include "enter.h"
#include "fault.h"
#include "init.h"
#include "plan.h"
#include "run.h"
#include "sealed.h"

#define VERSION "lading-start 2"

static int check(void) {
    const char *lacking = lacking_call();
    if (lacking != NULL) {
        dprintf(2, "this kernel has no %s\n", lacking);
        return 1;
    }
    return dprintf(1, "%s\n", VERSION) > 0 ? 0 : 1;
}

static int new_file(const char *path, int flags) {
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (file < 0) fault("%s", path);
    return file;
}

static int plan_file(const char *text) { return descriptor_of(strtoul(text, NULL, 10)); }

int main(int count, char **arguments) {
    struct plan plan;
    if (count == 2 && strcmp(arguments[1], "check") == 0) return check();
    check_streams();
    if (count >= 4 && strcmp(arguments[1], "init") == 0) run_bare_init(arguments[2], arguments + 3);
    if (count == 5 && strcmp(arguments[1], "run") == 0) {
        const int log = new_file(arguments[4], 0);
        faults_to_log(log);
        seal_program(arguments);
        read_plan(&plan, plan_file(arguments[2]));
        return run_container(&plan, new_file(arguments[3], O_EXCL), log);
    }
    if (count == 4 && strcmp(arguments[1], "exec") == 0) {
        seal_program(arguments);
        read_plan(&plan, plan_file(arguments[2]));
        return enter_container(&plan, new_file(arguments[3], O_EXCL));
    }
    dprintf(2, "usage: lading-start run PLAN STATUS LOG | exec PLAN NUMBER | init REPORTS COMMAND | check\n");
    return NOT_STARTED;
}
