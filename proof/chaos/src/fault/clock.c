/* Adds the milliseconds in the file that DELAYQ_CHAOS_CLOCK names to the time of day of a process, and counts behind
   them how often somebody was given such a time. Everything else, the monotonic clock above all, stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    int64_t shift;
    int64_t given;
};

static volatile struct page *page;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("DELAYQ_CHAOS_CLOCK");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) page = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    int is_time_of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result != 0 || !page || !is_time_of_day) return result;
    int64_t ms = page->shift;
    if (ms == 0) return result;
    __atomic_fetch_add(&page->given, 1, __ATOMIC_RELAXED);
    time->tv_sec += ms / 1000;
    time->tv_nsec += ms % 1000 * 1000000;
    if (time->tv_nsec < 0) {
        time->tv_nsec += 1000000000;
        time->tv_sec -= 1;
    } else if (time->tv_nsec >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec += 1;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
