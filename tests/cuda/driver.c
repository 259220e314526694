// libcuda.so.1: what the program and libtorch ask the driver.
#include "standin.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { INVALID_DEVICE = 101, NOT_SUPPORTED = 801, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, DEVICE_ORDINAL = 9 };

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = standin_driver(); return 0; }
int cuDeviceGetCount(int *count) { *count = standin_devices(); return 0; }
int cuDeviceGet(int *device, int i) {
  if (i < 0 || i >= standin_devices()) return INVALID_DEVICE;
  *device = i;
  return 0;
}
int cuDeviceGetName(char *to, int room, int device) {
  (void)device;
  snprintf(to, room, "%s", standin_name());
  return 0;
}
#ifdef STANDIN_HIP // sixteen digits of the number that rocm-smi calls unique
int cuDeviceGetUuid_v2(unsigned char *to, int device) {
  char digits[17];
  snprintf(digits, sizeof digits, "%016lx", standin_unique(device));
  memcpy(to, digits, 16);
  return 0;
}
#else
int cuDeviceGetUuid_v2(unsigned char *to, int device) { standin_uuid(device, to); return 0; }
int cuDeviceGetUuid(unsigned char *to, int device) { return cuDeviceGetUuid_v2(to, device); }
#endif
int cuDeviceGetAttribute(int *value, int which, int device) {
  int capability = standin_capability(device);
  *value = which == CAPABILITY_MAJOR ? capability / 10 : which == CAPABILITY_MINOR ? capability % 10 : 0;
  return 0;
}
static void *const CONTEXT = (void *)16;
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  (void)device;
  if (flags) *flags = 0;
  *active = 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = CONTEXT; return 0; }
int cuCtxGetCurrent(void **context) { *context = CONTEXT; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuGetErrorString(int code, const char **text) { *text = code ? "an error of the stand-in" : "no error"; return 0; }
int cuPointerGetAttribute(void *value, int which, uint64_t at) {
  (void)at;
  *(uint64_t *)value = which == DEVICE_ORDINAL ? 0 : (uint64_t)CONTEXT;
  return 0;
}

// ---- modules: machine code of the stand-in's NVRTC, which is a library of this host

enum { INVALID_IMAGE = 200, INVALID_VALUE = 1, NOT_FOUND = 500 };

typedef struct Function {
  char name[64];
  void (*run)(void **given, unsigned blocks, unsigned threads);
  unsigned arguments, writes;
} Function;

int cuModuleLoadData(void **module, const void *image) {
  const Elf64_Ehdr *head = image;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG)) return INVALID_IMAGE;
  size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  int file = memfd_create("cuda-module", 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || write(file, image, size) != (ssize_t)size) return INVALID_IMAGE;
  *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*module) standin_violation("a module that can't be loaded: %s", dlerror());
  else standin_count("module", "loaded", size);
  return *module ? 0 : INVALID_IMAGE; // the file stays open: another of this name would be taken for this one
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, const int *options, void **values) {
  (void)count, (void)options, (void)values;
  return cuModuleLoadData(module, image);
}
int cuModuleUnload(void *module) { (void)module; return 0; } // a graph may still launch its functions

int cuModuleGetFunction(void **out, void *module, const char *name) {
  char symbol[96];
  Function *f = calloc(1, sizeof *f);
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(symbol, sizeof symbol, "host_%s", name);
  *(void **)&f->run = dlsym(module, symbol);
  snprintf(symbol, sizeof symbol, "arguments_%s", name);
  const unsigned *arguments = dlsym(module, symbol);
  if (!f->run || !arguments) return NOT_FOUND;
  f->arguments = *arguments & 255;
  f->writes = *arguments >> 8;
  *out = f;
  return 0;
}

typedef struct {
  const Function *function;
  unsigned blocks, threads;
  void *values[32], *given[32];
} Launch;

static void run_launch(void *data) {
  Launch *l = data;
  l->function->run(l->given, l->blocks, l->threads);
}

/** The arguments are addresses of device memory, all of them. */
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **given, void **extra) {
  const Function *f = function;
  if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra || f->arguments > 24) {
    standin_violation("a launch of %s as %u x %u x %u blocks of %u x %u x %u threads", f->name, gx, gy, gz, bx, by, bz);
    return INVALID_VALUE;
  }
  int code = standin_operator(f->name, stream);
  if (code) return code;
  Launch *l = calloc(1, sizeof *l); // a graph keeps it
  *l = (Launch){.function = f, .blocks = gx, .threads = bx};
  for (unsigned i = 0; i < f->arguments; i++) {
    const void *at = *(void **)given[i];
    if (!standin_owns(at, 4, f->name, "an argument")) return INVALID_VALUE;
    standin_access(stream, at, 4, f->writes >> i & 1, f->name, i == 0);
    l->values[i] = standin_bytes(at);
    l->given[i] = &l->values[i];
  }
  standin_host_work(f->name, stream, run_launch, l);
  return 0;
}

// Virtual memory, multicast and the driver's own writes: not there.
#define NOT_HERE(name) int name(void) { standin_count("stub", #name, 0); return NOT_SUPPORTED; }
NOT_HERE(cuMemAddressReserve) NOT_HERE(cuMemRelease) NOT_HERE(cuMemMap) NOT_HERE(cuMemAddressFree) NOT_HERE(cuMemSetAccess)
NOT_HERE(cuMemUnmap) NOT_HERE(cuMemCreate) NOT_HERE(cuMemGetAllocationGranularity) NOT_HERE(cuMemExportToShareableHandle)
NOT_HERE(cuMulticastCreate) NOT_HERE(cuMemGetAddressRange) NOT_HERE(cuStreamWriteValue32)
