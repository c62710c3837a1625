#define _GNU_SOURCE
#include "enter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "command.h"
#include "descriptors.h"
#include "fault.h"
#include "sealed.h"
#include "walls.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
/* Of linux/magic.h and tty_ioctl(2), for headers that lack them. */
#define TERMINALS 0x1cd1
#define OPEN_PEER 0x5441
/* Device number of /dev/ptmx. */
#define MULTIPLEXER makedev(5, 2)

/* Sends a descriptor over a socket. */
static void send_descriptor(int socket, int descriptor) {
    char letter = 't', space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&letter, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) fault("terminal");
}

/* Makes a terminal of the container's own, whose other end goes over the socket. The container may
 * have changed its /dev: only the device itself is opened. Files stay open until `be_command` closes
 * all that it does not keep. */
static void make_terminal(int socket) {
    struct stat status;
    struct statfs system;
    const int found = open("/dev/pts/ptmx", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char path[64];
    if (found < 0 || fstat(found, &status) < 0 || fstatfs(found, &system) < 0) fault("terminal");
    errno = 0;
    if (!S_ISCHR(status.st_mode) || status.st_rdev != MULTIPLEXER || system.f_type != TERMINALS)
        fault("terminal: /dev/pts/ptmx is something else");
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    const int master = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    int locked = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0) fault("terminal");
    const int terminal = ioctl(master, OPEN_PEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) fault("terminal");
    send_descriptor(socket, master);
    for (int stream = 0; stream < FIRST_DESCRIPTOR; stream++)
        if (dup2(terminal, stream) < 0) fault("terminal");
}

_Noreturn static void be_command(struct plan *plan, int words, int socket) {
    hide_process();
    become_owner(plan);
    if (join_new_keyring() < 0 && errno != ENOSYS) fault("session keyring");
    if (socket >= 0) make_terminal(socket);
    keep_descriptors((int *[]){&words, NULL});
    faults_to_log(words);
    drop_rights(plan);
    complete_environment(plan);
    become_command(plan, socket >= 0 ? 0 : -1);
}

int enter_container(struct plan *plan, int number) {
    if (first_record(plan, PROCESS) == NULL || first_record(plan, ARGUMENT) == NULL)
        fault("the plan is incomplete");
    /* Before anybody in the container can see this process: it has descriptors of the machine. */
    hide_process();
    int socket = descriptor_record(plan, TERMINAL), container = descriptor_record(plan, PROCESS);
    int words = fcntl(2, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (words < 0) fault("descriptors");
    keep_descriptors((int *[]){&words, &number, &container, &socket, NULL});
    faults_to_log(words);
    join_cgroups(plan);
    const int of_ids = first_record(plan, IDS) != NULL ? CLONE_NEWUSER : 0;
    if (setns(container, NAMESPACES | of_ids) < 0) fault("namespaces");
    forget_arguments();
    const pid_t command = fork_into(0);
    if (command < 0) fault("the command's process");
    if (command == 0) be_command(plan, words, socket);
    discard_plan(plan);
    if (dprintf(number, "%d\n", (int)command) < 0) fault("file of the command's number");
    keep_descriptors((int *[]){&words, NULL});
    faults_to_log(words);
    if (close_from(0, FIRST_DESCRIPTOR - 1) < 0) fault("streams");
    int status;
    while (waitpid(command, &status, 0) < 0)
        if (errno != EINTR) fault("the command");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
