/* A stand-in for NVIDIA's management library: one GPU of known state. NVML_DOUBLE=old has no throttle reasons, as an old
   driver may; NVML_DOUBLE=lost can't be initialised. Built by nvml_double.ts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory_info;

static int device, started;
static int is(const char *mode) {
  const char *set = getenv("NVML_DOUBLE");
  return set && strcmp(set, mode) == 0;
}
static int known(void *d) { return started > 0 && d == &device ? 0 : 2; }

int nvmlInit_v2(void) { if (is("lost")) return 9; started++; return 0; }
int nvmlShutdown(void) { started--; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
  if (started < 1 || strcmp(uuid, "GPU-11223344-5566-7788-99aa-bbccddeeff00") != 0) return 6;
  *out = &device;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *d, utilization *out) { out->gpu = 87; out->memory = 41; return known(d); }
int nvmlDeviceGetMemoryInfo(void *d, memory_info *out) {
  out->total = 80ull << 30; out->free = 50ull << 30; out->used = 30ull << 30;
  return known(d);
}
int nvmlDeviceGetPowerUsage(void *d, unsigned *out) { *out = 312500; return known(d); }
int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *out) { *out = 61; return sensor == 0 ? known(d) : 2; }
int nvmlDeviceGetClockInfo(void *d, unsigned type, unsigned *out) {
  *out = type == 1 ? 1755 : type == 2 ? 2619 : 0;
  return known(d);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *out) {
  *out = 0x1 | 0x4 | 0x40; /* idle, power cap, hardware thermal */
  return is("old") ? 3 : known(d);
}
