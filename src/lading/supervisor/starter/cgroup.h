/* Control groups, which the supervisor has made. */
#ifndef LADING_CGROUP_H
#define LADING_CGROUP_H

#include "plan.h"

/* Moves this process into the groups of the plan. Ends with a fault. */
void join_cgroups(const struct plan *plan);

#endif
