// Runs rows of the public text format through an NVIDIA tensor core.
//
//   tensor_core INPUTS OUTPUT A B C D        for example: tensor_core fp16 fp32 a.txt b.txt c.txt d.txt
//   tensor_core wmma:fp16 fp32 A B C D       through the C++ interface instead of mma.sync
//
// INPUTS: fp16, bf16, tf32 (sm_80), e4m3fn, e5m2 (sm_89). OUTPUT: fp32, or fp16 for fp16 and 8 bits.
// A warp computes the dot products of eight rows (sixteen with wmma) on the diagonal of one matrix
// product: row i of the tile of A, column i of B, element (i, i) of C. Rows longer than an
// instruction's k go through it step by step, each result being the next step's C.
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdio>

#include "rows.h"

#define CHECK(call)                                                                     \
  do {                                                                                  \
    cudaError_t status = (call);                                                        \
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));    \
  } while (0)

enum Instruction { FP16, FP16_TO_FP16, BF16, TF32, E4M3, E5M2, E4M3_TO_FP16, E5M2_TO_FP16 };

// One mma.sync.m16n8kK with 8 words of 32 bits in a row of A and a column of B. The lower half of A
// is zero. d: four floats, or two pairs of halves.
#define MMA_F32(shape_and_types)                                                        \
  asm volatile("mma.sync.aligned." shape_and_types                                      \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                 \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                         \
               : "r"(a0), "r"(0), "r"(a1), "r"(0), "r"(b0), "r"(b1))
#define MMA_F16(shape_and_types)                                                        \
  asm volatile("mma.sync.aligned." shape_and_types                                      \
               " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                             \
               : "+r"(h[0]), "+r"(h[1])                                                 \
               : "r"(a0), "r"(0), "r"(a1), "r"(0), "r"(b0), "r"(b1))

template <Instruction kind>
__device__ void multiply(float (&d)[4], uint32_t (&h)[2], uint32_t a0, uint32_t a1, uint32_t b0,
                         uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kind == FP16) MMA_F32("m16n8k16.row.col.f32.f16.f16.f32");
  if constexpr (kind == FP16_TO_FP16) MMA_F16("m16n8k16.row.col.f16.f16.f16.f16");
  if constexpr (kind == BF16) MMA_F32("m16n8k16.row.col.f32.bf16.bf16.f32");
  if constexpr (kind == TF32) MMA_F32("m16n8k8.row.col.f32.tf32.tf32.f32");
#endif
#if __CUDA_ARCH__ >= 890
  if constexpr (kind == E4M3) MMA_F32("m16n8k32.row.col.f32.e4m3.e4m3.f32");
  if constexpr (kind == E5M2) MMA_F32("m16n8k32.row.col.f32.e5m2.e5m2.f32");
  if constexpr (kind == E4M3_TO_FP16) MMA_F16("m16n8k32.row.col.f16.e4m3.e4m3.f16");
  if constexpr (kind == E5M2_TO_FP16) MMA_F16("m16n8k32.row.col.f16.e5m2.e5m2.f16");
#endif
}

__host__ __device__ constexpr bool half_output(Instruction kind) {
  return kind == FP16_TO_FP16 || kind == E4M3_TO_FP16 || kind == E5M2_TO_FP16;
}

// Lowest architecture with the instruction; below it the kernel is compiled, but empty.
constexpr int needed(Instruction kind) { return kind < E4M3 ? 80 : 89; }

template <Instruction kind>
__global__ void dots(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out,
                     int count, int words) {
  const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 8 + group;
  const bool there = row < count;
  const bool diagonal = group / 2 == member;  // holds columns 2*member and 2*member + 1 of its row
  float d[4] = {};
  uint32_t h[2] = {};
  if (there && diagonal) {
    if constexpr (half_output(kind))
      h[0] = c[row] << (16 * (group & 1));
    else
      d[group & 1] = __uint_as_float(c[row]);
  }
  for (int step = 0; step < words; step += 8) {
    const size_t first = static_cast<size_t>(row) * words + step + member;
    const uint32_t a0 = there ? a[first] : 0, a1 = there ? a[first + 4] : 0;
    const uint32_t b0 = there ? b[first] : 0, b1 = there ? b[first + 4] : 0;
    multiply<kind>(d, h, a0, a1, b0, b1);
  }
  if (there && diagonal) {
    if constexpr (half_output(kind))
      out[row] = (h[0] >> (16 * (group & 1))) & 0xFFFF;
    else
      out[row] = __float_as_uint(group & 1 ? d[1] : d[0]);
  }
}

// The same through wmma, 16 x 16 x 16: a warp and sixteen rows a block.
template <typename Output>
__global__ void dots_wmma(const __half *a, const __half *b, const uint32_t *c, uint32_t *out,
                          int count, int k) {
  using namespace nvcuda;
  __shared__ __align__(32) __half tile_a[256], tile_b[256];
  __shared__ __align__(32) Output tile_c[256];
  const int lane = threadIdx.x, first = blockIdx.x * 16;
  for (int i = lane; i < 256; i += 32) {
    const int row = first + i / 16;
    const uint32_t bits = row < count && i % 17 == 0 ? c[row] : 0;
    if constexpr (sizeof(Output) == 4)
      tile_c[i] = __uint_as_float(bits);
    else
      tile_c[i] = __ushort_as_half(static_cast<unsigned short>(bits));
  }
  __syncwarp();
  wmma::fragment<wmma::accumulator, 16, 16, 16, Output> d;
  wmma::load_matrix_sync(d, tile_c, 16, wmma::mem_row_major);
  for (int step = 0; step < k; step += 16) {
    for (int i = lane; i < 256; i += 32) {
      const int row = first + i / 16;
      const size_t place = static_cast<size_t>(row) * k + step + i % 16;
      tile_a[i] = row < count ? a[place] : __half();
      tile_b[i] = row < count ? b[place] : __half();  // column i / 16, stored by columns
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fragment_b;
    wmma::load_matrix_sync(fragment_a, tile_a, 16);
    wmma::load_matrix_sync(fragment_b, tile_b, 16);
    wmma::mma_sync(d, fragment_a, fragment_b, d);
    __syncwarp();
  }
  wmma::store_matrix_sync(tile_c, d, 16, wmma::mem_row_major);
  __syncwarp();
  if (lane < 16 && first + lane < count) {
    if constexpr (sizeof(Output) == 4)
      out[first + lane] = __float_as_uint(tile_c[lane * 17]);
    else
      out[first + lane] = __half_as_ushort(tile_c[lane * 17]);
  }
}

struct Arrays {
  uint32_t *a, *b, *c, *out;
  int count, bytes;  // rows, bytes of a row of a or b
};

template <Instruction kind>
void run(const Arrays &x) {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  if (device.major * 10 + device.minor < needed(kind))
    throw std::runtime_error(std::string(device.name) + " has no such instruction");
  const int warps = (x.count + 7) / 8;
  dots<kind><<<(warps + 3) / 4, 128>>>(x.a, x.b, x.c, x.out, x.count, x.bytes / 4);
}

template <typename Output>
void run_wmma(const Arrays &x) {
  const auto *a = reinterpret_cast<const __half *>(x.a), *b = reinterpret_cast<const __half *>(x.b);
  dots_wmma<Output><<<(x.count + 15) / 16, 32>>>(a, b, x.c, x.out, x.count, x.bytes / 2);
}

struct Case {
  const char *inputs, *output, *format;
  size_t k;  // of one instruction
  void (*run)(const Arrays &);
};

const Case cases[] = {
    {"fp16", "fp32", "fp16", 16, run<FP16>},
    {"fp16", "fp16", "fp16", 16, run<FP16_TO_FP16>},
    {"bf16", "fp32", "bf16", 16, run<BF16>},
    {"tf32", "fp32", "tf32", 8, run<TF32>},
    {"e4m3fn", "fp32", "e4m3fn", 32, run<E4M3>},
    {"e5m2", "fp32", "e5m2", 32, run<E5M2>},
    {"e4m3fn", "fp16", "e4m3fn", 32, run<E4M3_TO_FP16>},
    {"e5m2", "fp16", "e5m2", 32, run<E5M2_TO_FP16>},
    {"wmma:fp16", "fp32", "fp16", 16, run_wmma<float>},
    {"wmma:fp16", "fp16", "fp16", 16, run_wmma<__half>},
};

template <typename T>
uint32_t *to_device(const std::vector<T> &host) {
  void *device;
  CHECK(cudaMalloc(&device, std::max<size_t>(host.size() * sizeof(T), 4)));
  CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<uint32_t *>(device);
}

void convert(const Case &chosen, char **files) {
  const rows::Format format = rows::format(chosen.format), output = rows::format(chosen.output);
  const rows::Matrix a = rows::read_rows(files[0], format, chosen.k);
  const rows::Matrix b = rows::read_rows(files[1], format, chosen.k);
  std::vector<uint32_t> c = rows::read_words(files[2]);
  if (a.count != b.count || a.k != b.k || c.size() != a.count)
    throw std::runtime_error("A, B and C do not have the same number of rows and lengths");
  for (uint32_t &word : c) word = rows::narrow(word, output);
  std::vector<uint32_t> out(c.size());
  const Arrays arrays = {to_device(a.bytes), to_device(b.bytes), to_device(c), to_device(out),
                         static_cast<int>(a.count), static_cast<int>(a.stride)};
  if (a.count) chosen.run(arrays);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(out.data(), arrays.out, out.size() * 4, cudaMemcpyDeviceToHost));
  if (output.width == 16)
    for (uint32_t &word : out) word = rows::widen(static_cast<uint16_t>(word));
  rows::write_words(files[3], out);
}

int main(int count, char **arguments) {
  try {
    if (count == 7)
      for (const Case &candidate : cases)
        if (candidate.inputs == std::string(arguments[1]) &&
            candidate.output == std::string(arguments[2])) {
          convert(candidate, arguments + 3);
          return 0;
        }
    std::fprintf(stderr, "usage: %s INPUTS OUTPUT A B C D, with INPUTS OUTPUT one of", arguments[0]);
    for (const Case &candidate : cases)
      std::fprintf(stderr, "; %s %s", candidate.inputs, candidate.output);
    std::fprintf(stderr, "\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", arguments[0], error.what());
  }
  return 1;
}
