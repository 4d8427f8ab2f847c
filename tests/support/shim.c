/* Stands before libc in the ranks of some tests: writes that fail, and a clock that jumps.
   It does nothing until it is told to. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SECOND 1000000000LL

/* -- writes -- */

static char folder[PATH_MAX];
static volatile long fails_from, fails_to, seen_writes;

/* Have writes number `from` to `to` of all those into files below a folder fail with EIO. */
void shim_fail_writes(const char *below, long from, long to) {
    strncpy(folder, below, sizeof folder - 1);
    seen_writes = 0;
    fails_from = from;
    fails_to = to;
}

static int fails(int fd) {
    char link[64], path[PATH_MAX];
    if (!fails_to) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (strncmp(path, folder, strlen(folder))) return 0;
    long n = __sync_add_and_fetch(&seen_writes, 1);
    return fails_from <= n && n <= fails_to;
}

long shim_writes(void) { return seen_writes; }

#define WRITES(name, parameters, arguments)              \
    ssize_t name parameters {                            \
        static __typeof__(&name) next;                   \
        if (!next) next = NEXT(name);                    \
        if (fails(fd)) return errno = EIO, -1;           \
        return next arguments;                           \
    }

WRITES(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITES(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITES(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))

/* -- clocks -- */

static volatile long long wall, monotonic;

/* Let the clocks be so many seconds before what they are. */
void shim_move_clocks(double wall_by, double monotonic_by) {
    wall = wall_by * SECOND;
    monotonic = monotonic_by * SECOND;
}

static long long shift(clockid_t clock) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) return wall;
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW)
        return monotonic;
    return 0;
}

static struct timespec moved(struct timespec t, long long by) {
    long long sum = t.tv_sec * SECOND + t.tv_nsec + by;
    if (sum < 0) sum = 0;
    return (struct timespec){sum / SECOND, sum % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    static __typeof__(&clock_gettime) next;
    if (!next) next = NEXT(clock_gettime);
    int status = next(clock, t);
    long long by = shift(clock);
    if (!status && by) *t = moved(*t, by);
    return status;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

/* The kernel's own clocks have not jumped: what waits until some time is told theirs. */

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    static __typeof__(&clock_nanosleep) next;
    if (!next) next = NEXT(clock_nanosleep);
    if (!(flags & TIMER_ABSTIME)) return next(clock, flags, t, left);
    struct timespec until = moved(*t, -shift(clock));
    return next(clock, flags, &until, left);
}

int sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *t) {
    static __typeof__(&sem_clockwait) next;
    if (!next) next = NEXT(sem_clockwait);
    struct timespec until = moved(*t, -shift(clock));
    return next(s, clock, &until);
}

int sem_timedwait(sem_t *s, const struct timespec *t) {
    return sem_clockwait(s, CLOCK_REALTIME, t);
}

int pthread_cond_clockwait(
    pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *t
) {
    static __typeof__(&pthread_cond_clockwait) next;
    if (!next) next = NEXT(pthread_cond_clockwait);
    struct timespec until = moved(*t, -shift(clock));
    return next(c, m, clock, &until);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    static __typeof__(&pthread_cond_timedwait) next;
    if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = NEXT(pthread_cond_timedwait);
    /* Of which clock it is, its value shows: they are decades apart. */
    struct timespec a, b;
    clock_gettime(CLOCK_REALTIME, &a);
    clock_gettime(CLOCK_MONOTONIC, &b);
    clockid_t clock = llabs((long long)t->tv_sec - a.tv_sec) < llabs((long long)t->tv_sec - b.tv_sec)
        ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec until = moved(*t, -shift(clock));
    return next(c, m, &until);
}
