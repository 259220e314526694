// The instructions of PTX as functions: what the result of each is, rounded as PTX says.
#define tid_x threadIdx.x
#define ntid_x blockDim.x
#define ctaid_x blockIdx.x
#define nctaid_x gridDim.x

template <class To, class From> static inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "a register of another size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float F(uint32_t bits) { return bits_as<float>(bits); }
static inline double D(uint64_t bits) { return bits_as<double>(bits); }

#define MADE(name, To, parameters, result) static inline void name(To &y, parameters) { y = result; }
#define ONE(name, To, From, result) static inline void name(To &y, From a) { y = result; }
#define TWO(name, To, From, result) static inline void name(To &y, From a, From b) { y = result; }
#define THREE(name, To, From, result) static inline void name(To &y, From a, From b, From c) { y = result; }

// Memory and what lies in it.
template <class To> static inline void ld_param_u64(To &y, const void *a) { y = (uint64_t)a; }
#define cvta_to_global_u64(y, a) y = a
#define LOAD(space, type, From)                                                                        \
  template <class To> static inline void ld_##space##_##type(To &y, uint64_t at) { y = *(const From *)at; } \
  static inline void st_##space##_##type(uint64_t at, From a) { *(From *)at = a; }
LOAD(global, u8, uint8_t) LOAD(global, u16, uint16_t) LOAD(global, u32, uint32_t) LOAD(global, u64, uint64_t)
LOAD(global, f32, float) LOAD(shared, f32, float)
#define FOUR(type, From, Register, Whole)                                                                          \
  static inline void ld_global_v4_##type(Register &x, Register &y, Register &z, Register &w, uint64_t at) {        \
    const Whole all = *(const Whole *)at;                                                                          \
    x = all.x, y = all.y, z = all.z, w = all.w;                                                                    \
  }                                                                                                                \
  static inline void st_global_v4_##type(uint64_t at, Register x, Register y, Register z, Register w) {            \
    *(Whole *)at = {(From)x, (From)y, (From)z, (From)w};                                                           \
  }
FOUR(f32, float, float, float4) FOUR(u16, uint16_t, uint32_t, ushort4) FOUR(u32, uint32_t, uint32_t, uint4)
template <class To, class From> static inline void mov_b32(To &y, From a) { y = bits_as<To>(a); }
static inline void mov_b32(uint32_t &y, long a) { y = a; }
static inline void mov_b32(uint32_t &y, int a) { y = a; }
template <class To, class From> static inline void mov_b64(To &y, From a) { y = bits_as<To>(a); }
static inline void mov_b64(uint64_t &y, int a) { y = (int64_t)a; }
#define mov_u64(y, a) y = (uint64_t)(a)
#define mov_u32(y, a) y = a
#define mov_f32(y, a) y = a
#define mov_f64(y, a) y = a
#define mov_pred(y, a) y = a

// Numbers.
// By 0 the result is some number or other, and nothing else happens; so with the least number by -1.
template <class Own> static inline Own quotient(Own a, Own b) {
  return b == 0 || std::is_signed<Own>::value && b == (Own)-1 ? (Own)(0 - (uint64_t)a) : a / b;
}
#define ARITHMETIC(type, Register, Own)                                                                       \
  TWO(add_##type, Register, Own, (Register)a + b) TWO(sub_##type, Register, Own, (Register)a - b)                \
  TWO(mul_lo_##type, Register, Own, (Register)a * b)                                                              \
  TWO(div_##type, Register, Own, quotient(a, b)) TWO(rem_##type, Register, Own, a - quotient(a, b) * b)
ARITHMETIC(s32, uint32_t, int32_t) ARITHMETIC(u32, uint32_t, uint32_t)
ARITHMETIC(s64, uint64_t, int64_t) ARITHMETIC(u64, uint64_t, uint64_t)
#define FLOATING(type, Own)                                                                                  \
  TWO(add_rn_##type, Own, Own, a + b) TWO(sub_rn_##type, Own, Own, a - b) TWO(mul_rn_##type, Own, Own, a * b)   \
  TWO(div_rn_##type, Own, Own, a / b) ONE(neg_##type, Own, Own, -a)
FLOATING(f32, float) FLOATING(f64, double)
THREE(fma_rn_f32, float, float, fmaf(a, b, c)) THREE(fma_rn_f64, double, double, fma(a, b, c))
ONE(sqrt_rn_f32, float, float, sqrtf(a)) ONE(abs_f32, float, float, fabsf(a))
ONE(neg_s32, uint32_t, uint32_t, -a) ONE(neg_s64, uint64_t, uint64_t, -a)
static inline void mul_hi_u32(uint32_t &y, uint32_t a, uint32_t b) { y = (uint64_t)a * b >> 32; }
static inline void mul_hi_s32(uint32_t &y, int32_t a, int32_t b) { y = (int64_t)a * b >> 32; }
static inline void mad_wide_s32(uint64_t &y, int32_t a, int32_t b, uint64_t c) { y = (int64_t)a * b + c; }
static inline void mad_wide_u32(uint64_t &y, uint32_t a, uint32_t b, uint64_t c) { y = (uint64_t)a * b + c; }
static inline void mad_lo_s64(uint64_t &y, uint64_t a, uint64_t b, uint64_t c) { y = a * b + c; }

#define BITWISE(bits, Own)                                                                                       \
  TWO(and_##bits, Own, Own, a & b) TWO(or_##bits, Own, Own, a | b) TWO(xor_##bits, Own, Own, a ^ b)                \
  ONE(not_##bits, Own, Own, ~a) static inline void shl_##bits(Own &y, Own a, uint32_t b) { y = b < 8 * sizeof a ? a << b : 0; }
BITWISE(b32, uint32_t) BITWISE(b64, uint64_t)
TWO(and_pred, bool, bool, a && b) TWO(or_pred, bool, bool, a || b) ONE(not_pred, bool, bool, !a)
static inline void shr_u32(uint32_t &y, uint32_t a, uint32_t b) { y = b < 32 ? a >> b : 0; }
static inline void shr_s32(uint32_t &y, int32_t a, uint32_t b) { y = a >> (b < 32 ? b : 31); }
static inline void shr_u64(uint64_t &y, uint64_t a, uint32_t b) { y = b < 64 ? a >> b : 0; }
static inline void shr_s64(uint64_t &y, int64_t a, uint32_t b) { y = a >> (b < 64 ? b : 63); }

#define COMPARED(type, Own)                                                                                      \
  TWO(setp_eq_##type, bool, Own, a == b) TWO(setp_lt_##type, bool, Own, a < b) TWO(setp_le_##type, bool, Own, a <= b) \
  TWO(setp_gt_##type, bool, Own, a > b) TWO(setp_ge_##type, bool, Own, a >= b)
COMPARED(s32, int32_t) COMPARED(u32, uint32_t) COMPARED(s64, int64_t) COMPARED(u64, uint64_t)
COMPARED(f32, float) COMPARED(f64, double)
TWO(setp_ne_s32, bool, int32_t, a != b) TWO(setp_ne_u32, bool, uint32_t, a != b) TWO(setp_ne_s64, bool, int64_t, a != b)
TWO(setp_ne_u64, bool, uint64_t, a != b)
TWO(setp_neu_f32, bool, float, a != b) TWO(setp_neu_f64, bool, double, a != b)
#define CHOSEN(bits, Own) static inline void selp_##bits(Own &y, Own a, Own b, bool p) { y = p ? a : b; }
CHOSEN(b32, uint32_t) CHOSEN(b64, uint64_t) CHOSEN(f32, float) CHOSEN(f64, double)

// A number beyond the range of whole numbers is the nearest of them, and NaN is 0.
template <class To, class From> static inline To whole(From a) {
  return a != a ? 0 : a >= (From)std::numeric_limits<To>::max() ? std::numeric_limits<To>::max() :
         a <= (From)std::numeric_limits<To>::min() ? std::numeric_limits<To>::min() : (To)a;
}
ONE(cvt_rni_f32_f32, float, float, rintf(a)) ONE(cvt_rmi_f32_f32, float, float, floorf(a))
ONE(cvt_rni_f64_f64, double, double, rint(a)) ONE(cvt_rni_s32_f32, uint32_t, float, whole<int32_t>(rintf(a)))
ONE(cvt_rzi_s32_f32, uint32_t, float, whole<int32_t>(a)) ONE(cvt_rzi_s32_f64, uint32_t, double, whole<int32_t>(a))
ONE(cvt_rzi_s64_f64, uint64_t, double, whole<int64_t>(a))
ONE(cvt_rzi_u32_f32, uint32_t, float, whole<uint32_t>(a)) ONE(cvt_rzi_s64_f32, uint64_t, float, whole<int64_t>(a))
ONE(cvt_rn_f32_s32, float, int32_t, a) ONE(cvt_rn_f32_u32, float, uint32_t, a) ONE(cvt_rn_f32_s64, float, int64_t, a)
ONE(cvt_rn_f32_u64, float, uint64_t, a) ONE(cvt_rn_f64_s64, double, int64_t, a) ONE(cvt_rn_f64_s32, double, int32_t, a)
ONE(cvt_f64_f32, double, float, a) ONE(cvt_rn_f32_f64, float, double, a)
ONE(cvt_s64_s32, uint64_t, int32_t, (int64_t)a) ONE(cvt_u64_s32, uint64_t, int32_t, (int64_t)a) 
ONE(cvt_u64_u32, uint64_t, uint32_t, a) ONE(cvt_s64_u32, uint64_t, uint32_t, a)
ONE(cvt_u32_u64, uint32_t, uint64_t, a) ONE(cvt_s32_u64, uint32_t, uint64_t, a) ONE(cvt_u32_s64, uint32_t, uint64_t, a)
ONE(cvt_s32_s64, uint32_t, uint64_t, a)
ONE(cvt_u32_u16, uint32_t, uint16_t, a) ONE(cvt_u16_u32, uint16_t, uint32_t, a)
ONE(cvt_f32_f16, float, uint16_t, bits_as<_Float16>(a)) ONE(cvt_rn_f16_f32, uint16_t, float, bits_as<uint16_t>((_Float16)a))

// Threads.
#define bar_sync(number) __syncthreads()
static inline void shfl_sync_bfly_b32(float &y, float a, uint32_t apart, uint32_t last, uint32_t lanes) {
  if (last != 31) abort();
  y = __shfl_xor_sync(lanes, a, (int)apart);
}
