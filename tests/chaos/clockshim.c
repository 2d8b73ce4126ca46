/* A clock that is wrong, for one process: LD_PRELOAD this, and the wall clock is off by as many microseconds as the
   file named by CLOCKSHIM_FILE says (a 64-bit integer in the machine's order). The file is mapped, so that a step is
   seen at the next reading. Monotonic clocks are left alone, as they are when a real clock is set. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void) {
  const char *name = getenv("CLOCKSHIM_FILE");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) offset_us = mapped;
  close(file);
}

static void shift(struct timespec *at) {
  int64_t ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + (offset_us ? *offset_us : 0) * 1000;
  at->tv_sec = ns / 1000000000;
  at->tv_nsec = ns % 1000000000;
}

int clock_gettime(clockid_t which, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, which, at);
  if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) shift(at);
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
