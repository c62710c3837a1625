/* System calls that C libraries have no function for, and the numbers of new ones for old headers. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and RESOLVE_IN_ROOT of linux/openat2.h. */
#define WITHIN_ROOT (0x10 | 0x02)
#define WITHOUT_LINKS 0x04

/* Of linux/mount.h. */
#define ATTRIBUTE_READ_ONLY 0x1
#define ATTRIBUTE_NO_SUID 0x2
#define ATTRIBUTE_NO_DEVICES 0x4
#define ATTRIBUTE_NO_EXEC 0x8
#define ATTRIBUTE_STRICT_ATIME 0x20

int open_within(int directory, const char *path, int flags, uint64_t resolve);
int copy_tree(int directory, const char *path);
int set_attributes(int tree, uint64_t attributes);
int attach_tree(int tree, int target);
int new_file_system(const char *kind);
int set_option(int context, const char *name, const char *value);
int mount_file_system(int context, uint64_t attributes);
int close_from(unsigned first, unsigned last, int only_on_exec);
pid_t fork_into(unsigned long namespaces);
int join_new_keyring(void);
int set_capabilities(uint64_t set);
/* As setrlimit(2), whose types differ between C libraries. */
int set_limit(unsigned resource, uint64_t most);
int filter_calls(const void *program, unsigned short instructions);

/* Returns the name of a needed call that this kernel lacks, or a null pointer. */
const char *lacking_call(void);
