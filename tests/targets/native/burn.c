// Burns processor time outside of any runtime: a process that is not .NET.
//
// burn
// Says `ready`, then counts until its standard input ends.
#include <pthread.h>
#include <stdio.h>

static volatile unsigned long count;

static void *work(void *unused)
{
    (void)unused;
    for (;;)
        count++;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
