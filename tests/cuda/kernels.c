// Kernels: known by name, counted, and not run. Where `numbers` computes, one that is launched all the same is a
// violation, since its result would be missing.
#include "runtime.h"

typedef struct {
  const void *host;
  const char *name;
} Function;
static Function *functions;
static size_t room, known;

static Function *place_of(Function *table, size_t size, const void *host) {
  size_t i = ((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15ull % size;
  while (table[i].host && table[i].host != host) i = (i + 1) % size;
  return &table[i];
}

static void grow(void) {
  size_t more = room ? 2 * room : 1 << 16;
  Function *table = calloc(more, sizeof *table);
  for (size_t i = 0; i < room; i++) if (functions[i].host) *place_of(table, more, functions[i].host) = functions[i];
  free(functions);
  functions = table;
  room = more;
}

// libtorch's constructors register its 100,000 kernels before anything else.
void **__cudaRegisterFatBinary(void *binary) {
  static void *handle[1];
  (void)binary;
  return handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *a, void *b,
                            void *c, void *d, int *e) {
  (void)handle, (void)device, (void)limit, (void)a, (void)b, (void)c, (void)d, (void)e;
  LOCK();
  if (2 * known >= room) grow();
  Function *f = place_of(functions, room, host);
  if (!f->host) known++;
  *f = (Function){host, name};
  UNLOCK();
}

typedef struct Variable {
  const void *host;
  void *at;
  size_t size;
  struct Variable *next;
} Variable;
static Variable *variables;
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int external, size_t size, int constant,
                       int global) {
  (void)handle, (void)address, (void)name, (void)external, (void)constant, (void)global;
  LOCK();
  Variable *v = calloc(1, sizeof *v);
  *v = (Variable){.host = host, .size = size, .next = variables};
  variables = v;
  UNLOCK();
}
cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
  CALL(cudaGetSymbolAddress);
  for (Variable *v = variables; v; v = v->next) {
    if (v->host != symbol) continue;
    if (!v->at) cudaMalloc(&v->at, v->size);
    *out = v->at;
    return cudaSuccess;
  }
  return failed(cudaErrorInvalidSymbol);
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
  (void)kind;
  void *at;
  cudaError_t code = cudaGetSymbolAddress(&at, symbol);
  return code ? code : cudaMemcpy((char *)at + offset, from, bytes, cudaMemcpyDefault);
}

static int computes(void) {
  const char *numbers = getenv("CUDA_STANDIN_NUMBERS");
  return numbers && *numbers;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, cudaStream_t stream, const char *call) {
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535) {
    return wrong(cudaErrorInvalidConfiguration, "%s of %u x %u x %u blocks of %u x %u x %u threads", call, grid.x, grid.y,
                 grid.z, block.x, block.y, block.z);
  }
  LOCK();
  const char *name = room ? place_of(functions, room, function)->name : NULL;
  Stream *s = stream_of(stream, call);
  cudaError_t code = cudaSuccess;
  if (!name) code = wrong(cudaErrorInvalidDeviceFunction, "%s of a function that was never registered", call);
  else if (!s) code = failed(cudaErrorInvalidResourceHandle);
  else if (s->device != device_now) code = wrong(cudaErrorInvalidResourceHandle, "a kernel launched on a stream of device %d while device %d is current", s->device, device_now);
  else {
    if (!s->capturing) standin_count("launch", name, 0);
    if (computes()) standin_violation("a kernel that no operator stands for: %s", name);
    tick_clock(s);
    queue(s, (Op){.kind = KERNEL, .name = name});
  }
  UNLOCK();
  return code;
}

int standin_operator(const char *name, void *stream) {
  CALL(cudaLaunchKernel);
  LOCK();
  Stream *s = stream_of(stream, name);
  if (s && !s->capturing) standin_count("operator", name, 0);
  UNLOCK();
  return s ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

int standin_library_kernel(const char *name, void *stream) {
  CALL(cudaLaunchKernel);
  LOCK();
  Stream *s = stream_of(stream, name);
  if (s) {
    if (!s->capturing) standin_count("launch", name, 0);
    if (computes()) standin_violation("a library's kernel that no operator stands for: %s", name);
    tick_clock(s);
    queue(s, (Op){.kind = KERNEL, .name = name});
  }
  UNLOCK();
  return 0;
}

static __thread struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} pushed[16];
static __thread int depth;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
  pushed[depth].grid = grid;
  pushed[depth].block = block;
  pushed[depth].shared = shared;
  pushed[depth++].stream = stream;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  depth--;
  *grid = pushed[depth].grid;
  *block = pushed[depth].block;
  *shared = pushed[depth].shared;
  *(void **)stream = pushed[depth].stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t s) {
  (void)arguments, (void)shared;
  CALL(cudaLaunchKernel);
  return launch(f, grid, block, s, "cudaLaunchKernel");
}
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *f) {
  *out = (cudaKernel_t)f;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t f, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t s) {
  return cudaLaunchKernel(f, grid, block, arguments, shared, s);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **arguments) {
  return cudaLaunchKernel(f, c->gridDim, c->blockDim, arguments, 0, c->stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t s) {
  return cudaLaunchKernel(f, grid, block, arguments, shared, s);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
  (void)f;
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = standin_capability(device_now);
  a->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute which, int value) {
  (void)f, (void)which, (void)value;
  return cudaSuccess;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t f, enum cudaFuncAttribute which, int value, int device) {
  (void)f, (void)which, (void)value, (void)device;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *f, int threads, size_t shared) {
  (void)f, (void)shared;
  *blocks = threads > 64 ? 2048 / threads : 32;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *f, int threads, size_t shared,
                                                                   unsigned flags) {
  (void)flags;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
