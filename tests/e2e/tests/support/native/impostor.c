// A process that looks like something it is not: it loads the libraries it is given, says `ready`, and waits for its input to end.
#include <dlfcn.h>
#include <stdio.h>

// What debuggers find in programs compiled by NativeAOT, when this is linked with its names exported.
int DotNetRuntimeDebugHeader = 1;

int main(int count, char **arguments)
{
    for (int each = 1; each < count; each++) {
        if (dlopen(arguments[each], RTLD_NOW) == NULL) {
            fprintf(stderr, "impostor: %s\n", dlerror());
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
