/* The first process of a container: collects orphans and passes signals on. */
#pragma once

#include "plan.h"

/* Starts the command when the gate opens, unless that is -1, and lives until the command ends.
 * `keeper` gets reports, unless it is -1. It has the rights of the command already, and afterwards no
 * open file but that one. */
_Noreturn void run_init(struct plan *plan, int keeper, int gate);

/* The same in a container that another program has made, such as crun or Docker's daemon. `reports`
 * is the path of a named pipe, of which the other end is open, or "-": then faults are lines of
 * standard error, and there are no other reports. `arguments` are those of the command, with a null
 * pointer behind the last. The environment is that of this process. */
_Noreturn void run_bare_init(const char *reports, char **arguments);
