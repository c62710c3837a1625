#define _GNU_SOURCE
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
/* MFD_EXEC of kernels whose memory files are no programs otherwise (memfd_create(2)). */
#define EXECUTABLE 0x10u

static char **command_line;

static int memory_file(void) {
    const int file = memfd_create("lading-start", MFD_CLOEXEC | MFD_ALLOW_SEALING | EXECUTABLE);
    if (file >= 0 || errno != EINVAL) return file;
    return memfd_create("lading-start", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

void seal_program(char **arguments) {
    char *none[] = {NULL};
    command_line = arguments;
    struct stat status;
    off_t at = 0;
    const int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (program < 0 || fstat(program, &status) < 0) fault("this program");
    const int seals = fcntl(program, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        const int copy = memory_file();
        if (copy < 0) fault("memory for this program");
        while (at < status.st_size)
            if (sendfile(copy, program, &at, (size_t)(status.st_size - at)) <= 0)
                fault("copy of this program");
        if (fcntl(copy, F_ADD_SEALS, SEALS) < 0) fault("seals of this program");
        syscall(SYS_execveat, copy, "", arguments, none, AT_EMPTY_PATH);
        fault("this program");
    }
    if (close(program) < 0) fault("this program");
}

void forget_arguments(void) {
    for (char **argument = command_line + 1; *argument != NULL; argument++)
        memset(*argument, 0, strlen(*argument));
    if (prctl(PR_SET_NAME, "lading-start", 0, 0, 0) < 0) fault("name of this process");
}
