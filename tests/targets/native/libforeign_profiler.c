// Somebody else's profiler: what Remora must stand beside, and leave in peace.
//
// Its CLSID says what it is: ...01 the main profiler, ...02 notification-only.
// Client data (or FOREIGN_PROFILER_SOCKET, when it is loaded at the start) is the path of a Unix socket that a test listens on.
// It obeys one line at a time: `gc` forces three collections, `counts` tells the callbacks so far, `sigprof on` and `sigprof off` sample
// by SIGPROF as vendors do, `sigprof count` tells how often, `detach` asks for its own detach. When it is gone it says `detached`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

typedef int32_t HRESULT;
typedef struct { uint8_t bytes[16]; } GUID;

enum {
    S_OK = 0,
    HIGH_BASIC_GC = 0x10,
    CALLBACK_SLOTS = 98,
    CALLBACK_INITIALIZE = 3,
    CALLBACK_GC_STARTED = 73,
    CALLBACK_GC_FINISHED = 75,
    CALLBACK_INITIALIZE_FOR_ATTACH = 80,
    CALLBACK_ATTACH_COMPLETE = 81,
    CALLBACK_DETACH_SUCCEEDED = 82,
    CALLBACK_NOTIFICATION_ONLY = 97,
    INFO_FORCE_GC = 28,
    INFO_REQUEST_DETACH = 58,
    INFO_SET_EVENT_MASK_2 = 82,
    DETACH_MILLISECONDS = 300,
    SAMPLE_MICROSECONDS = 5000,
};
#define E_FAIL ((HRESULT)0x80004005)
#define E_NOINTERFACE ((HRESULT)0x80004002)
#define CLASS_E_CLASSNOTAVAILABLE ((HRESULT)0x80040111)

typedef void (*slot)(void);

struct object {
    const slot *vtable;
};

struct profiler {
    struct object object;
    atomic_int references;
    int notification_only;
    struct object *info;
    int socket;
    atomic_int attached, collections_started, collections_finished;
};

struct factory {
    struct object object;
    int notification_only;
};

static const GUID info5 = {{0x28, 0x29, 0x60, 0x07, 0x38, 0xce, 0x83, 0x4b, 0x81, 0xe7, 0x74, 0xad, 0xaf, 0x78, 0x12, 0x14}};
static atomic_long sampled;
static struct sigaction before_sampling;

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *argument, void *library);

static HRESULT query(struct object *object, const GUID *iid, void **out)
{
    return ((HRESULT(*)(struct object *, const GUID *, void **))object->vtable[0])(object, iid, out);
}

static HRESULT force_gc(struct object *info)
{
    return ((HRESULT(*)(struct object *))info->vtable[INFO_FORCE_GC])(info);
}

static void on_sample(int signal)
{
    (void)signal;
    atomic_fetch_add(&sampled, 1);
}

static void sample(int on)
{
    struct itimerval period = {{0, on ? SAMPLE_MICROSECONDS : 0}, {0, on ? SAMPLE_MICROSECONDS : 0}};
    if (on) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_sample;
        action.sa_flags = SA_RESTART;
        sigaction(SIGPROF, &action, &before_sampling);
    }
    setitimer(ITIMER_PROF, &period, NULL);
    /* The handler stays when the timer stops: a signal may be under way. */
}

static HRESULT three_collections(struct profiler *self)
{
    for (int i = 0; i < 3; i++) {
        HRESULT result = force_gc(self->info);
        if (result < 0)
            return result;
    }
    return S_OK;
}

/* Obeys one order; returns whether it was the last. */
static int obey(struct profiler *self, const char *order)
{
    HRESULT result = S_OK;
    int last = 0;
    if (strcmp(order, "counts") == 0) {
        dprintf(self->socket, "%d %d %d\n", atomic_load(&self->attached), atomic_load(&self->collections_started),
                atomic_load(&self->collections_finished));
        return 0;
    }
    if (strcmp(order, "sigprof count") == 0) {
        dprintf(self->socket, "%ld\n", atomic_load(&sampled));
        return 0;
    }
    if (strcmp(order, "gc") == 0)
        result = three_collections(self);
    else if (strcmp(order, "sigprof on") == 0)
        sample(1);
    else if (strcmp(order, "sigprof off") == 0)
        sample(0);
    else if (strcmp(order, "detach") == 0) {
        struct object *info = self->info;
        result = ((HRESULT(*)(struct object *, uint32_t))info->vtable[INFO_REQUEST_DETACH])(info, DETACH_MILLISECONDS);
        last = result >= 0;
    } else
        result = E_FAIL;
    dprintf(self->socket, "0x%08x\n", (unsigned)result);
    return last;
}

/* The thread of the profiler. It keeps the library mapped until libc itself has the last word. */
static void *obey_all(void *argument)
{
    struct profiler *self = argument;
    Dl_info own;
    if (dladdr((void *)obey_all, &own) != 0) {
        void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        __cxa_thread_atexit_impl((void (*)(void *))(slot)dlclose, library, (void *)dlclose);
    }
    FILE *orders = fdopen(dup(self->socket), "r");
    char line[256];
    while (orders != NULL && fgets(line, sizeof line, orders) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (obey(self, line))
            break;
    }
    if (orders != NULL)
        fclose(orders);
    return NULL;
}

static HRESULT begin(struct profiler *self, struct object *info, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path || query(info, &info5, (void **)&self->info) < 0)
        return E_FAIL;
    strcpy(address.sun_path, path);
    self->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(self->socket, (struct sockaddr *)&address, sizeof address) != 0)
        return E_FAIL;
    struct object *all = self->info;
    HRESULT result = ((HRESULT(*)(struct object *, uint32_t, uint32_t))all->vtable[INFO_SET_EVENT_MASK_2])(all, 0, HIGH_BASIC_GC);
    if (result < 0)
        return result;
    pthread_attr_t detached;
    pthread_t thread;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, &before);
    int failed = pthread_create(&thread, &detached, obey_all, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? E_FAIL : S_OK;
}

static HRESULT initialize(struct profiler *self, struct object *info)
{
    const char *path = getenv("FOREIGN_PROFILER_SOCKET");
    HRESULT result = path == NULL ? E_FAIL : begin(self, info, path);
    atomic_store(&self->attached, result >= 0);
    return result;
}

static HRESULT initialize_for_attach(struct profiler *self, struct object *info, const void *data, uint32_t length)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    if (length >= sizeof path)
        return E_FAIL;
    memcpy(path, data, length);
    path[length] = 0;
    return begin(self, info, path);
}

static HRESULT attach_complete(struct profiler *self)
{
    atomic_store(&self->attached, 1);
    return S_OK;
}

static HRESULT detach_succeeded(struct profiler *self)
{
    dprintf(self->socket, "detached\n");
    close(self->socket);
    return S_OK;
}

static HRESULT collection_started(struct profiler *self)
{
    atomic_fetch_add(&self->collections_started, 1);
    return S_OK;
}

static HRESULT collection_finished(struct profiler *self)
{
    atomic_fetch_add(&self->collections_finished, 1);
    return S_OK;
}

static HRESULT notification_only(struct profiler *self, int32_t *answer)
{
    *answer = self->notification_only;
    return S_OK;
}

static HRESULT nothing(void)
{
    return S_OK;
}

/* Each interface of the chain is served by the one vtable, so every question but the unknown is answered by the object itself. */
static HRESULT query_profiler(struct profiler *self, const GUID *iid, void **out)
{
    (void)iid;
    atomic_fetch_add(&self->references, 1);
    *out = self;
    return S_OK;
}

static uint32_t add_profiler(struct profiler *self)
{
    return (uint32_t)atomic_fetch_add(&self->references, 1) + 1;
}

static uint32_t release_profiler(struct profiler *self)
{
    int left = atomic_fetch_sub(&self->references, 1) - 1;
    if (left == 0)
        free(self);
    return (uint32_t)left;
}

static slot callback_slots[CALLBACK_SLOTS];

static void fill_callbacks(void)
{
    for (int i = 0; i < CALLBACK_SLOTS; i++)
        callback_slots[i] = (slot)nothing;
    callback_slots[0] = (slot)query_profiler;
    callback_slots[1] = (slot)add_profiler;
    callback_slots[2] = (slot)release_profiler;
    callback_slots[CALLBACK_INITIALIZE] = (slot)initialize;
    callback_slots[CALLBACK_GC_STARTED] = (slot)collection_started;
    callback_slots[CALLBACK_GC_FINISHED] = (slot)collection_finished;
    callback_slots[CALLBACK_INITIALIZE_FOR_ATTACH] = (slot)initialize_for_attach;
    callback_slots[CALLBACK_ATTACH_COMPLETE] = (slot)attach_complete;
    callback_slots[CALLBACK_DETACH_SUCCEEDED] = (slot)detach_succeeded;
    callback_slots[CALLBACK_NOTIFICATION_ONLY] = (slot)notification_only;
}

static HRESULT query_factory(struct factory *self, const GUID *iid, void **out)
{
    (void)iid;
    *out = self;
    return S_OK;
}

static uint32_t one(void)
{
    return 1;
}

static HRESULT create(struct factory *self, void *outer, const GUID *iid, void **out)
{
    (void)outer;
    (void)iid;
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    pthread_once(&filled, fill_callbacks);
    struct profiler *profiler = calloc(1, sizeof *profiler);
    if (profiler == NULL)
        return E_FAIL;
    profiler->object.vtable = callback_slots;
    profiler->notification_only = self->notification_only;
    atomic_store(&profiler->references, 1);
    *out = profiler;
    return S_OK;
}

static const slot factory_slots[] = {(slot)query_factory, (slot)one, (slot)one, (slot)create, (slot)nothing};

/* The entry that the runtime looks for. */
HRESULT DllGetClassObject(const GUID *clsid, const GUID *iid, void **out)
{
    static struct factory main_factory = {{factory_slots}, 0};
    static struct factory notification_factory = {{factory_slots}, 1};
    (void)iid;
    switch (clsid->bytes[15]) {
    case 1: *out = &main_factory; return S_OK;
    case 2: *out = &notification_factory; return S_OK;
    default: *out = NULL; return CLASS_E_CLASSNOTAVAILABLE;
    }
}
