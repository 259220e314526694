// CUDA C on a host, for tests: the threads of a block are fibers that take turns where they meet. A block's threads that
// don't all meet, or a block that reads beside its tensors, ends the process.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)
#define __shared__ static thread_local

struct Dim3 {
  unsigned x;
};
static thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;

// As on a GPU, one that is not at a multiple of 16 bytes is an error.
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
static inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) {
  return {x, y, z, w};
}
static inline float __int_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __uint_as_float(unsigned bits) { return __int_as_float(bits); }
static inline unsigned __float_as_uint(float x) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  return bits;
}

namespace host {
enum { MOST_THREADS = 1024, STACK = 512 << 10 };

struct Meeting {
  unsigned arrived, turn;
};
struct Block {
  char *stacks;
  void *own[MOST_THREADS], *home;
  bool done[MOST_THREADS];
  unsigned now;
  bool moved;
  Meeting all, warps[MOST_THREADS / 32];
  float box[MOST_THREADS];
  void (*run)(void *);
  void *what;
};
static thread_local Block *block;

// Saves the registers that a function keeps, and goes on with another stack.
extern "C" void standin_go(void **from, void *to) __attribute__((visibility("hidden")));
asm(R"(
.text
.hidden standin_go
.type standin_go, @function
standin_go:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size standin_go, .-standin_go
)");

static void leave() { standin_go(&block->own[block->now], block->home); }

static void thread() {
  block->run(block->what);
  block->done[block->now] = true;
  block->moved = true;
  leave();
}

static void meet(Meeting &at, unsigned threads) {
  const unsigned turn = at.turn;
  block->moved = true;
  if (++at.arrived == threads) {
    at.arrived = 0;
    at.turn++;
    return;
  }
  while (at.turn == turn) {
    leave();
    threadIdx.x = block->now;
  }
  block->moved = true;
}

static void launch(unsigned blocks, unsigned threads, void (*run)(void *), void *what) {
  if (threads == 0 || threads > MOST_THREADS || threads % 32 != 0 || blocks == 0) {
    fprintf(stderr, "A launch of %u blocks of %u threads.\n", blocks, threads);
    abort();
  }
  if (!block) {
    block = (Block *)calloc(1, sizeof *block);
    block->stacks = (char *)mmap(0, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  block->run = run;
  block->what = what;
  blockDim.x = threads;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    for (unsigned t = 0; t < threads; t++) {
      void **top = (void **)(block->stacks + (size_t)(t + 1) * STACK) - 8;
      memset(top, 0, 8 * sizeof *top);
      top[6] = (void *)thread; // behind six registers: where standin_go returns to
      block->own[t] = top;
      block->done[t] = false;
    }
    for (unsigned left = threads; left > 0;) {
      left = 0;
      block->moved = false;
      for (unsigned t = 0; t < threads; t++) {
        if (block->done[t]) continue;
        block->now = threadIdx.x = t;
        standin_go(&block->home, block->own[t]);
        left += !block->done[t];
      }
      if (left > 0 && !block->moved) {
        fprintf(stderr, "%u threads of a block wait for others that never come.\n", left);
        abort();
      }
    }
  }
}

template <class... A, size_t... I>
static void call(void (*function)(A...), void **given, std::index_sequence<I...>) {
  function(*(A *)given[I]...);
}
template <class... A> static void call(void (*function)(A...), void **given) {
  call(function, given, std::index_sequence_for<A...>());
}

// A bit for each argument that is written to, above their number.
template <class T> constexpr unsigned writes() { return !std::is_const<typename std::remove_pointer<T>::type>::value; }
template <class... A> constexpr unsigned arguments(void (*)(A...)) {
  unsigned bits = 0, at = 0;
  ((bits |= writes<A>() << at++), ...);
  return bits << 8 | sizeof...(A);
}
} // namespace host

static inline void __syncthreads() { host::meet(host::block->all, blockDim.x); }
#ifdef __HIP__ // HIP's name, whose last number is the lanes that may meet
#define __shfl_xor(x, apart, width) (width == 32 ? lane_of(x, apart) : (abort(), x))
#else
#define __shfl_xor_sync(mask, x, apart) (mask == 0xffffffffu ? lane_of(x, apart) : (abort(), x))
#endif
static inline float lane_of(float x, int apart) {
  const unsigned thread = threadIdx.x;
  host::Meeting &warp = host::block->warps[thread / 32];
  host::block->box[thread] = x;
  host::meet(warp, 32);
  x = host::block->box[thread ^ apart];
  host::meet(warp, 32);
  return x;
}

// A function that can be found by its name, and takes what cuLaunchKernel takes.
#define HOST(name)                                                                                      \
  extern "C" __attribute__((visibility("default"))) const unsigned arguments_##name = host::arguments(name);            \
  extern "C" __attribute__((visibility("default"))) void host_##name(void **given, unsigned blocks, unsigned threads) { \
    host::launch(blocks, threads, [](void *all) { host::call(name, (void **)all); }, given);            \
  }
