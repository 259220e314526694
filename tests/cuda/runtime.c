// Settings, counts, errors and devices of the CUDA runtime's stand-in.
#include "runtime.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef STANDIN_HIP
#define RUNTIME_VERSION 70226015 // as ROCm writes 7.2
#define STANDIN_NAME "HIP stand-in (no GPU)"
#else
#define RUNTIME_VERSION CUDART_VERSION
#define STANDIN_NAME "CUDA stand-in (no GPU)"
#endif

Settings settings = {.devices = 1, .visible = {0, 1, 2, 3, 4, 5, 6, 7}, .memory = 8ull << 30};
pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
__thread int device_now;
static __thread cudaError_t last_error;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// ---- counts: in a file, where one is named, which outlives _exit

typedef struct {
  char name[232];
  uint64_t used, count, bytes;
} Counter; // 256 bytes
#define COUNTERS 8192
static Counter *counters;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const char *text) {
  uint64_t h = 1469598103934665603ull;
  for (; *text; text++) h = (h ^ (uint8_t)*text) * 1099511628211ull;
  return h;
}

static Counter *counter(const char *kind, const char *name) {
  char key[232];
  int length = snprintf(key, sizeof key, "%s:%s", kind, name);
  // Kernels' names are long: a hash at the end keeps them apart.
  if (length >= (int)sizeof key) snprintf(key + sizeof key - 18, 18, "#%016lx", hash_of(name));
  pthread_mutex_lock(&counting);
  Counter *c = &counters[hash_of(key) % COUNTERS];
  while (c->used && strcmp(c->name, key)) c = c + 1 == counters + COUNTERS ? counters : c + 1;
  if (!c->used) {
    strcpy(c->name, key);
    c->used = 1;
  }
  pthread_mutex_unlock(&counting);
  return c;
}

void standin_count(const char *kind, const char *name, uint64_t bytes) {
  standin_open();
  Counter *c = counter(kind, name);
  __atomic_add_fetch(&c->count, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&c->bytes, bytes, __ATOMIC_RELAXED);
}

void gauge(const char *name, int64_t by) {
  Counter *c = counter("live", name);
  uint64_t now = __atomic_add_fetch(&c->count, by, __ATOMIC_RELAXED);
  if (now > c->bytes) c->bytes = now; // the most at a time
}

size_t standin_report(char *to, size_t room) {
  size_t length = 0;
  standin_open();
  for (int i = 0; i < COUNTERS; i++) {
    const Counter *c = &counters[i];
    if (!c->used) continue;
    size_t left = length < room ? room - length : 0;
    length += snprintf(to + (left ? length : 0), left, "%s\t%lu\t%lu\n", c->name, c->count, c->bytes);
  }
  return length;
}

/** Gauges keep their count; their most begins anew. */
void standin_reset(void) {
  standin_open();
  for (int i = 0; i < COUNTERS; i++) {
    Counter *c = &counters[i];
    if (!c->used) continue;
    if (!strncmp(c->name, "live:", 5)) c->bytes = c->count;
    else c->count = c->bytes = 0;
  }
}

void standin_violation(const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  standin_count("VIOLATION", text, 0);
  dprintf(2, "[cuda stand-in] VIOLATION: %s\n", text);
  if (!getenv("CUDA_STANDIN_BACKTRACE")) return;
  void *frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), 2);
}

// ---- errors

/** CUDA_STANDIN_FAIL=NAME:CALL:CODE, e.g. cudaEventRecord:12:719. */
static struct {
  char name[96];
  long call;
  cudaError_t code;
} demand;
static long demanded;
/** A device that has failed fails every call from then on; out of memory passes. */
static cudaError_t lost;

static void demand_failure(const char *text) {
  demanded = 0;
  lost = 0;
  memset(&demand, 0, sizeof demand);
  if (!text || sscanf(text, "%95[^:]:%ld:%d", demand.name, &demand.call, (int *)&demand.code) != 3) demand.name[0] = 0;
}

int standin_call(const char *name) {
  standin_open();
  standin_count("call", name, 0);
  if (lost) return failed(lost);
  if (!demand.name[0] || strcmp(name, demand.name)) return 0;
  if (__atomic_add_fetch(&demanded, 1, __ATOMIC_RELAXED) != demand.call) return 0;
  standin_count("failed", name, 0);
  if (demand.code != cudaErrorMemoryAllocation) lost = demand.code;
  return failed(demand.code);
}

cudaError_t failed(cudaError_t code) {
  if (code && code != cudaErrorNotReady) last_error = code;
  return code;
}

cudaError_t wrong(cudaError_t code, const char *format, ...) {
  char text[800];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  standin_violation("%s", text);
  return failed(code);
}

cudaError_t cudaGetLastError(void) {
  cudaError_t code = last_error;
  last_error = lost;
  return code;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

#ifdef STANDIN_HIP
#define PLATFORM "ROCm"
#define ERROR_NAME "hip"
#else
#define PLATFORM "CUDA"
#define ERROR_NAME "cuda"
#endif
#define ERRORS(X)                                                                                  \
  X(Success, "no error")                                                                           \
  X(ErrorInvalidValue, "invalid argument")                                                         \
  X(ErrorMemoryAllocation, "out of memory")                                                        \
  X(ErrorInvalidConfiguration, "invalid configuration argument")                                   \
  X(ErrorInvalidDevice, "invalid device ordinal")                                                  \
  X(ErrorInvalidResourceHandle, "invalid resource handle")                                         \
  X(ErrorNotReady, "device not ready")                                                             \
  X(ErrorNotSupported, "operation not supported")                                                  \
  X(ErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")             \
  X(ErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")      \
  X(ErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                              \
  X(ErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream") \
  X(ErrorInvalidDeviceFunction, "invalid device function")                                         \
  X(ErrorInvalidSymbol, "invalid device symbol")                                                   \
  X(ErrorIllegalAddress, "an illegal memory access was encountered")                               \
  X(ErrorIllegalState, "the operation cannot be performed in the present state")                   \
  X(ErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable")                  \
  X(ErrorNoDevice, "no " PLATFORM "-capable device is detected")                                   \
  X(ErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")       \
  X(ErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
  X(ErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")     \
  X(ErrorLaunchFailure, "unspecified launch failure")                                              \
  X(ErrorECCUncorrectable, "uncorrectable ECC error encountered")                                  \
  X(ErrorUnknown, "unknown error")
#define NAME_CASE(name, text) case cuda##name: return ERROR_NAME #name;
#define TEXT_CASE(name, text) case cuda##name: return text;
const char *cudaGetErrorName(cudaError_t code) {
  switch (code) { ERRORS(NAME_CASE) default: return "unrecognized error code"; }
}
const char *cudaGetErrorString(cudaError_t code) {
  switch (code) { ERRORS(TEXT_CASE) default: return "unrecognized error code"; }
}

// ---- settings

static void open_counters(void) {
  const char *file = getenv("CUDA_STANDIN_COUNTS");
  counters = MAP_FAILED;
  if (file && *file) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", file, getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    size_t bytes = COUNTERS * sizeof(Counter);
    if (fd >= 0 && ftruncate(fd, bytes) == 0) counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
  }
  if (counters == MAP_FAILED) counters = calloc(COUNTERS, sizeof(Counter));
}

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? atol(text) : otherwise;
}

/** The number of the device that this names: its number, or the beginning of its GPU-... or MIG-...; -1 for none. */
static int device_named(const char *name) {
  if (*name >= '0' && *name <= '9') return atoi(name) < MOST_DEVICES ? atoi(name) : -1;
  for (int d = 0; d < MOST_DEVICES; d++) {
    char text[64] = "GPU-";
    for (int i = 0; i < 16; i++) sprintf(text + strlen(text), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", 0xd0 + i + d);
    if (strlen(name) > 4 && !strncmp(name + 4, text + 4, strlen(name + 4))) return d;
  }
  return -1;
}

/** As the driver does it: devices up to the first name that it does not know. Names are of those that are there by now. */
static void take_visible(const char *names) {
  int all = settings.devices, before[MOST_DEVICES];
  if (!names) return;
  memcpy(before, settings.visible, sizeof before);
  settings.devices = 0;
  char text[512];
  snprintf(text, sizeof text, "%s", names);
  for (char *rest = text, *name; (name = strsep(&rest, ",")) && settings.devices < all;) {
    int device = *name ? device_named(name) : -1;
    if (device < 0 || device >= all) return;
    settings.visible[settings.devices++] = before[device];
  }
}

/** "80", or one for each device: "80,70". */
static void take_capabilities(const char *text) {
  for (int d = 0, now = 80; d < MOST_DEVICES; d++) {
    if (text && *text) now = strtol(text, (char **)&text, 10);
    if (text && *text == ',') text++;
    settings.capability[d] = now;
  }
}

static void open_all(void) {
  settings.late = number("CUDA_STANDIN_LATE", 0);
  settings.zeros = number("CUDA_STANDIN_ZEROS", 0);
  settings.tick_ms = number("CUDA_STANDIN_TICK_MS", 0);
  settings.devices = number("CUDA_STANDIN_DEVICES", settings.devices);
  if (settings.devices > MOST_DEVICES) settings.devices = MOST_DEVICES;
  take_capabilities(getenv("CUDA_STANDIN_CAPABILITY"));
#ifdef STANDIN_HIP // ROCr hides devices from HIP, which numbers the rest from 0 and takes "" for nothing said
  take_visible(getenv("ROCR_VISIBLE_DEVICES"));
  const char *names = getenv("HIP_VISIBLE_DEVICES");
  if (!names || !*names) names = getenv("CUDA_VISIBLE_DEVICES");
  take_visible(names && *names ? names : NULL);
#else
  take_visible(getenv("CUDA_VISIBLE_DEVICES"));
#endif
  settings.driver = number("CUDA_STANDIN_DRIVER", RUNTIME_VERSION);
  settings.taken = (uint64_t)number("CUDA_STANDIN_TAKEN_MIB", 0) << 20;
  settings.memory = (uint64_t)number("CUDA_STANDIN_MEMORY_MIB", settings.memory >> 20) << 20;
  demand_failure(getenv("CUDA_STANDIN_FAIL"));
  open_counters();
  open_memory();
  pthread_t thread;
  if (pthread_create(&thread, NULL, ticking, NULL) == 0) pthread_detach(thread);
}

void standin_open(void) { pthread_once(&once, open_all); }

void standin_set(const char *what, const char *value) {
  LOCK();
  for (int d = 0; d < settings.devices; d++) run_device(d);
  if (!strcmp(what, "late")) settings.late = atoi(value);
  if (!strcmp(what, "tick_ms")) settings.tick_ms = atoi(value);
  if (!strcmp(what, "fail")) {
    demand_failure(value);
    last_error = 0;
  }
  UNLOCK();
}

int standin_is_late(void) { return settings.late; }
int standin_devices(void) { standin_open(); return settings.devices; }
int standin_capability(int device) { standin_open(); return settings.capability[settings.visible[device]]; }
int standin_driver(void) { standin_open(); return settings.driver; }
uint64_t standin_memory(void) { standin_open(); return settings.memory; }
const char *standin_name(void) {
  const char *name = getenv("CUDA_STANDIN_NAME");
  if (name && !strcmp(name, "-")) return "";
  return name && *name ? name : STANDIN_NAME;
}
void standin_uuid(int device, unsigned char *sixteen) {
  for (int i = 0; i < 16; i++) sixteen[i] = 0xd0 + i + settings.visible[device];
}

uint64_t standin_unique(int device) { return 0xd0d1d2d3d4d5d600ull + settings.visible[device]; }

int standin_stub(const char *library, const char *name) {
  char text[160];
  snprintf(text, sizeof text, "%s of %s", name, library);
  standin_count("stub", text, 0);
  return 0;
}

// ---- devices

#ifndef STANDIN_HIP
/** NVIDIA's driver names its threads by such files, and does not begin where it may not write to them. */
static int names_threads(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", getpid(), getpid());
  int comm = open(path, O_RDWR | O_CLOEXEC);
  if (comm >= 0) close(comm);
  return comm >= 0;
}
#endif

#ifndef STANDIN_HIP
/** It asks a server that shares GPUs, does without where none answers, and does not begin where it may not ask. */
static int asks_for_server(void) {
  struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/tmp/nvidia-mps/control"};
  int asks = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (asks < 0) return 0;
  int found = connect(asks, (struct sockaddr *)&at, sizeof at), why = errno;
  close(asks);
  return found == 0 || why == ENOENT || why == ECONNREFUSED;
}
#endif

cudaError_t cudaGetDeviceCount(int *count) {
  CALL(cudaGetDeviceCount);
#ifdef STANDIN_HIP // it knows no driver that is too old
  if (!settings.driver) return failed(cudaErrorNoDevice);
#else
  if (settings.driver / 1000 < CUDART_VERSION / 1000) return failed(cudaErrorInsufficientDriver);
  if (!names_threads() || !asks_for_server()) return failed(cudaErrorOperatingSystem);
#endif
  *count = settings.devices;
  return settings.devices ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) {
  standin_open();
  *device = device_now;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  CALL(cudaSetDevice);
  if (device < 0 || device >= settings.devices) return wrong(cudaErrorInvalidDevice, "cudaSetDevice(%d)", device);
  device_now = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *yes, int a, int b) {
  *yes = a != b;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags) {
  (void)device, (void)flags;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  standin_open();
  *version = settings.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = RUNTIME_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *to, int room, int device) {
  snprintf(to, room, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  CALL(cudaGetDeviceProperties);
  if (device < 0 || device >= settings.devices) return failed(cudaErrorInvalidDevice);
  *p = (struct cudaDeviceProp){
      .totalGlobalMem = settings.memory, .sharedMemPerBlock = 48 << 10, .sharedMemPerBlockOptin = 163 << 10,
      .sharedMemPerMultiprocessor = 164 << 10, .regsPerBlock = 65536, .regsPerMultiprocessor = 65536, .warpSize = 32,
      .memPitch = 2147483647, .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {2147483647, 65535, 65535}, .totalConstMem = 65536, .major = standin_capability(device) / 10,
      .minor = standin_capability(device) % 10, .multiProcessorCount = 108, .canMapHostMemory = 1, .concurrentKernels = 1,
      .unifiedAddressing = 1, .streamPrioritiesSupported = 1, .cooperativeLaunch = 1, .asyncEngineCount = 3,
      .pciBusID = device + 1, .l2CacheSize = 40 << 20, .maxThreadsPerMultiProcessor = 2048,
      .maxBlocksPerMultiProcessor = 32, .textureAlignment = 512, .texturePitchAlignment = 32, .memoryBusWidth = 5120,
  };
  strcpy(p->name, standin_name());
  standin_uuid(device, (unsigned char *)p->uuid.bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
  struct cudaDeviceProp p;
  CALL(cudaDeviceGetAttribute);
  cudaError_t code = cudaGetDeviceProperties(&p, device);
  if (code) return code;
#ifdef STANDIN_HIP // by the numbers of HIP; libtorch asks by CUDA's
  if ((int)which == 23 || (int)which == 61) return *value = (int)which == 23 ? 9 : 0, cudaSuccess;
#endif
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = p.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrClockRate: *value = 1410000; break;
    case cudaDevAttrUnifiedAddressing: case cudaDevAttrCooperativeLaunch: case cudaDevAttrConcurrentKernels: *value = 1; break;
    default: *value = 0; standin_count("attribute not known", "cudaDeviceGetAttribute", which);
  }
  return cudaSuccess;
}

static int no_such_function(void) {
  standin_count("stub", "a function of the driver", 0);
  return cudaErrorNotSupported;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
  (void)version, (void)flags;
  CALL(cudaGetDriverEntryPointByVersion);
#ifdef STANDIN_HIP // the runtime is the driver
  char in_hip[128];
  snprintf(in_hip, sizeof in_hip, "hip%s", name + strlen("cu"));
  *function = dlsym(RTLD_DEFAULT, in_hip);
#else
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
  *function = driver ? dlsym(driver, name) : NULL;
#endif
  if (!*function) *function = (void *)no_such_function;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, result);
}
#endif

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
  static int pools[MOST_DEVICES];
  *pool = (cudaMemPool_t)&pools[device];
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value) {
  (void)pool, (void)which;
  *(uint64_t *)value = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType which, void *value) {
  (void)device, (void)which;
  *(uint64_t *)value = 0;
  return cudaSuccess;
}
