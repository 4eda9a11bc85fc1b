// Runs rows of the public text format through an AMD matrix core.
//
//   matrix_core INPUTS A B C D               for example: matrix_core fp16 a.txt b.txt c.txt d.txt
//
// INPUTS: fp32, fp16 (CDNA 1 to 3), bf16 (CDNA 1, 2), bf16_1k (CDNA 2; bf16 on CDNA 3), xf32,
// e4m3fnuz, e5m2fnuz, and the two mixed ones, e4m3fnuz/e5m2fnuz and e5m2fnuz/e4m3fnuz (CDNA 3).
// Rows longer than an instruction's k go through it step by step, each result being the next C.
#include <hip/hip_runtime.h>

#include <cstdio>

#include "mfma_kernels.h"
#include "rows.h"

#define CHECK(call)                                                                     \
  do {                                                                                  \
    hipError_t status = (call);                                                         \
    if (status != hipSuccess) throw std::runtime_error(hipGetErrorString(status));      \
  } while (0)

struct Arrays {
  unsigned char *a, *b;
  float *c, *out;
  int count, stride;
};

template <typename Instruction>
void run(const Arrays &x) {
  dots<Instruction><<<dim3((x.count + 15) / 16), dim3(64)>>>(x.a, x.b, x.c, x.out, x.count, x.stride);
}

struct Case {
  const char *inputs, *a, *b;
  size_t k;             // of one instruction
  const char *devices;  // that have it
  void (*run)(const Arrays &);
};

const Case cases[] = {
    {"fp32", "fp32", "fp32", 4, "gfx908 gfx90a gfx942", run<Fp32>},
    {"fp16", "fp16", "fp16", 16, "gfx908 gfx90a gfx942", run<Fp16>},
    {"bf16", "bf16", "bf16", 8, "gfx908 gfx90a", run<Bf16>},
    {"bf16", "bf16", "bf16", 16, "gfx942", run<Bf16Of1k>},
    {"bf16_1k", "bf16", "bf16", 16, "gfx90a gfx942", run<Bf16Of1k>},
    {"xf32", "xf32", "xf32", 8, "gfx942", run<Xf32>},
    {"e4m3fnuz", "e4m3fnuz", "e4m3fnuz", 32, "gfx942", run<E4m3E4m3>},
    {"e4m3fnuz/e5m2fnuz", "e4m3fnuz", "e5m2fnuz", 32, "gfx942", run<E4m3E5m2>},
    {"e5m2fnuz/e4m3fnuz", "e5m2fnuz", "e4m3fnuz", 32, "gfx942", run<E5m2E4m3>},
    {"e5m2fnuz", "e5m2fnuz", "e5m2fnuz", 32, "gfx942", run<E5m2E5m2>},
};

template <typename T>
T *to_device(const void *host, size_t bytes) {
  void *device;
  CHECK(hipMalloc(&device, std::max<size_t>(bytes, 4)));
  CHECK(hipMemcpy(device, host, bytes, hipMemcpyHostToDevice));
  return static_cast<T *>(device);
}

void convert(const Case &chosen, char **files) {
  const rows::Matrix a = rows::read_rows(files[0], rows::format(chosen.a), chosen.k);
  const rows::Matrix b = rows::read_rows(files[1], rows::format(chosen.b), chosen.k);
  const std::vector<uint32_t> c = rows::read_words(files[2]);
  if (a.count != b.count || a.k != b.k || c.size() != a.count)
    throw std::runtime_error("A, B and C do not have the same number of rows and lengths");
  std::vector<uint32_t> out(c.size());
  const size_t bytes = 4 * c.size();
  const Arrays arrays = {to_device<unsigned char>(a.bytes.data(), a.bytes.size()),
                         to_device<unsigned char>(b.bytes.data(), b.bytes.size()),
                         to_device<float>(c.data(), bytes), to_device<float>(out.data(), bytes),
                         static_cast<int>(a.count), static_cast<int>(a.stride)};
  if (a.count) chosen.run(arrays);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(out.data(), arrays.out, bytes, hipMemcpyDeviceToHost));
  rows::write_words(files[3], out);
}

int main(int count, char **arguments) {
  try {
    hipDeviceProp_t device;
    CHECK(hipGetDeviceProperties(&device, 0));
    const std::string name = std::string(device.gcnArchName).substr(0, 6);
    if (count == 6) {
      bool known = false;
      for (const Case &candidate : cases) {
        if (candidate.inputs != std::string(arguments[1])) continue;
        known = true;
        if (std::string(candidate.devices).find(name) == std::string::npos) continue;
        convert(candidate, arguments + 2);
        return 0;
      }
      if (known) throw std::runtime_error(name + " has no such instruction");
    }
    std::fprintf(stderr, "usage: %s INPUTS A B C D, with INPUTS one of", arguments[0]);
    for (const Case &candidate : cases) std::fprintf(stderr, " %s", candidate.inputs);
    std::fprintf(stderr, "\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", arguments[0], error.what());
  }
  return 1;
}
