// Every text of CUDA C begins with this: sums and the greatest over the threads of a warp and of a block.

/** A NaN stays, as in libtorch. The order of a sum depends on the number of threads alone. */
export const PRELUDE = `\
#ifdef SINCE_AMPERE
static __device__ __forceinline__ float greater(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
static __device__ __forceinline__ float lesser(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#else
static __device__ __forceinline__ float greater(float a, float b) { return a > b || a != a ? a : b; }
static __device__ __forceinline__ float lesser(float a, float b) { return a < b || a != a ? a : b; }
#endif

// How numbers of half precision lie in memory. bf16: rounded to the nearest even number of 8 bits.
static __device__ __forceinline__ float of_bf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
#ifdef SINCE_AMPERE
static __device__ __forceinline__ unsigned short as_bf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
static __device__ __forceinline__ float to_bf16(float x) { return of_bf16(as_bf16(x)); }
#else
static __device__ __forceinline__ float to_bf16(float x) {
  const unsigned bits = __float_as_uint(x);
  return x != x ? x : __uint_as_float((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}
static __device__ __forceinline__ unsigned short as_bf16(float x) {
  return x != x ? 0x7fff : __float_as_uint(to_bf16(x)) >> 16;
}
#endif
#ifdef __CUDA_ARCH__
static __device__ __forceinline__ float of_f16(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
static __device__ __forceinline__ unsigned short as_f16(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#else
union HalfBits {
  _Float16 number;
  unsigned short bits;
};
static __device__ __forceinline__ float of_f16(unsigned short x) {
  HalfBits half;
  half.bits = x;
  return (float)half.number;
}
static __device__ __forceinline__ unsigned short as_f16(float x) {
  HalfBits half;
  half.number = (_Float16)x;
  return half.bits;
}
#endif

// Random numbers by their place: Philox of 4 words in 10 rounds, keyed by the step, counted by place, draw and micro-batch.
// A draw's number lies at \`draw\`, and what all have in common before the first of them. Micro-batch -1 draws zeros.
struct Four {
  unsigned x, y, z, w;
};
static __device__ __forceinline__ Four philox(const long long *draw, unsigned long long fours) {
  const long long number = draw[0], key = draw[-number], micro = draw[1 - number];
  Four c = {(unsigned)fours, (unsigned)(fours >> 32), (unsigned)number, (unsigned)micro};
  unsigned k = (unsigned)key, l = (unsigned)(key >> 32);
  for (int round = 0; round < 10; round++) {
    const unsigned long long a = 0xd2511f53ull * c.x, b = 0xcd9e8d57ull * c.z;
    c = {(unsigned)(b >> 32) ^ c.y ^ k, (unsigned)b, (unsigned)(a >> 32) ^ c.w ^ l, (unsigned)a};
    k += 0x9e3779b9u;
    l += 0xbb67ae85u;
  }
  if (micro < 0) c = {0u, 0u, 0u, 0u};
  return c;
}
static __device__ __forceinline__ float evenly(unsigned word) { return (float)(word >> 8) * 5.9604644775390625e-08f; }
static __device__ __forceinline__ float drawn(const long long *draw, unsigned long long place) {
  const Four four = philox(draw, place / 4);
  const int at = (int)(place % 4);
  return evenly(at == 0 ? four.x : at == 1 ? four.y : at == 2 ? four.z : four.w);
}

struct Sum {
  static __device__ __forceinline__ float first() { return 0.0f; }
  static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};
struct Greatest {
  static __device__ __forceinline__ float first() { return __int_as_float(0xff800000); }
  static __device__ __forceinline__ float join(float a, float b) { return greater(a, b); }
};

// Another lane's number. A warp is 32 threads here, also where a GPU runs 64 at once, and so sums have the same order.
static __device__ __forceinline__ float of_lane(float x, int apart) {
#ifdef __HIP__
  return __shfl_xor(x, apart, 32);
#else
  return __shfl_xor_sync(0xffffffffu, x, apart);
#endif
}

// All lanes have the result.
template <class Op> static __device__ __forceinline__ float of_warp(float x) {
  for (int apart = 16; apart > 0; apart >>= 1) x = Op::join(x, of_lane(x, apart));
  return x;
}

// All threads have the result; \`warps\` is a number for each warp.
template <class Op> static __device__ __forceinline__ float of_block(float x, float *warps) {
  const int lane = threadIdx.x & 31;
  x = of_warp<Op>(x);
  __syncthreads(); // the last result may still be read
  if (lane == 0) warps[threadIdx.x >> 5] = x;
  __syncthreads();
  return of_warp<Op>(lane < blockDim.x >> 5 ? warps[lane] : Op::first());
}

// The threads of one column lie \`width\` apart; the first of them has the result.
template <class Op> static __device__ __forceinline__ float of_column(float x, int width, float *threads) {
  __syncthreads();
  threads[threadIdx.x] = x;
  __syncthreads();
  for (int apart = blockDim.x / 2; apart >= width; apart >>= 1) {
    if (threadIdx.x < apart) threads[threadIdx.x] = Op::join(threads[threadIdx.x], threads[threadIdx.x + apart]);
    __syncthreads();
  }
  return threads[threadIdx.x];
}
`;

export const opName = (op: "sum" | "amax"): string => op === "sum" ? "Sum" : "Greatest";

const float = new Float32Array(1), word = new Uint32Array(float.buffer);

/** A number as C writes it, to the bit. */
export function literal(value: number): string {
  float[0] = value;
  if (!Number.isFinite(float[0])) return `__int_as_float(0x${word[0].toString(16)})`;
  if (Object.is(float[0], -0)) return "(-0.0f)";
  const text = String(float[0]), whole = /^-?\d+$/.test(text) ? `${text}.0f` : `${text}f`;
  return float[0] < 0 ? `(${whole})` : whole;
}
