/* Starting a container, and keeping it until its end. */
#pragma once

#include "plan.h"

/* Makes the container of a plan and waits for its end. Lines of JSON go to `status`, which is
 * locked as long as the container lives: the number of the first process, that it is ready to be
 * entered, and the exit code of the command. Returns that code, 128 and the signal for a
 * command that a signal ended. `log` stays open for faults. */
int run_container(struct plan *plan, int status, int log);
