/* Open files of this process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Numbers of the standard streams and of the first descriptor after them. */
#define FIRST_DESCRIPTOR 3

/* Ends with a fault unless the three standard streams are open: a file that is opened later would
 * become one of them. */
void check_streams(void);

/* Gives these descriptors the numbers from FIRST_DESCRIPTOR on, to be closed with exec, and closes
 * all others beyond the standard streams; -1 stays -1. */
void keep_descriptors(int *const descriptors[], size_t count);

/* A descriptor from the plan. */
int descriptor_of(uint64_t number);
