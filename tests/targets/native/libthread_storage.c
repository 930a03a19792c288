// What each thread keeps in a library, for thread_storage.c: as large as what a runtime keeps.
static __thread long value;
static __thread char rest[400];

long *own_value(void)
{
    rest[0] = 1;
    return &value;
}
