// Threads that block signals, and system calls that a signal ends early: the native side of the target `masked`.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static atomic_long turns, met, naps, polls, reads, short_naps, wrong;

static void count_up(atomic_long *counter)
{
    for (volatile int i = 0; i < 200000; i++)
        ;
    atomic_fetch_add(counter, 1);
}

static atomic_int hears;

/* Blocks no signal any more. */
__attribute__((noinline)) void hears_and_works(void)
{
    sigset_t every;
    sigfillset(&every);
    pthread_sigmask(SIG_UNBLOCK, &every, NULL);
    for (;;)
        count_up(&turns);
}

/* Burns processor time and blocks every signal, until it is to hear them. */
static void *blocks_and_works(void *nothing)
{
    while (!atomic_load(&hears))
        count_up(&turns);
    hears_and_works();
    return nothing;
}

/* Blocks every signal and waits for any of them, as threads do that handle signals for a whole program. */
static void *blocks_and_waits(void *nothing)
{
    sigset_t every;
    sigfillset(&every);
    for (;;)
        if (sigwaitinfo(&every, NULL) > 0)
            atomic_fetch_add(&met, 1);
    return nothing;
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Sleeps, polls and reads as a careful program does: what a signal ends early is begun again, with the time that is left. */
static void *waits(void *pipe_ends)
{
    int *ends = pipe_ends;
    for (;;) {
        count_up(&turns);
        long long start = now();
        struct timespec left = {0, 30000000};
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            atomic_fetch_add(&short_naps, 1);
        if (now() - start < 30000000)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&naps, 1);
        struct pollfd nobody = {ends[0], POLLIN, 0};
        int answer;
        for (long long end = now() + 30000000;;) {
            long long rest = (end - now() + 999999) / 1000000;
            answer = poll(&nobody, 1, rest > 0 ? (int)rest : 0);
            if (answer >= 0 || errno != EINTR)
                break;
        }
        if (answer != 0)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&polls, 1);
    }
    return NULL;
}

/* Reads a pipe that is written to now and then. A read is begun again by the kernel: it may not fail. */
static void *reads_pipe(void *pipe_ends)
{
    int *ends = pipe_ends;
    for (char byte;;) {
        if (read(ends[0], &byte, 1) != 1)
            atomic_fetch_add(&wrong, 1);
        else
            atomic_fetch_add(&reads, 1);
        count_up(&turns);
    }
    return NULL;
}

static void *writes_pipe(void *pipe_ends)
{
    int *ends = pipe_ends;
    for (;;) {
        struct timespec left = {0, 20000000};
        while (nanosleep(&left, &left) != 0)
            ;
        if (write(ends[1], "x", 1) != 1)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static int start(void *(*body)(void *), void *argument, int blocked)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_t thread;
    if (blocked)
        pthread_sigmask(SIG_BLOCK, &every, &before);
    int failed = pthread_create(&thread, NULL, body, argument);
    if (blocked)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Starts a thread that blocks every signal and works (0), or waits for signals (1). */
int masked_block(int waits_for_signals)
{
    return start(waits_for_signals ? blocks_and_waits : blocks_and_works, NULL, 1);
}

/* Makes threads that block every signal and work hear them. */
int masked_hear(void)
{
    atomic_store(&hears, 1);
    return 0;
}

/* Starts the threads that sleep, poll and read. */
int masked_wait(void)
{
    int *silent = malloc(2 * sizeof *silent), *used = malloc(2 * sizeof *used);
    if (pipe(silent) != 0 || pipe(used) != 0)
        return -1;
    return start(waits, silent, 0) | start(reads_pipe, used, 0) | start(writes_pipe, used, 0);
}

/* 0: turns of work, 1: signals met by the waiting thread, 2: naps, 3: polls, 4: bytes read, 5: naps ended early, 6: what went wrong. */
long masked_count(int which)
{
    atomic_long *counters[] = {&turns, &met, &naps, &polls, &reads, &short_naps, &wrong};
    return atomic_load(counters[which]);
}

static int heard[2];

/* Forks a child without exec. It calls what a signal handler may call, and writes a byte for each signal that it has handled. */
int masked_fork(int signal)
{
    sigset_t every, others, before;
    sigfillset(&every);
    if (pipe(heard) != 0)
        return -1;
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pid_t child = fork();
    if (child != 0) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close(heard[1]);
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(heard[0]);
    sigfillset(&others);
    sigdelset(&others, signal);
    for (;;) {
        sigsuspend(&others);
        if (write(heard[1], "", 1) != 1)
            _exit(0);
    }
}

/* Waits until the child has handled a signal: 1, or 0 if it has ended. */
int masked_heard(void)
{
    char byte;
    return read(heard[0], &byte, 1);
}
