// Preloaded into a runtime: its diagnostics server answers as many connections as DEAF_AFTER says, and then takes no more,
// or none until the file DEAF_UNTIL is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int answered;

// Waits from one connection on.
static void answer_or_wait(void)
{
    const char *after = getenv("DEAF_AFTER"), *until = getenv("DEAF_UNTIL");
    int most = after == NULL ? 0 : atoi(after);
    if (__atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED) >= most)
        while (until == NULL || access(until, F_OK) != 0)
            usleep(1000);
}

// What .NET Core 3.1 calls.
int accept(int listener, struct sockaddr *address, socklen_t *length)
{
    answer_or_wait();
    int (*real)(int, struct sockaddr *, socklen_t *) =
        (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
    return real(listener, address, length);
}

// What .NET 6 and later call.
int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
    answer_or_wait();
    int (*real)(int, struct sockaddr *, socklen_t *, int) =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    return real(listener, address, length, flags);
}
