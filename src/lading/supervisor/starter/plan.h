/* The plan: all that is to be made, as the supervisor writes it.
 *
 * A plan is PLAN_MARK and records. A record is a letter, the length of its fields in four bytes, the
 * lowest first, and the fields: texts that each end with a zero byte; a filter is bytes as they are.
 * Letters, kinds of fields and how many records there may be: `rows` in plan.c. The reader refuses
 * everything else. Nothing is copied: records are read where they lie. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PLAN_MARK "lading-start 3\n"
/* Bytes of a plan: arguments and environment have at most 6 MiB in this kernel (execve(2)). */
#define MOST_BYTES (16u << 20)

enum record {
    ROOT = 'R',        /* path of the root file system */
    HOST_NAME = 'H',   /* name of the machine in the container */
    MOUNT = 'M',       /* target, kind, options, attributes */
    BIND = 'B',        /* target, source, attributes */
    DEVICE = 'D',      /* path here and there, letter c or b, major, minor, mode, user, group */
    MASKED = 'X',      /* path that appears empty */
    READ_ONLY = 'O',   /* path that cannot be written */
    LIMIT = 'L',       /* number of a resource, most */
    USER = 'U',        /* user and group of the command */
    GROUP = 'S',       /* further group of the command */
    CAPABILITIES = 'C', /* bits */
    FILTER = 'F',      /* seccomp program */
    ARGUMENT = 'A', ENVIRONMENT = 'E',
    DIRECTORY = 'W',   /* working directory */
    IDS = 'I',         /* content of uid_map, of gid_map: a user namespace of its own */
    NO_GROUPS = 'V',   /* groups cannot be set in the user namespace */
    CGROUP = 'J',      /* file to which a process writes 0 to join */
    GATE = 'G',        /* descriptor from which the start line is read */
    NOTICE = 'N',      /* path to which the status is written as well */
    KEEP = 'K',        /* no command: wait until the gate is closed */
    PROCESS = 'P',     /* descriptor of the process whose namespaces are entered (pidfd_open(2)) */
    TERMINAL = 'T',    /* descriptor of a socket that gets the terminal */
};

struct plan {
    char *bytes;
    size_t size;
    char **lists[26];   /* by letter */
    size_t filter_size; /* bytes */
};

/* Reads the file. Ends this process with a fault unless it is a plan. */
void read_plan(struct plan *plan, int file);

/* Finds the records in `plan->bytes`. Returns a null pointer, or the fault in words. */
const char *parse_plan(struct plan *plan);

/* Forgets the plan's content. */
void discard_plan(struct plan *plan);

/* The first field of each record of a kind, and a null pointer behind the last. */
char **records(const struct plan *plan, enum record letter);

/* The first record, or a null pointer. */
char *first_record(const struct plan *plan, enum record letter);

/* The descriptor that is the first record of a kind, or -1. */
int descriptor_record(const struct plan *plan, enum record letter);

/* A field of a record, by its position. */
char *field(char *item, int position);

/* A field that is a number; the reader has checked it. */
uint64_t number_field(char *item, int position);
