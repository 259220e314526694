// libcuda.so.1: what the program and libtorch ask the driver.
#include "standin.h"
#include <stdio.h>
#include <string.h>

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
int cuDeviceGetUuid_v2(unsigned char *to, int device) { standin_uuid(device, to); return 0; }
int cuDeviceGetUuid(unsigned char *to, int device) { return cuDeviceGetUuid_v2(to, device); }
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

// Virtual memory, multicast and the driver's own writes: not there.
#define NOT_HERE(name) int name(void) { standin_count("stub", #name, 0); return NOT_SUPPORTED; }
NOT_HERE(cuMemAddressReserve) NOT_HERE(cuMemRelease) NOT_HERE(cuMemMap) NOT_HERE(cuMemAddressFree) NOT_HERE(cuMemSetAccess)
NOT_HERE(cuMemUnmap) NOT_HERE(cuMemCreate) NOT_HERE(cuMemGetAllocationGranularity) NOT_HERE(cuMemExportToShareableHandle)
NOT_HERE(cuMulticastCreate) NOT_HERE(cuMemGetAddressRange) NOT_HERE(cuStreamWriteValue32)
