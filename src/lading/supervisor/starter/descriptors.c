#define _GNU_SOURCE
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "calls.h"
#include "fault.h"

void check_streams(void) {
    for (int stream = 0; stream < FIRST_DESCRIPTOR; stream++)
        if (fcntl(stream, F_GETFD) < 0) fault("stream %d", stream);
}

void keep_descriptors(int *const descriptors[], size_t count) {
    /* First beyond all final numbers, so that none takes the place of another. */
    const int beyond = FIRST_DESCRIPTOR + (int)count;
    for (size_t at = 0; at < count; at++)
        if (*descriptors[at] >= 0) {
            *descriptors[at] = fcntl(*descriptors[at], F_DUPFD_CLOEXEC, beyond);
            if (*descriptors[at] < 0) fault("descriptors");
        }
    unsigned next = FIRST_DESCRIPTOR;
    for (size_t at = 0; at < count; at++)
        if (*descriptors[at] >= 0) {
            if (dup3(*descriptors[at], (int)next, O_CLOEXEC) < 0) fault("descriptors");
            *descriptors[at] = (int)next++;
        }
    if (close_from(next, ~0u, 0) < 0) fault("descriptors");
}

int descriptor_of(uint64_t number) {
    errno = EBADF;
    if (number > INT_MAX || fcntl((int)number, F_GETFD) < 0) fault("descriptor of the plan");
    return (int)number;
}
