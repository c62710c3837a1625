/* Open files of this process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Numbers of the standard streams and of the first descriptor after them. */
#define FIRST_DESCRIPTOR 3

/* Ends with a fault unless the three standard streams are open: a file that is opened later would
 * become one of them. */
void check_streams(void);

/* Gives these descriptors the numbers from FIRST_DESCRIPTOR on, to be closed with exec, and closes
 * all others beyond the standard streams; -1 stays -1. A null pointer is behind the last. */
void keep_descriptors(int *const descriptors[]);

/* Reads so many bytes, fewer only at the end. Returns their number, or -1 with errno. */
ssize_t read_whole(int file, void *bytes, size_t size);

/* Writes a text to a file that is there, by a single call. Returns 0, or -1 with errno. */
int write_file(const char *path, const char *text);

/* A descriptor from the plan. */
int descriptor_of(uint64_t number);
