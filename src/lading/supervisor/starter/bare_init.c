#define _GNU_SOURCE
#include "bare_init.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"
#include "init.h"
#include "plan.h"

/* Bytes of the memory that `run_init` gives back as the plan's. */
#define PAGE 4096

static const char open_line[] = "go\n";

static struct list list_of(char **items) {
    struct list list = {.items = items};
    while (items[list.count] != NULL) list.count++;
    return list;
}

/* The gate of a container that is started by its maker: it is open. */
static int open_gate(void) {
    int gate[2];
    const ssize_t length = sizeof open_line - 1;
    if (pipe2(gate, O_CLOEXEC) < 0 || write(gate[1], open_line, (size_t)length) != length || close(gate[1]) < 0)
        fault("gate");
    return gate[0];
}

_Noreturn void run_bare_init(const char *reports, char **arguments) {
    /* Signals wait until `run_init` takes them, also that of a command which ends at once. */
    sigset_t all;
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0) fault("signals");
    /* Without waiting: the command can fill the pipe, and must not stop this process by that. */
    const int keeper = open(reports, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (keeper < 0) fault("%s", reports);
    faults_to_keeper(keeper);
    struct plan plan = {.size = PAGE};
    plan.bytes = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plan.bytes == MAP_FAILED) fault("memory");
    plan.lists[ARGUMENT - 'A'] = list_of(arguments);
    plan.lists[ENVIRONMENT - 'A'] = list_of(environ);
    run_init(&plan, keeper, open_gate());
}
