/* The first process of a container that another program has made, such as crun or Docker's daemon. */
#ifndef LADING_BARE_INIT_H
#define LADING_BARE_INIT_H

/* Starts the command and lives until it ends, as `run_init`. `reports` is the path of a named pipe
 * that gets reports, of which the other end is open; `arguments` are those of the command, with a
 * null pointer behind the last. The environment is that of this process. */
_Noreturn void run_bare_init(const char *reports, char **arguments);

#endif
