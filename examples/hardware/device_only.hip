// The kernels alone, for a compiler without ROCm: `make check-hip` looks at the instructions.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

#include "mfma_kernels.h"

#define KERNEL(NAME)                                                                       \
  template __global__ void dots<NAME>(const unsigned char *, const unsigned char *,        \
                                      const float *, float *, int, int);
KERNEL(Fp32)
KERNEL(Fp16)
KERNEL(Bf16)
KERNEL(Bf16Of1k)
KERNEL(Xf32)
KERNEL(E4m3E4m3)
KERNEL(E4m3E5m2)
KERNEL(E5m2E4m3)
KERNEL(E5m2E5m2)
