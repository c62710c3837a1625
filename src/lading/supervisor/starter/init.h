/* The first process of a container: collects orphans and passes signals on. */
#ifndef LADING_INIT_H
#define LADING_INIT_H

#include "plan.h"

/* Starts the command and lives until it ends. `keeper` gets reports. It has the rights of the
 * command already, and afterwards no open file but the pipe. */
_Noreturn void run_init(struct plan *plan, int keeper, int gate);

#endif
