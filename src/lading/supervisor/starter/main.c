/* lading-start: makes a container by a plan and is its first process, or enters one.
 *
 *   lading-start run PLAN STATUS LOG    PLAN: a descriptor; STATUS, LOG: files that are made
 *   lading-start exec PLAN NUMBER       NUMBER: a file for the number of the command's process
 *   lading-start init REPORTS COMMAND   is the first process of a container of another program, and
 *                                       reports to a named pipe; -: only faults, to standard error
 *   lading-start check                  whether this kernel has all that is needed */
#define _GNU_SOURCE
#include <errno.h>
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

static int check(void) {
    const char *lacking = lacking_call();
    errno = 0;
    if (lacking != NULL) fault("this kernel has no %s", lacking);
    return dprintf(1, PLAN_MARK) > 0 ? 0 : 1;
}

static int new_file(const char *path, int flags) {
    const int always = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    const int file = open(path, always | flags, 0600);
    if (file < 0) fault("%s", path);
    return file;
}

int main(int count, char **arguments) {
    struct plan plan;
    if (count == 2 && strcmp(arguments[1], "check") == 0) return check();
    check_streams();
    if (count >= 4 && strcmp(arguments[1], "init") == 0) run_bare_init(arguments[2], arguments + 3);
    const int is_run = count == 5 && strcmp(arguments[1], "run") == 0;
    if (is_run || (count == 4 && strcmp(arguments[1], "exec") == 0)) {
        const int log = is_run ? new_file(arguments[4], 0) : 2;
        faults_to_log(log);
        seal_program(arguments);
        read_plan(&plan, descriptor_of(strtoul(arguments[2], NULL, 10)));
        const int file = new_file(arguments[3], O_EXCL);
        return is_run ? run_container(&plan, file, log) : enter_container(&plan, file);
    }
    dprintf(2, "usage: lading-start run PLAN STATUS LOG | exec PLAN NUMBER |"
               " init REPORTS COMMAND | check\n");
    return NOT_STARTED;
}
