/* Running a command beside that of a container. */
#pragma once

#include "plan.h"

/* Runs the command of a plan in the namespaces of its process and waits for the end. Its number is
 * written to `number`, a file. Returns its exit code as a shell shows it. */
int enter_container(struct plan *plan, int number);
