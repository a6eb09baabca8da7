/* Preloaded into a program: its wall clock jumps back by an hour, each second after the start of the process. The
 * monotonic clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

typedef int (*clock_function)(clockid_t, struct timespec *);

static clock_function real;
static struct timespec began;

__attribute__((constructor)) static void begin(void)
{
    real = (clock_function)dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_MONOTONIC, &began);
}

static time_t behind(void)
{
    struct timespec now;
    real(CLOCK_MONOTONIC, &now);
    return 3600 * (now.tv_sec - began.tv_sec);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (real == 0)
        begin();
    int result = real(clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        time->tv_sec -= behind();
    return result;
}

int gettimeofday(struct timeval *time, void *zone)
{
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
