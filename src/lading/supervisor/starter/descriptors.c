#define _GNU_SOURCE
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "fault.h"

void check_streams(void) {
    for (int stream = 0; stream < FIRST_DESCRIPTOR; stream++)
        if (fcntl(stream, F_GETFD) < 0) fault("stream %d", stream);
}

void keep_descriptors(int *const descriptors[]) {
    int beyond = FIRST_DESCRIPTOR, next = FIRST_DESCRIPTOR;
    for (int *const *each = descriptors; *each; each++) beyond++;
    /* First beyond all final numbers, so that none takes the place of another. */
    for (int *const *each = descriptors; *each; each++)
        if (**each >= 0 && (**each = fcntl(**each, F_DUPFD_CLOEXEC, beyond)) < 0)
            fault("descriptors");
    for (int *const *each = descriptors; *each; each++)
        if (**each >= 0 && (**each = dup3(**each, next++, O_CLOEXEC)) < 0) fault("descriptors");
    if (close_from((unsigned)next, ~0u) < 0) fault("descriptors");
}

ssize_t read_whole(int file, void *bytes, size_t size) {
    size_t length = 0;
    while (length < size) {
        const ssize_t count = read(file, (char *)bytes + length, size - length);
        if (count == 0) break;
        if (count > 0)
            length += (size_t)count;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)length;
}

int write_file(const char *path, const char *text) {
    const int file = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    const ssize_t length = (ssize_t)strlen(text);
    return file < 0 || write(file, text, (size_t)length) != length || close(file) < 0 ? -1 : 0;
}

int descriptor_of(uint64_t number) {
    errno = EBADF;
    if (number > INT_MAX || fcntl((int)number, F_GETFD) < 0) fault("descriptor of the plan");
    return (int)number;
}
