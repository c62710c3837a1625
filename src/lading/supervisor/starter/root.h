/* The container's view of files: its root, mounts, devices, and hidden files of the kernel. */
#pragma once

#include "plan.h"

/* Makes all of it in this process's own mount namespace, and makes it the root. Ends with a fault. */
void enter_root(const struct plan *plan);
