// Stands between a program and the system's file calls (LD_PRELOAD): those on chosen paths are counted, and the ones that
// are asked for fail with the errno that is asked for. What is asked lies in a file that both sides see.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

// file_faults.ts has their names in the same order.
enum call {
  OPEN, READ, WRITE, FSYNC, FTRUNCATE, LSEEK, CLOSE, STAT, FSTAT, RENAME, UNLINK, MKDIR, RMDIR, LINK, REALPATH, OPENDIR,
  READDIR, STATFS, COPY, FLOCK, CALLS
};

struct plan {
  _Atomic uint32_t armed, call, first, last, error; // from the first to the last call of that kind, numbered from 1
  _Atomic uint32_t failed, counts[CALLS];
  char path[1024]; // calls on paths with this in them are meant
};

static struct plan *plan;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("FILE_FAULTS");
  int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) plan = at;
}

static int fails(enum call call, const char *path) {
  if (!plan || !plan->armed || !path || !strstr(path, plan->path)) return 0;
  uint32_t number = atomic_fetch_add(&plan->counts[call], 1) + 1;
  if (plan->call != call || number < plan->first || number > plan->last) return 0;
  atomic_fetch_add(&plan->failed, 1);
  errno = (int)plan->error;
  return 1;
}

// The same of an open file, by the name that it has now.
static int fails_at(enum call call, int fd) {
  static ssize_t (*name_of)(const char *, char *, size_t);
  if (!plan || !plan->armed) return 0;
  if (!name_of) name_of = dlsym(RTLD_NEXT, "readlink");
  char link[32], path[1100];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int before = errno;
  ssize_t got = name_of(link, path, sizeof path - 1);
  errno = before;
  if (got < 0) return 0;
  path[got] = 0;
  return fails(call, path);
}

#define WRAP(result, name, parameters, arguments, test, error)                                                         \
  result name parameters {                                                                                             \
    static result(*real) parameters;                                                                                   \
    if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                                   \
    if (test) return error;                                                                                            \
    return real arguments;                                                                                             \
  }
#define ON_PATH(call, name, parameters, arguments) WRAP(int, name, parameters, arguments, fails(call, path), -1)
#define ON_FILE(result, call, name, parameters, arguments)                                                             \
  WRAP(result, name, parameters, arguments, fails_at(call, fd), -1)

#define OPENS(name, types, parameters, ...)                                                                            \
  int name parameters {                                                                                                \
    static int(*real) types;                                                                                           \
    if (!real) real = (int(*) types)dlsym(RTLD_NEXT, #name);                                                           \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                            \
    va_end(more);                                                                                                      \
    return fails(OPEN, path) ? -1 : real(__VA_ARGS__, flags, mode);                                                    \
  }
OPENS(open, (const char *, int, ...), (const char *path, int flags, ...), path)
OPENS(open64, (const char *, int, ...), (const char *path, int flags, ...), path)
OPENS(openat64, (int, const char *, int, ...), (int in, const char *path, int flags, ...), in, path)

ON_FILE(ssize_t, READ, read, (int fd, void *to, size_t size), (fd, to, size))
ON_FILE(ssize_t, READ, readv, (int fd, const struct iovec *to, int count), (fd, to, count))
ON_FILE(ssize_t, READ, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
ON_FILE(ssize_t, WRITE, write, (int fd, const void *from, size_t size), (fd, from, size))
ON_FILE(ssize_t, WRITE, writev, (int fd, const struct iovec *from, int count), (fd, from, count))
ON_FILE(ssize_t, WRITE, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
ON_FILE(int, FSYNC, fsync, (int fd), (fd))
ON_FILE(int, FSYNC, fdatasync, (int fd), (fd))
ON_FILE(int, FTRUNCATE, ftruncate64, (int fd, off64_t size), (fd, size))
ON_FILE(off64_t, LSEEK, lseek64, (int fd, off64_t at, int from), (fd, at, from))
ON_FILE(int, FLOCK, flock, (int fd, int how), (fd, how))
ON_PATH(RENAME, rename, (const char *path, const char *to), (path, to))
ON_PATH(UNLINK, unlink, (const char *path), (path))
ON_PATH(MKDIR, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(RMDIR, rmdir, (const char *path), (path))
ON_PATH(STATFS, statfs64, (const char *path, struct statfs64 *to), (path, to))
ON_PATH(STATFS, statfs, (const char *path, struct statfs *to), (path, to))
ON_PATH(LINK, linkat, (int a, const char *path, int b, const char *to, int flags), (a, path, b, to, flags))
WRAP(char *, realpath, (const char *path, char *to), (path, to), fails(REALPATH, path), NULL)
WRAP(DIR *, opendir, (const char *path), (path), fails(OPENDIR, path), NULL)
WRAP(struct dirent64 *, readdir64, (DIR * folder), (folder), fails_at(READDIR, dirfd(folder)), NULL)
WRAP(ssize_t, copy_file_range, (int fd, off64_t *from, int to, off64_t *at, size_t size, unsigned flags),
     (fd, from, to, at, size, flags), fails_at(COPY, to), -1)
WRAP(ssize_t, sendfile64, (int to, int fd, off64_t *from, size_t size), (to, fd, from, size), fails_at(COPY, to), -1)
WRAP(int, statx, (int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict to),
     (fd, path, flags, mask, to), *path ? fails(STAT, path) : fails_at(FSTAT, fd), -1)

// A network file system tells at the end what it could not write; the descriptor is gone all the same.
int close(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "close");
  int failed = fails_at(CLOSE, fd), error = errno, result = real(fd);
  if (failed) errno = error;
  return failed ? -1 : result;
}
