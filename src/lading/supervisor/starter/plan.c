#define _GNU_SOURCE
#include "plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calls.h"
#include "descriptors.h"
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
 * bytes. Letters without a row are unknown. */
static const struct {
    const char *fields;
    size_t least, most;
} rows[26] = {
#define ROW(letter) [letter - 'A']
    ROW(ROOT) = {"p", 0, 1}, ROW(HOST_NAME) = {"s", 0, 1}, ROW(MOUNT) = {"pssn", 0, 32},
    ROW(BIND) = {"ppn", 0, 65536}, ROW(DEVICE) = {"psnnnii", 0, 1024}, ROW(MASKED) = {"p", 0, 256},
    ROW(READ_ONLY) = {"p", 0, 256}, ROW(LIMIT) = {"nn", 0, 32}, ROW(USER) = {"ii", 1, 1},
    ROW(GROUP) = {"i", 0, 1024}, ROW(CAPABILITIES) = {"n", 1, 1}, ROW(FILTER) = {"r", 1, 1},
    ROW(ARGUMENT) = {"s", 0, MOST_RECORDS}, ROW(ENVIRONMENT) = {"s", 0, MOST_RECORDS},
    ROW(DIRECTORY) = {"p", 1, 1}, ROW(IDS) = {"ss", 0, 1}, ROW(NO_GROUPS) = {"", 0, 1},
    ROW(CGROUP) = {"p", 0, 32}, ROW(GATE) = {"n", 0, 1}, ROW(NOTICE) = {"p", 0, 1},
    ROW(KEEP) = {"", 0, 1}, ROW(PROCESS) = {"n", 0, 1}, ROW(TERMINAL) = {"n", 0, 1},
};

/* Whether a text is a number, at most `most`. */
static int is_number(const char *text, uint64_t most) {
    errno = 0;
    const uint64_t value = strtoull(text, NULL, 10);
    return *text && text[strspn(text, "0123456789")] == '\0' && errno == 0 && value <= most;
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
    if (*kinds == 'r')
        return length > 0 && length % INSTRUCTION == 0 && length / INSTRUCTION <= MOST_INSTRUCTIONS;
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

/* Visits each record: checks and counts it, or with `is_filling` keeps its place. */
static const char *visit(struct plan *plan, size_t counts[26], int is_filling) {
    size_t at = sizeof PLAN_MARK - 1;
    while (at < plan->size) {
        if (plan->size - at < HEAD) return "a record of the plan is cut off";
        const unsigned char *head = (unsigned char *)plan->bytes + at;
        const size_t length =
            (size_t)head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
        at += HEAD;
        if (length > plan->size - at) return "a record of the plan is cut off";
        const size_t row = (size_t)head[0] - 'A';
        if (row >= COUNT(rows) || rows[row].fields == NULL)
            return "the plan has a record of an unknown kind";
        char *item = plan->bytes + at;
        if (is_filling) {
            plan->lists[row][counts[row]] = item;
        } else {
            if (!are_fields(rows[row].fields, item, length))
                return "the fields of a record of the plan are wrong";
            if (counts[row] >= rows[row].most) return "the plan has too many records of a kind";
            if (*rows[row].fields == 'r') plan->filter_size = length;
        }
        counts[row]++;
        at += length;
    }
    return NULL;
}

const char *parse_plan(struct plan *plan) {
    const size_t mark = sizeof PLAN_MARK - 1;
    size_t counts[COUNT(rows)] = {0}, total = 0;
    plan->filter_size = 0;
    if (plan->size < mark || memcmp(plan->bytes, PLAN_MARK, mark) != 0)
        return "this is no plan of this version";
    const char *wrong = visit(plan, counts, 0);
    if (wrong != NULL) return wrong;
    for (size_t row = 0; row < COUNT(rows); row++) {
        if (counts[row] < rows[row].least) return "the plan lacks a record";
        /* The null pointer, and a variable that is added later. */
        total += counts[row] + 2;
    }
    /* One array for all lists; it stays until this process becomes the command. */
    char **items = calloc(total, sizeof *items);
    if (items == NULL) return "there is no memory for the plan";
    for (size_t row = 0; row < COUNT(rows); row++) {
        plan->lists[row] = items;
        items += counts[row] + 2;
        counts[row] = 0;
    }
    return visit(plan, counts, 1);
}

void read_plan(struct plan *plan, int file) {
    struct stat status;
    if (fstat(file, &status) < 0 || lseek(file, 0, SEEK_SET) < 0) fault("plan");
    errno = 0;
    if (!S_ISREG(status.st_mode) || status.st_size <= 0 || status.st_size > MOST_BYTES)
        fault("the plan has a wrong size");
    plan->size = (size_t)status.st_size;
    const int access = PROT_READ | PROT_WRITE;
    plan->bytes = mmap(NULL, plan->size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plan->bytes == MAP_FAILED) fault("memory for the plan");
    if (read_whole(file, plan->bytes, plan->size) != (ssize_t)plan->size || close(file) < 0)
        fault("plan");
    const char *wrong = parse_plan(plan);
    errno = 0;
    if (wrong != NULL) fault("%s", wrong);
}

void discard_plan(struct plan *plan) {
    /* The environment may hold secrets. */
    if (plan->bytes != NULL && munmap(plan->bytes, plan->size) < 0) fault("plan");
    memset(plan, 0, sizeof *plan);
}

char **records(const struct plan *plan, enum record letter) {
    static char *none[] = {NULL};
    return plan->lists[letter - 'A'] != NULL ? plan->lists[letter - 'A'] : none;
}

char *first_record(const struct plan *plan, enum record letter) { return *records(plan, letter); }

char *field(char *item, int position) {
    while (position-- > 0) item += strlen(item) + 1;
    return item;
}

uint64_t number_field(char *item, int position) {
    return strtoull(field(item, position), NULL, 10);
}

int descriptor_record(const struct plan *plan, enum record letter) {
    char *item = first_record(plan, letter);
    return item != NULL ? descriptor_of(number_field(item, 0)) : -1;
}
