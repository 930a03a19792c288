// A debugger: seizes every thread of a process, stops it, says `ready`, and lets it go on when its own input ends.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/task", arguments[1]);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return 1;
    int seized[256];
    int number = 0;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL && number < 256;) {
        int thread = atoi(entry->d_name);
        if (thread == 0)
            continue;
        int status;
        if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0) {
            perror("tracer");
            return 1;
        }
        waitpid(thread, &status, __WALL);
        seized[number++] = thread;
    }
    closedir(threads);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    for (int each = 0; each < number; each++)
        ptrace(PTRACE_DETACH, seized[each], 0, 0);
    puts("gone");
    return 0;
}
