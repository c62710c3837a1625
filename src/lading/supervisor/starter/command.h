/* Becoming the command. */
#pragma once

#include "plan.h"

/* Prepares variables of the command: HOME, by the container's /etc/passwd, unless it is set.
 * The plan's list of variables has room for one more. */
void complete_environment(const struct plan *plan);

/* Makes its own session, resets signals and becomes the command. Ends with a fault. */
_Noreturn void become_command(const struct plan *plan, int terminal);
