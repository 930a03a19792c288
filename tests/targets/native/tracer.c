// A native debugger as far as a profiler is concerned: halts every thread of a process, lets it run on under its eyes, and leaves.
//
// tracer PID
// Says `ready` when the process is halted; `run` lets it go on and answers `runs`; `quit` leaves it.
// While it runs on, signals are passed on as they come, as a debugger does by default with those that it does not stop for.
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t threads[8192];
static int thread_count;

static int known(pid_t thread)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i] == thread)
            return 1;
    return 0;
}

/* Seizes every thread, those too that are born meanwhile; returns how many were new. */
static int seize(const char *process)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%s/task", process);
    DIR *tasks = opendir(folder);
    int found = 0;
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        pid_t thread = atoi(entry->d_name);
        if (thread <= 0 || known(thread) || thread_count == (int)(sizeof threads / sizeof *threads))
            continue;
        if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACECLONE) != 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0)
            continue;
        threads[thread_count++] = thread;
        found++;
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

/* What a stop was for, if it was for a signal: that signal is passed on. */
static int signal_of(int status)
{
    int event = status >> 16, signal = WSTOPSIG(status);
    return event != 0 || signal == SIGTRAP ? 0 : signal;
}

static void resume(pid_t thread, int status)
{
    if (WIFSTOPPED(status))
        ptrace(PTRACE_CONT, thread, 0, signal_of(status));
}

/* Lets go on whatever has stopped, until there is a line to obey. */
static void watch(void)
{
    struct pollfd orders = {0, POLLIN, 0};
    for (;;) {
        int status;
        for (pid_t thread; (thread = waitpid(-1, &status, __WALL | WNOHANG)) > 0;)
            resume(thread, status);
        if (poll(&orders, 1, 1) != 0)
            return;
    }
}

/* A thread can only be left while it is halted; what it was halted for is passed on. */
static void leave(const char *process)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%s/task", process);
    DIR *tasks = opendir(folder);
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        pid_t thread = atoi(entry->d_name);
        int status;
        if (thread <= 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0)
            continue;
        if (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status))
            ptrace(PTRACE_DETACH, thread, 0, signal_of(status));
    }
    if (tasks != NULL)
        closedir(tasks);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    while (seize(arguments[1]) > 0)
        ;
    if (thread_count == 0) {
        perror("tracer");
        return 1;
    }
    static int statuses[sizeof threads / sizeof *threads];
    for (int i = 0; i < thread_count; i++)
        waitpid(threads[i], &statuses[i], __WALL);
    puts("ready");
    fflush(stdout);
    char line[64];
    int running = 0;
    for (; fgets(line, sizeof line, stdin) != NULL && strncmp(line, "quit", 4) != 0; running ? watch() : (void)0) {
        if (!running)
            for (int i = 0; i < thread_count; i++)
                resume(threads[i], statuses[i]);
        running = 1;
        puts("runs");
        fflush(stdout);
    }
    if (running)
        leave(arguments[1]);
    else
        for (int i = 0; i < thread_count; i++)
            ptrace(PTRACE_DETACH, threads[i], 0, signal_of(statuses[i]));
    return 0;
}
