// The end of a library, as MPI's or a profiler's: it takes its time, here SLOW_END_MS milliseconds, and the process
// with it. Only a process that has opened libtorch is slow. SLOW_END names a folder: "begun-PID" is made there first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((destructor)) static void end(void) {
  const char *folder = getenv("SLOW_END"), *ms = getenv("SLOW_END_MS");
  char path[4096];
  if (!folder || !ms || !dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) return;
  snprintf(path, sizeof path, "%s/begun-%d", folder, getpid());
  close(open(path, O_CREAT | O_WRONLY, 0600));
  struct timespec left = {atol(ms) / 1000, atol(ms) % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) { // a signal that is handled comes in between
  }
}
