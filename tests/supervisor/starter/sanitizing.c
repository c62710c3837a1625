/* Options of the sanitizers, which have no variables to read: the program starts itself without any. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* A leak is none: memory of a plan stays until the process becomes the command. */
const char *__asan_default_options(void) { return "exitcode=86:detect_leaks=0:symbolize=0:detect_stack_use_after_return=1"; }

const char *__ubsan_default_options(void) { return "exitcode=86:symbolize=0"; }
