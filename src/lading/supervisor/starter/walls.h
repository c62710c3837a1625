/* The rights of the command and of the container's first process. */
#ifndef LADING_WALLS_H
#define LADING_WALLS_H

#include "plan.h"

/* Becomes the user that makes the root's files, in a user namespace of its own. */
void become_owner(const struct plan *plan);

/* Gives this process the filter of system calls, the working directory, the limits, the user and the
 * rights of the command. Its descriptors 0 to 2 become the user's. */
void drop_rights(const struct plan *plan);

#endif
