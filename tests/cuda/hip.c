// What libamdhip64 has and libcudart has not.
#include "standin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** HIP's record of a device since ROCm 6: 1472 bytes, of which the program reads the name of the architecture alone. */
typedef struct {
  char name[256], uuid[16], rest[888], architecture[256], more[56];
} Properties;

int hipGetDevicePropertiesR0600(Properties *p, int device) {
  const char *architecture = getenv("CUDA_STANDIN_ARCHITECTURE");
  if (device < 0 || device >= standin_devices()) return 101; // hipErrorInvalidDevice
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", standin_name());
  snprintf(p->architecture, sizeof p->architecture, "%s", architecture ? architecture : "gfx90a:sramecc+:xnack-");
  return 0;
}

/**
 * A method of libtorch's whose name has a type of the runtime's in it: the same function under HIP's name. Its call is the
 * last thing here, a jump, so what it throws goes past this library.
 */
void begin_in_hip(void *graph, uint64_t pool, uint64_t zero, int mode) __asm__(
    "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE20hipStreamCaptureMode");
void begin_in_hip(void *graph, uint64_t pool, uint64_t zero, int mode) {
  static void (*in_cuda)(void *, uint64_t, uint64_t, int);
  if (!in_cuda) {
    void *torch = dlopen("libtorch_hip.so", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&in_cuda = dlsym(torch, "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
  }
  in_cuda(graph, pool, zero, mode);
}
