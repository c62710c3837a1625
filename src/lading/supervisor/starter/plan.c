#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"

/* Bytes of the letter and the length before the fields. */
#define HEAD 5
/* Bytes of one instruction of a filter, and instructions that the kernel takes (BPF_MAXINSNS). */
#define INSTRUCTION 8
#define MOST_INSTRUCTIONS 4096
#define MOST_RECORDS 1000000
/* The largest id of a user or group; the next means "as it is" in calls that set ids. */
#define LARGEST_ID 4294967294u

/* Kinds of fields: n number, i id of a user or group, p absolute path without "..", s any text, r raw
 * bytes. */
static const struct {
    char letter;
    const char *fields;
    size_t least, most;
} rows[] = {
    {ROOT, "p", 0, 1}, {HOST_NAME, "s", 0, 1}, {MOUNT, "pssn", 0, 32}, {BIND, "ppn", 0, 65536},
    {DEVICE, "psnnnii", 0, 1024}, {MASKED, "p", 0, 256}, {READ_ONLY, "p", 0, 256},
    {LIMIT, "nn", 0, 32}, {USER, "ii", 1, 1}, {GROUP, "i", 0, 1024},
    {CAPABILITIES, "n", 1, 1}, {FILTER, "r", 1, 1}, {ARGUMENT, "s", 0, MOST_RECORDS},
    {ENVIRONMENT, "s", 0, MOST_RECORDS}, {DIRECTORY, "p", 1, 1}, {IDS, "ss", 0, 1},
    {NO_GROUPS, "", 0, 1}, {CGROUP, "p", 0, 32}, {GATE, "n", 0, 1}, {NOTICE, "p", 0, 1},
    {KEEP, "", 0, 1}, {PROCESS, "n", 0, 1}, {TERMINAL, "n", 0, 1},
};

static int row_of(char letter) {
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        if (rows[at].letter == letter) return (int)at;
    return -1;
}

/* Whether a text is a number, at most `most`. */
static int is_number(const char *text, uint64_t most) {
    uint64_t value = 0;
    if (*text == '\0') return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return 0;
        const uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) return 0;
        value = value * 10 + digit;
    }
    return value <= most;
}

static int is_path(const char *text) {
    if (*text != '/') return 0;
    for (const char *name = text; *name; name += strcspn(name, "/")) {
        name += strspn(name, "/");
        if (strcspn(name, "/") == 2 && name[0] == '.' && name[1] == '.') return 0;
    }
    return 1;
}

/* Whether the fields of a record are of their kinds and fill it. */
static int are_fields(const char *kinds, const char *at, size_t length) {
    if (*kinds == 'r') return length > 0 && length % INSTRUCTION == 0 && length / INSTRUCTION <= MOST_INSTRUCTIONS;
    for (; *kinds; kinds++) {
        const char *end = memchr(at, '\0', length);
        if (end == NULL) return 0;
        if (*kinds == 'n' && !is_number(at, UINT64_MAX)) return 0;
        if (*kinds == 'i' && !is_number(at, LARGEST_ID)) return 0;
        if (*kinds == 'p' && !is_path(at)) return 0;
        length -= (size_t)(end - at) + 1;
        at = end + 1;
    }
    return length == 0;
}

/* Visits each record: counts it, or with `is_filling` keeps its place. */
static const char *visit(struct plan *plan, int is_filling) {
    size_t at = sizeof PLAN_MARK - 1;
    while (at < plan->size) {
        if (plan->size - at < HEAD) return "a record of the plan is cut off";
        unsigned char *head = (unsigned char *)plan->bytes + at;
        const size_t length = (size_t)head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
        at += HEAD;
        if (length > plan->size - at) return "a record of the plan is cut off";
        const int row = row_of((char)head[0]);
        if (row < 0) return "the plan has a record of an unknown kind";
        struct list *list = &plan->lists[head[0] - 'A'];
        char *item = plan->bytes + at;
        if (is_filling) {
            list->items[list->count] = item;
        } else {
            if (!are_fields(rows[row].fields, item, length)) return "the fields of a record of the plan are wrong";
            if (list->count >= rows[row].most) return "the plan has too many records of a kind";
            if (*rows[row].fields == 'r') plan->filter_size = length;
        }
        list->count++;
        at += length;
    }
    return NULL;
}

const char *parse_plan(struct plan *plan) {
    memset(plan->lists, 0, sizeof plan->lists);
    plan->filter_size = 0;
    if (plan->size < sizeof PLAN_MARK - 1 || memcmp(plan->bytes, PLAN_MARK, sizeof PLAN_MARK - 1) != 0)
        return "this is no plan of this version";
    const char *wrong = visit(plan, 0);
    if (wrong != NULL) return wrong;
    size_t total = 0;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const size_t count = records(plan, (enum record)rows[row].letter)->count;
        if (count < rows[row].least) return "the plan lacks a record";
        /* The null pointer, and a variable that is added later. */
        total += count + 2;
    }
    /* One array for all lists; it stays until this process becomes the command. */
    char **items = calloc(total, sizeof *items);
    if (items == NULL) return "there is no memory for the plan";
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct list *list = &plan->lists[rows[row].letter - 'A'];
        list->items = items;
        items += list->count + 2;
        list->count = 0;
    }
    return visit(plan, 1);
}

void read_plan(struct plan *plan, int file) {
    struct stat status;
    if (fstat(file, &status) < 0) fault("plan");
    errno = 0;
    if (!S_ISREG(status.st_mode) || status.st_size <= 0 || status.st_size > MOST_BYTES) fault("the plan has a wrong size");
    plan->size = (size_t)status.st_size;
    plan->bytes = mmap(NULL, plan->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plan->bytes == MAP_FAILED) fault("memory for the plan");
    for (size_t length = 0; length < plan->size;) {
        const ssize_t count = pread(file, plan->bytes + length, plan->size - length, (off_t)length);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) fault("plan");
        length += (size_t)count;
    }
    if (close(file) < 0) fault("plan");
    const char *wrong = parse_plan(plan);
    errno = 0;
    if (wrong != NULL) fault("%s", wrong);
}

void discard_plan(struct plan *plan) {
    /* The environment may hold secrets. */
    if (plan->bytes != NULL && munmap(plan->bytes, plan->size) < 0) fault("plan");
    memset(plan, 0, sizeof *plan);
}

const struct list *records(const struct plan *plan, enum record letter) { return &plan->lists[letter - 'A']; }

char *first_record(const struct plan *plan, enum record letter) {
    const struct list *list = records(plan, letter);
    return list->count ? list->items[0] : NULL;
}

char *field(char *item, int position) {
    while (position-- > 0) item += strlen(item) + 1;
    return item;
}

uint64_t number_field(char *item, int position) {
    uint64_t value = 0;
    for (const char *text = field(item, position); *text; text++) value = value * 10 + (uint64_t)(*text - '0');
    return value;
}
