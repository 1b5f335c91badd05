/* Another clock for one process, preloaded by a drill: the time of day is off by WRONG_CLOCK_MS milliseconds, or by as
   many as the file WRONG_CLOCK_FILE holds at the moment, as one 64-bit number.

   libfaketime 0.9.10 (Debian 12) does this for other programs, but Python's waits never end under it: it knows no
   sem_clockwait. Here the monotonic clock stays as it is, and with it everything that waits. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shared;

__attribute__((constructor)) static void map_file(void)
{
    const char *name = getenv("WRONG_CLOCK_FILE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        shared = mapped;
}

static long long off_ms(void)
{
    const char *off = getenv("WRONG_CLOCK_MS");
    return shared ? *shared : off ? atoll(off) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long wrong = now->tv_sec * 1000000000LL + now->tv_nsec + off_ms() * 1000000LL;
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
