/* Preloaded into a process, adds SLOW_FSYNC_US microseconds to each fsync and fdatasync: an ordinary disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_a_little(void)
{
    const char *delay = getenv("SLOW_FSYNC_US");
    if (delay)
        usleep((useconds_t)atoi(delay));
}

int fsync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_a_little();
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_a_little();
    return real(descriptor);
}
