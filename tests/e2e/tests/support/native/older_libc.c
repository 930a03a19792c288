// Two things in one file. Compiled with -DLIBRARY: a libc.so.6 that defines the versions in its version script.
// Else, preloaded: maps the file in OLDER_LIBC below everything else, where it is taken for the process's C library.
#ifdef LIBRARY
int oldest(void)
{
    return 1;
}
int newest(void)
{
    return 2;
}
#else
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("OLDER_LIBC");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0) == MAP_FAILED)
        abort();
    close(file);
}
#endif
