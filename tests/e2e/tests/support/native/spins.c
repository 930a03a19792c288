/* A library that burns CPU time, as soon as it is loaded, in a function that only its symbol table names. */
#include <pthread.h>

static volatile unsigned long count;

static __attribute__((noinline)) void spin_in_secret(void)
{
    for (;;)
        count++;
}

static void *work(void *unused)
{
    (void)unused;
    spin_in_secret();
    return 0;
}

static __attribute__((constructor)) void start(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
}
