// thread_storage KEEPER LIBRARY ROUNDS
//
// Threads ask all the time for what they keep in KEEPER, and so does the handler of a signal that they get again and again, as in .NET.
// Meanwhile LIBRARY comes and goes ROUNDS times. Answers `kept`, or `lost` as soon as a thread does not find what it has put there:
// such a glibc as Debian 12 has (2.36-9+deb12u14) loses it on x64 if LIBRARY has thread-local storage, mostly in less than a second.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4 };

static long *(*own_value)(void);
static atomic_int stop;

static void handle(int number)
{
    (void)number;
    own_value();
}

static void *keep(void *argument)
{
    long own_number = (long)argument;
    *own_value() = own_number;
    while (!atomic_load(&stop)) {
        if (*own_value() != own_number) {
            puts("lost");
            fflush(stdout);
            _Exit(1);
        }
    }
    return NULL;
}

// Signals every thread, and lets them run.
static void interrupt_all(pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_kill(threads[i], SIGUSR1);
    usleep(200);
}

int main(int count, char **arguments)
{
    // What a runtime has in its process anyway does not come and go with the library.
    dlopen("libgcc_s.so.1", RTLD_NOW);
    void *keeper = count == 4 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!keeper) {
        fprintf(stderr, "usage: thread_storage KEEPER LIBRARY ROUNDS\n");
        return 2;
    }
    *(void **)&own_value = dlsym(keeper, "own_value");
    signal(SIGUSR1, handle);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, keep, (void *)(i + 1));
    for (long round = atol(arguments[3]); round > 0; round--) {
        void *library = dlopen(arguments[2], RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        interrupt_all(threads);
        dlclose(library);
        interrupt_all(threads);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("kept");
    return 0;
}
