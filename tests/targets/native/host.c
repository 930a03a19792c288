// A program that is not .NET and starts a runtime inside itself: the hosted target.
//
// host PATH_OF_LIBHOSTFXR DOTNET_ROOT ASSEMBLY [ARGUMENT...]
// Runs the assembly's Main on a thread of its own, as a host with a user interface would, and ends with it.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct initialize_parameters {
    size_t size;
    const char *host_path;
    const char *dotnet_root;
};

typedef int32_t (*initialize)(int count, const char **arguments, const struct initialize_parameters *parameters, void **context);
typedef int32_t (*run_app)(void *context);
typedef int32_t (*close_context)(void *context);

struct application {
    run_app run;
    void *context;
    int32_t status;
};

static void *run(void *argument)
{
    struct application *application = argument;
    application->status = application->run(application->context);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 4) {
        fprintf(stderr, "usage: host LIBHOSTFXR DOTNET_ROOT ASSEMBLY [ARGUMENT...]\n");
        return 2;
    }
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 1;
    }
    initialize start = (initialize)dlsym(library, "hostfxr_initialize_for_dotnet_command_line");
    struct application application = {(run_app)dlsym(library, "hostfxr_run_app"), NULL, 0};
    close_context end = (close_context)dlsym(library, "hostfxr_close");
    if (start == NULL || application.run == NULL || end == NULL) {
        fprintf(stderr, "host: %s is not a hostfxr of .NET Core 3.0 or newer\n", arguments[1]);
        return 1;
    }
    struct initialize_parameters parameters = {sizeof parameters, arguments[0], arguments[2]};
    int32_t status = start(count - 3, (const char **)arguments + 3, &parameters, &application.context);
    if (status < 0 || application.context == NULL) {
        fprintf(stderr, "host: initialising answered 0x%08x\n", (unsigned)status);
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, &application) != 0)
        return 1;
    pthread_join(thread, NULL);
    end(application.context);
    return application.status;
}
