/* The limits and the rights of the command and of the container's first process. */
#pragma once

#include "plan.h"

/* Moves this process into the control groups of the plan, which the supervisor has made. */
void join_cgroups(const struct plan *plan);

/* From now on nobody in the container may trace this process, or open what it has open. */
void hide_process(void);

/* Becomes the root of the user namespace, if the plan has one. */
void become_owner(const struct plan *plan);

/* Gives this process the filter of system calls, the working directory, the limits, the user and the
 * rights of the command; it ends with its parent. Its descriptors 0 to 2 become the user's. */
void drop_rights(const struct plan *plan);
