/* Reads plans from standard input, each after its length in four bytes, the lowest first, and answers
 * each with a line: the fault, or the records. Each lies in memory of exactly its size, so that the
 * sanitizers see a read beyond it. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static void print_text(const char *text) {
    for (; *text; text++) printf("%02x", (unsigned char)*text);
}

static void print_records(const struct plan *plan, const char *kinds[26]) {
    for (char letter = 'A'; letter <= 'Z'; letter++) {
        char **item = records(plan, (enum record)letter);
        for (; kinds[letter - 'A'] != NULL && *item; item++) {
            printf("%c", letter);
            for (int position = 0; kinds[letter - 'A'][position]; position++) {
                printf(":");
                if (strchr("ni", kinds[letter - 'A'][position]) != NULL)
                    printf("%" PRIu64, number_field(*item, position));
                else if (kinds[letter - 'A'][position] == 'r')
                    printf("%zu", plan->filter_size);
                else
                    print_text(field(*item, position));
            }
            printf(" ");
        }
    }
}

int main(int count, char **arguments) {
    const char *kinds[26] = {NULL};
    /* Arguments: a letter and the kinds of its fields. */
    for (int at = 1; at < count; at++) kinds[arguments[at][0] - 'A'] = arguments[at] + 1;
    unsigned char head[4];
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        struct plan plan = {0};
        plan.size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        plan.bytes = malloc(plan.size ? plan.size : 1);
        if (plan.bytes == NULL || fread(plan.bytes, 1, plan.size, stdin) != plan.size) return 2;
        const char *fault = parse_plan(&plan);
        if (fault != NULL)
            printf("%s", fault);
        else
            print_records(&plan, kinds);
        printf("\n");
        fflush(stdout);
        free(plan.lists[0]);
        free(plan.bytes);
    }
    return 0;
}
