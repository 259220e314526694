// libnvidia-ml.so.1: what a GPU tells of itself.
#include "standin.h"
#include "cuda_runtime_api.h"
#include <stdio.h>
#include <string.h>

enum { NOT_SUPPORTED = 3 };
static void *const DEVICE = (void *)32;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  standin_count("nvml", uuid, 0);
  *device = DEVICE;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
  standin_count("nvml", bus, 0);
  *device = DEVICE;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { (void)i; *device = DEVICE; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = standin_devices(); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_and_memory) {
  (void)device;
  gpu_and_memory[0] = 50;
  gpu_and_memory[1] = 25;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, uint64_t *total_free_used) {
  (void)device;
  total_free_used[0] = standin_memory();
  total_free_used[1] = standin_free_memory(0);
  total_free_used[2] = total_free_used[0] - total_free_used[1];
  return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) { (void)device, (void)sensor; *celsius = 40; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { (void)device; *milliwatts = 100000; return 0; }
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) { (void)device, (void)which; *mhz = 1410; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *reasons) { (void)device; *reasons = 0; return 0; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *to) { (void)device, (void)to; *count = 0; return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(void) { return NOT_SUPPORTED; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = CUDART_VERSION; return 0; }
