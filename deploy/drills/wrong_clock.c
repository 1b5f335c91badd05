/* A wrong clock for one process, preloaded by the drill skew: the time of day is off by WRONG_CLOCK_MS milliseconds.

   libfaketime 0.9.10 (Debian 12) does this for other programs, but Python's waits never end under it: it knows no
   sem_clockwait. Here the monotonic clock stays as it is, and with it everything that waits. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    const char *off = getenv("WRONG_CLOCK_MS");
    if (!failed && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long wrong = now->tv_sec * 1000000000LL + now->tv_nsec + atoll(off) * 1000000LL;
        now->tv_sec = wrong / 1000000000LL;
        now->tv_nsec = wrong % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    int failed = clock_gettime(CLOCK_REALTIME, &time);
    (void)zone;
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now)
        *now = time.tv_sec;
    return time.tv_sec;
}
