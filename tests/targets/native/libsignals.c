// The signal handling of the target `signals`: installs handlers, timers and a mask, and tells whether they are still as they were.
//
// SIGPROF comes from an interval timer, the real-time signals from one POSIX timer each.
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { MOST = 32, EVERY_NANOSECONDS = 10000000 };

static atomic_long profs;
static atomic_long realtime_handled;
static int taken[MOST + 1];
static int taken_count;
static struct sigaction set_up_actions[65];
static sigset_t set_up_mask;

static void on_prof(int signal)
{
    (void)signal;
    atomic_fetch_add(&profs, 1);
}

static void on_realtime(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    atomic_fetch_add(&realtime_handled, 1);
}

static int take(int signal)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_realtime;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (sigaction(signal, &action, NULL) != 0)
        return -1;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        return -1;
    struct itimerspec period = {{0, EVERY_NANOSECONDS}, {0, EVERY_NANOSECONDS}};
    taken[taken_count++] = signal;
    return timer_settime(timer, 0, &period, NULL);
}

/* Takes SIGPROF and as many real-time signals that nobody handles yet: the lowest, or, if `realtime` is negative, the highest.
 * With the highest, or with nearly all, it takes SIGURG, too. */
int signals_set_up(int realtime)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_prof;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGPROF, &action, NULL) != 0)
        return -1;
    int wanted = realtime < 0 ? -realtime : realtime;
    for (int i = 0; i <= SIGRTMAX - SIGRTMIN && taken_count < wanted && taken_count < MOST; i++) {
        int signal = realtime < 0 ? SIGRTMAX - i : SIGRTMIN + i;
        struct sigaction present;
        if (sigaction(signal, NULL, &present) == 0 && present.sa_handler == SIG_DFL && take(signal) != 0)
            return -1;
    }
    if ((realtime < 0 || realtime > 30) && take(SIGURG) != 0)
        return -1;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    if (pthread_sigmask(SIG_BLOCK, &blocked, NULL) != 0 || pthread_sigmask(SIG_BLOCK, NULL, &set_up_mask) != 0)
        return -1;
    for (int signal = 1; signal <= 64; signal++)
        sigaction(signal, NULL, &set_up_actions[signal]);
    struct itimerval period = {{0, EVERY_NANOSECONDS / 1000}, {0, EVERY_NANOSECONDS / 1000}};
    return setitimer(ITIMER_PROF, &period, NULL);
}

/* How often SIGPROF (0) or the real-time signals (1) were handled. */
long signals_handled(int realtime)
{
    return atomic_load(realtime ? &realtime_handled : &profs);
}

/* Writes what is not as it was set up; returns the length of the text, 0 if all is. To be called by the thread that set up. */
int signals_check(char *difference, int length)
{
    int used = 0;
    for (int signal = 1; signal <= 64 && used < length; signal++) {
        struct sigaction present;
        if (sigaction(signal, NULL, &present) != 0)
            continue;
        if (present.sa_sigaction != set_up_actions[signal].sa_sigaction || present.sa_flags != set_up_actions[signal].sa_flags)
            used += snprintf(difference + used, (size_t)(length - used), "signal %d has another handler; ", signal);
    }
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int signal = 1; signal <= 64 && used < length; signal++)
        if (sigismember(&mask, signal) != sigismember(&set_up_mask, signal))
            used += snprintf(difference + used, (size_t)(length - used), "signal %d is masked otherwise; ", signal);
    return used < length ? used : length;
}
