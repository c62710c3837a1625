/* This program in memory that nobody can change. */
#pragma once

/* Starts this program again from sealed memory, unless that is so already: a container could reach
 * its file by /proc, and change it (CVE-2019-5736). */
void seal_program(char **arguments);

/* Takes paths of the machine from the command line of this process, which its container can read. */
void forget_arguments(void);
