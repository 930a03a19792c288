// A program with a runtime of its own beside it, as a self-contained one has: self_contained FOLDER ASSEMBLY [ARGUMENT...]
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*initialize)(const char *path, const char *domain, int count, const char **keys, const char **values, void **host, unsigned *id);
typedef int (*execute)(void *host, unsigned id, int count, const char **arguments, const char *assembly, unsigned *status);

// The full paths of all assemblies in the folder, joined by colons.
static char *trusted_assemblies(const char *folder)
{
    size_t size = 1 << 20, used = 0;
    char *list = calloc(size, 1);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; list != NULL && entries != NULL && (entry = readdir(entries)) != NULL;) {
        const char *ending = strrchr(entry->d_name, '.');
        if (ending != NULL && strcmp(ending, ".dll") == 0)
            used += snprintf(list + used, size - used, "%s/%s:", folder, entry->d_name);
    }
    return list;
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    char path[4096];
    snprintf(path, sizeof path, "%s/libcoreclr.so", arguments[1]);
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "self_contained: %s\n", dlerror());
        return 1;
    }
    initialize start = (initialize)dlsym(library, "coreclr_initialize");
    execute run = (execute)dlsym(library, "coreclr_execute_assembly");
    const char *keys[] = {"TRUSTED_PLATFORM_ASSEMBLIES", "NATIVE_DLL_SEARCH_DIRECTORIES", "System.Globalization.Invariant"};
    const char *values[] = {trusted_assemblies(arguments[1]), arguments[1], "true"};
    void *host;
    unsigned id, status;
    int result = start(arguments[0], "app", 3, keys, values, &host, &id);
    if (result >= 0)
        result = run(host, id, count - 3, (const char **)arguments + 3, arguments[2], &status);
    if (result < 0)
        fprintf(stderr, "self_contained: 0x%08x\n", (unsigned)result);
    return result < 0 ? 1 : (int)status;
}
