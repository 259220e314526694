// Memory of the CUDA stand-in: a device's is addresses that the host may not touch, whose bytes lie elsewhere.
#include "runtime.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/** Addresses of one device. */
#define SPAN (256ull << 30)
#define PAGE 4096ul
/** Nobody owns so much behind each allocation: what writes beyond its end is found. */
#define GAP (2ul << 20)

static char *addresses[MOST_DEVICES], *bytes_of[MOST_DEVICES], *next_free[MOST_DEVICES];
static uint64_t in_use[MOST_DEVICES];
static Block *blocks; // the host's, newest first; those that were freed stay, to be recognised
/** A device's, by their addresses, since none is given out twice. */
static struct {
  Block **all;
  size_t count, room;
} owned[MOST_DEVICES];

int device_of(const void *at) {
  for (int d = 0; d < settings.devices; d++) {
    if ((const char *)at >= addresses[d] && (const char *)at < addresses[d] + SPAN) return d;
  }
  return -1;
}

void *standin_bytes(const void *at) {
  int d = device_of(at);
  return d < 0 ? (void *)at : bytes_of[d] + ((const char *)at - addresses[d]);
}

static Block *device_block(int device, const char *at) {
  Block **all = owned[device].all;
  size_t low = 0, high = owned[device].count; // the first that begins behind `at` lies in this range
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (all[middle]->at <= at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at < all[low - 1]->at + all[low - 1]->size ? all[low - 1] : NULL;
}

/** The live block if there is one. */
Block *block_of(const void *at) {
  int device = device_of(at);
  if (device >= 0) return device_block(device, at);
  Block *dead = NULL;
  for (Block *b = blocks; b; b = b->next) {
    if ((const char *)at < b->at || (const char *)at >= b->at + b->size) continue;
    if (b->live) return b;
    if (!dead) dead = b;
  }
  return dead;
}

static void add_block(char *at, size_t size, Sort sort) {
  Block *b = calloc(1, sizeof *b);
  *b = (Block){.at = at, .size = size, .device = device_now, .live = 1, .sort = sort, .next = blocks};
  if (sort != DEVICE) {
    blocks = b;
    return;
  }
  if (owned[device_now].count == owned[device_now].room) {
    owned[device_now].room = 2 * owned[device_now].room + 1024;
    owned[device_now].all = realloc(owned[device_now].all, owned[device_now].room * sizeof b);
  }
  owned[device_now].all[owned[device_now].count++] = b;
}

// ---- what the host may not touch

static struct sigaction before;

/** Page-locked memory is opened, so that the program goes on, with the wrong bytes; a device's can't be. */
static void touched(int number, siginfo_t *info, void *context) {
  int device = device_of(info->si_addr);
  Block *b = device < 0 ? block_of(info->si_addr) : NULL;
  if (device < 0 && !(b && b->sort == PINNED)) {
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) before.sa_sigaction(number, info, context);
    else signal(SIGSEGV, SIG_DFL);
    return;
  }
  standin_violation(device >= 0 ? "the host touched a device's memory"
                    : !b->live  ? "the host touched page-locked memory that was freed"
                                : "the host touched page-locked memory that a queued copy uses");
  void *frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), 2);
  if (device >= 0) _exit(139);
  mprotect(b->at, b->size, PROT_READ | PROT_WRITE);
}

void guard(Block *b, int writes, int reads) {
  if (!b) return;
  b->writes += writes;
  b->reads += reads;
  mprotect(b->at, b->size, b->writes ? PROT_NONE : b->reads ? PROT_READ : PROT_READ | PROT_WRITE);
}

void open_memory(void) {
  for (int d = 0; d < settings.devices; d++) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    addresses[d] = mmap(NULL, SPAN, PROT_NONE, flags, -1, 0);
    bytes_of[d] = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (addresses[d] == MAP_FAILED || bytes_of[d] == MAP_FAILED) abort();
    next_free[d] = addresses[d] + GAP;
  }
  struct sigaction act = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigaction(SIGSEGV, &act, &before);
}

// ---- allocation

/** The library that computes can only be opened when libtorch_cuda is there: at its first allocation. */
static void load_numbers(void) {
  static int asked;
  if (__atomic_exchange_n(&asked, 1, __ATOMIC_SEQ_CST)) return;
  const char *path = getenv("CUDA_STANDIN_NUMBERS");
  if (!path || !*path || dlopen(path, RTLD_NOW | RTLD_LOCAL)) return;
  dprintf(2, "[cuda stand-in] %s\n", dlerror());
  abort();
}

cudaError_t cudaMalloc(void **out, size_t size) {
  CALL(cudaMalloc);
  load_numbers();
  *out = NULL;
  LOCK();
  int d = device_now;
  size_t rounded = size ? (size + 511) & ~511ul : 512;
  cudaError_t code = forbidden("cudaMalloc");
  if (!code && in_use[d] + rounded + settings.taken > settings.memory) code = failed(cudaErrorMemoryAllocation);
  if (!code) {
    size_t taken = (rounded + 2 * GAP) & ~(GAP - 1);
    if (next_free[d] + taken > addresses[d] + SPAN) abort(); // longer than any test
    add_block(next_free[d], rounded, DEVICE);
    *out = next_free[d];
    next_free[d] += taken;
    in_use[d] += rounded;
    gauge("device bytes", rounded);
    gauge("device blocks", 1);
  }
  UNLOCK();
  return code;
}

cudaError_t cudaFree(void *at) {
  CALL(cudaFree);
  if (!at) return cudaSuccess;
  LOCK();
  Block *b = block_of(at);
  cudaError_t code = forbidden("cudaFree");
  if (code) ;
  else if (!b || !b->live || b->at != at || b->sort != DEVICE) code = wrong(cudaErrorInvalidValue, "cudaFree of what was not given out, or is free already");
  else {
    run_device(b->device); // cudaFree waits
    b->live = 0;
    in_use[b->device] -= b->size;
    gauge("device bytes", -(int64_t)b->size);
    gauge("device blocks", -1);
    forget_accesses(b->at, b->size);
    madvise(standin_bytes(at), b->size & ~(PAGE - 1), MADV_DONTNEED);
  }
  UNLOCK();
  return code;
}

cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t s) { (void)s; return cudaMalloc(out, size); }
cudaError_t cudaFreeAsync(void *at, cudaStream_t s) { (void)s; return cudaFree(at); }
cudaError_t cudaMallocManaged(void **out, size_t size, unsigned flags) {
  (void)out, (void)size, (void)flags;
  return failed(cudaErrorNotSupported);
}

cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags) {
  (void)flags;
  CALL(cudaHostAlloc);
  size_t rounded = (size + PAGE - 1) & ~(PAGE - 1);
  char *at = mmap(NULL, rounded + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
  mprotect(at, PAGE, PROT_NONE);
  mprotect(at + PAGE + rounded, PAGE, PROT_NONE);
  LOCK();
  add_block(at + PAGE, rounded, PINNED);
  gauge("pinned bytes", rounded);
  UNLOCK();
  *out = at + PAGE;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void **out, size_t size) { return cudaHostAlloc(out, size, 0); }

static int is_used(Block *b) {
  for (int i = 0; i < streams_in_all(); i++) {
    for (Op *op = stream_at(i)->first; op; op = op->next) if (op->target == b || op->source == b) return 1;
  }
  return 0;
}

cudaError_t cudaFreeHost(void *at) {
  CALL(cudaFreeHost);
  LOCK();
  Block *b = block_of(at);
  cudaError_t code = cudaSuccess;
  if (!b || !b->live || b->at != at || b->sort != PINNED) code = wrong(cudaErrorInvalidValue, "cudaFreeHost of what was not given out");
  else {
    if (is_used(b)) standin_violation("page-locked memory freed while a copy is queued");
    for (int d = 0; d < settings.devices; d++) run_device(d);
    b->live = 0;
    gauge("pinned bytes", -(int64_t)b->size);
    forget_accesses(b->at, b->size);
    mprotect(b->at, b->size, PROT_NONE); // whoever touches it now is found
  }
  UNLOCK();
  return code;
}

cudaError_t cudaHostRegister(void *at, size_t size, unsigned flags) {
  (void)flags;
  CALL(cudaHostRegister);
  LOCK();
  Block *b = block_of(at);
  cudaError_t code = b && b->live ? wrong(cudaErrorHostMemoryAlreadyRegistered, "cudaHostRegister of what is registered") : cudaSuccess;
  if (!code) {
    add_block(at, size, REGISTERED);
    gauge("registered bytes", size);
  }
  UNLOCK();
  return code;
}

cudaError_t cudaHostUnregister(void *at) {
  CALL(cudaHostUnregister);
  LOCK();
  Block *b = block_of(at);
  cudaError_t code = b && b->live && b->sort == REGISTERED && b->at == at
                         ? cudaSuccess
                         : wrong(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister of what is not registered");
  if (!code) {
    b->live = 0;
    gauge("registered bytes", -(int64_t)b->size);
  }
  UNLOCK();
  return code;
}

uint64_t standin_free_memory(int device) { return settings.memory - settings.taken - in_use[device]; }
cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
  CALL(cudaMemGetInfo);
  *total = settings.memory;
  *left = standin_free_memory(device_now);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *at) {
  CALL(cudaPointerGetAttributes);
  memset(out, 0, sizeof *out);
  LOCK();
  Block *b = block_of(at);
  if (b && !b->live) b = NULL;
  out->type = !b ? cudaMemoryTypeUnregistered : b->sort == DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  out->device = b ? b->device : -2;
  out->devicePointer = b ? (void *)at : NULL;
  out->hostPointer = b && b->sort == DEVICE ? NULL : (void *)at;
  UNLOCK();
  return cudaSuccess;
}

// ---- copies

enum { BAD = -1, PAGEABLE, LOCKED, ON_DEVICE };
static const char *const SORTS[] = {"pageable", "pinned", "device"};

static int sort_of(const void *at, size_t bytes, const char *call, const char *role) {
  Block *b = block_of(at);
  if (!b || (!b->live && b->sort == REGISTERED)) {
    if (device_of(at) < 0) return PAGEABLE;
    standin_violation("%s: its %s was never given out", call, role);
    return BAD;
  }
  if (!b->live) {
    standin_violation("%s: its %s is %s memory that was freed", call, role, b->sort == DEVICE ? "device" : "page-locked");
    return BAD;
  }
  if ((const char *)at + bytes > b->at + b->size) {
    standin_violation("%s: its %s goes beyond its allocation", call, role);
    return BAD;
  }
  return b->sort == DEVICE ? ON_DEVICE : LOCKED;
}

int standin_owns(const void *at, size_t bytes, const char *call, const char *role) {
  LOCK();
  int sort = sort_of(at, bytes, call, role), here = sort == ON_DEVICE && device_of(at) == device_now;
  if (sort != BAD && !here) standin_violation("%s: its %s is %s memory%s", call, role, SORTS[sort], sort == ON_DEVICE ? " of another device" : "");
  UNLOCK();
  return here;
}

static int fits_kind(enum cudaMemcpyKind kind, int to, int from) {
  switch (kind) {
    case cudaMemcpyHostToHost: return to != ON_DEVICE && from != ON_DEVICE;
    case cudaMemcpyHostToDevice: return to == ON_DEVICE && from != ON_DEVICE;
    case cudaMemcpyDeviceToHost: return to != ON_DEVICE && from == ON_DEVICE;
    case cudaMemcpyDeviceToDevice: return to == ON_DEVICE && from == ON_DEVICE;
    default: return 1;
  }
}

/** Larger ones are weights and batches, which were copied to the device and not computed there. */
#define MOST_READ 64

/** Where kernels do nothing, a result is whatever its memory held: zeros make losses finite, and no gradient overflow. */
static int is_result(const Op *op, int to, int from) {
  return settings.zeros && !op->rows && op->bytes <= MOST_READ && from == ON_DEVICE && to != ON_DEVICE;
}

static cudaError_t copy(Op op, enum cudaMemcpyKind kind, Stream *s, int waits, const char *call) {
  size_t to_span = op.rows ? (op.rows - 1) * op.to_pitch + op.bytes : op.bytes;
  size_t from_span = op.rows ? (op.rows - 1) * op.from_pitch + op.bytes : op.bytes;
  if (op.bytes == 0) return cudaSuccess;
  int to = sort_of(op.to, to_span, call, "target"), from = sort_of(op.from, from_span, call, "source");
  if (to == BAD || from == BAD) return failed(cudaErrorInvalidValue);
  char text[96];
  snprintf(text, sizeof text, "%s to %s", SORTS[from], SORTS[to]);
  if (!fits_kind(kind, to, from)) standin_violation("%s of kind %d is %s", call, kind, text);
  if (!s->capturing) standin_count("copy", text, op.rows ? op.rows * op.bytes : op.bytes);
  tick_clock(s);
  if (from != PAGEABLE) access_bytes(s, op.from, from_span, 0, text);
  if (to != PAGEABLE) access_bytes(s, op.to, to_span, 1, text);
  if (from == PAGEABLE && !op.rows) memcpy(op.staged = malloc(op.bytes), op.from, op.bytes); // before the call comes back
  if (is_result(&op, to, from)) op.staged = calloc(1, op.bytes);
  int later = settings.late && !waits && to != PAGEABLE;
  if (later && !s->capturing && to == LOCKED) guard(op.target = block_of(op.to), 1, 0);
  if (later && !s->capturing && from == LOCKED) guard(op.source = block_of(op.from), 0, 1);
  queue(s, op);
  if (s->capturing || !(waits || to == PAGEABLE || (op.rows && from == PAGEABLE))) return cudaSuccess;
  standin_count("wait", waits ? "copy" : "copy of pageable memory", 0);
  run_stream(s, NULL, 0);
  host_follows(&s->clock);
  return cudaSuccess;
}

static cudaError_t copy_on(Op op, enum cudaMemcpyKind kind, cudaStream_t stream, int waits, const char *call) {
  LOCK();
  Stream *s = stream_of(stream, call);
  cudaError_t code = s ? copy(op, kind, s, waits, call) : failed(cudaErrorInvalidResourceHandle);
  UNLOCK();
  return code;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s) {
  CALL(cudaMemcpyAsync);
  return copy_on((Op){.kind = COPY, .to = to, .from = from, .bytes = bytes}, kind, s, 0, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  CALL(cudaMemcpy);
  return copy_on((Op){.kind = COPY, .to = to, .from = from, .bytes = bytes}, kind, NULL, 1, "cudaMemcpy");
}
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t s) {
  (void)to_device, (void)from_device;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t s) {
  CALL(cudaMemcpy2DAsync);
  Op op = {.kind = COPY_ROWS, .to = to, .from = from, .bytes = width, .to_pitch = to_pitch, .from_pitch = from_pitch, .rows = rows};
  return copy_on(op, kind, s, 0, "cudaMemcpy2DAsync");
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  CALL(cudaMemsetAsync);
  LOCK();
  Stream *s = stream_of(stream, "cudaMemsetAsync");
  cudaError_t code = s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
  if (s && bytes && sort_of(to, bytes, "cudaMemsetAsync", "target") == BAD) code = failed(cudaErrorInvalidValue);
  if (!code && bytes) {
    if (!s->capturing) standin_count("set", "memory", bytes);
    tick_clock(s);
    access_bytes(s, to, bytes, 1, "cudaMemsetAsync");
    queue(s, (Op){.kind = SET, .to = to, .value = value, .bytes = bytes});
  }
  UNLOCK();
  return code;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  cudaError_t code = cudaMemsetAsync(to, value, bytes, NULL);
  return code ? code : cudaStreamSynchronize(NULL);
}
