/* System calls that C libraries have no function for, and numbers of new ones for old headers. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Members of an array. */
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and RESOLVE_IN_ROOT of linux/openat2.h. */
#define WITHIN_ROOT (0x10 | 0x02)
#define WITHOUT_LINKS 0x04

/* Of linux/mount.h. */
#define ATTRIBUTE_READ_ONLY 0x1
#define ATTRIBUTE_NO_SUID 0x2
#define ATTRIBUTE_NO_EXEC 0x8

int open_within(int directory, const char *path, int flags, uint64_t resolve);
int copy_tree(int directory, const char *path);
int set_attributes(int tree, uint64_t attributes);
int attach_tree(int tree, int target);
/* Mounts a new file system nowhere yet, with the options "name=value,flag,...", whose text is
 * changed. Returns the tree, or -1 with errno. */
int mount_new(const char *kind, char *options, uint64_t attributes);
/* Closes all descriptors of a range. */
int close_from(unsigned first, unsigned last);
pid_t fork_into(unsigned long namespaces);
int join_new_keyring(void);
int set_capabilities(uint64_t set);
/* As setrlimit(2), whose types differ between C libraries. */
int set_limit(unsigned resource, uint64_t most);
int filter_calls(const void *program, unsigned short instructions);

/* Returns the name of a needed call that this kernel lacks, or a null pointer. */
const char *lacking_call(void);
