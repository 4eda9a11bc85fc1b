// MFMA kernels: sixteen dot products of a wave lie on the diagonal of one 16 x 16 tile.
//
// Every 16 x 16 instruction with fp32 results gives lane l row l % 16 of A and column l % 16 of B, of
// these the l / 16-th quarter of k, and of C and D rows 4 * (l / 16) to 4 * (l / 16) + 3 of column
// l % 16. So a lane's operand is a quarter of a row, wherever k and the format put its bytes.
#pragma once

#include <stdint.h>

typedef float float4_t __attribute__((ext_vector_type(4)));
typedef float float2_t __attribute__((ext_vector_type(2)));
typedef _Float16 half4_t __attribute__((ext_vector_type(4)));
typedef short short4_t __attribute__((ext_vector_type(4)));
typedef short short2_t __attribute__((ext_vector_type(2)));

// An operand type, its instruction, and the compiler's name for a device that has it. Elsewhere the
// kernel is compiled, but the host never starts it.
#define MFMA(NAME, OPERAND, BUILTIN)                                                         \
  struct NAME {                                                                              \
    typedef OPERAND operand;                                                                 \
    static __device__ float4_t multiply(operand a, operand b, float4_t c) {                  \
      return BUILTIN(a, b, c, 0, 0, 0);                                                      \
    }                                                                                        \
  };
#define NO_MFMA(NAME, OPERAND)                                                               \
  struct NAME {                                                                              \
    typedef OPERAND operand;                                                                 \
    static __device__ float4_t multiply(operand, operand, float4_t c) { return c; }          \
  };

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
MFMA(Fp32, float, __builtin_amdgcn_mfma_f32_16x16x4f32)
MFMA(Fp16, half4_t, __builtin_amdgcn_mfma_f32_16x16x16f16)
#else
NO_MFMA(Fp32, float)
NO_MFMA(Fp16, half4_t)
#endif

#if defined(__gfx908__) || defined(__gfx90a__)
MFMA(Bf16, short2_t, __builtin_amdgcn_mfma_f32_16x16x8bf16)
#else
NO_MFMA(Bf16, short2_t)
#endif

#if defined(__gfx90a__) || defined(__gfx942__)
MFMA(Bf16Of1k, short4_t, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
#else
NO_MFMA(Bf16Of1k, short4_t)
#endif

#if defined(__gfx942__)
MFMA(Xf32, float2_t, __builtin_amdgcn_mfma_f32_16x16x8_xf32)
// AMD's instruction names: fp8 is E4M3, bf8 is E5M2, both FNUZ on this device.
MFMA(E4m3E4m3, long, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8)
MFMA(E4m3E5m2, long, __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8)
MFMA(E5m2E4m3, long, __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8)
MFMA(E5m2E5m2, long, __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8)
#else
NO_MFMA(Xf32, float2_t)
NO_MFMA(E4m3E4m3, long)
NO_MFMA(E4m3E5m2, long)
NO_MFMA(E5m2E4m3, long)
NO_MFMA(E5m2E5m2, long)
#endif

// One wave of 64 lanes a block. `stride`: bytes of a row, a multiple of an instruction's.
template <typename Instruction>
__global__ void dots(const unsigned char *a, const unsigned char *b, const float *c, float *out,
                     int count, int stride) {
  typedef typename Instruction::operand operand;
  const int lane = __builtin_amdgcn_workitem_id_x();
  const int row = __builtin_amdgcn_workgroup_id_x() * 16 + lane % 16;
  const bool there = row < count;
  // Element (i, i) is the (i % 4)-th of the four of lane 16 * (i / 4) + i.
  const bool diagonal = lane / 16 == lane % 16 / 4;
  float4_t d = {0, 0, 0, 0};
  if (there && diagonal) d[lane % 4] = c[row];
  for (int step = 0; step < stride; step += 4 * sizeof(operand)) {
    const long place = static_cast<long>(row) * stride + step + lane / 16 * sizeof(operand);
    operand x = operand(), y = operand();
    if (there) {
      x = *reinterpret_cast<const operand *>(a + place);
      y = *reinterpret_cast<const operand *>(b + place);
    }
    d = Instruction::multiply(x, y, d);
  }
  if (there && diagonal) out[row] = d[lane % 4];
}
