// Rows of the public text format, for the drivers of both vendors.
//
// Files A and B hold one row of float32 patterns a line, in hexadecimal; C and D one float32
// pattern a line, as 32 binary digits. Every value fits the format it stands for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rows {

enum class Specials { ieee, fn, fnuz };

struct Format {
  const char *name;
  int width, fraction, bias;
  Specials specials;
};

inline constexpr Format formats[] = {
    {"fp32", 32, 23, 127, Specials::ieee},     {"xf32", 32, 10, 127, Specials::ieee},
    {"tf32", 32, 10, 127, Specials::ieee},     {"bf16", 16, 7, 127, Specials::ieee},
    {"fp16", 16, 10, 15, Specials::ieee},      {"e4m3fn", 8, 3, 7, Specials::fn},
    {"e5m2", 8, 2, 15, Specials::ieee},        {"e4m3fnuz", 8, 3, 8, Specials::fnuz},
    {"e5m2fnuz", 8, 2, 16, Specials::fnuz},
};

inline Format format(const std::string &name) {
  for (const Format &f : formats)
    if (name == f.name) return f;
  throw std::runtime_error("unknown format " + name);
}

// Code of a float32 pattern in a narrower format that holds its value. 32-bit formats keep all
// bits: which of them the hardware reads is its own affair.
inline uint32_t narrow(uint32_t pattern, const Format &f) {
  if (f.width == 32) return pattern;
  const uint32_t sign = (pattern >> 31) << (f.width - 1);
  const int field = (pattern >> 23) & 255;
  uint64_t m = pattern & 0x7FFFFF;
  const uint32_t top = (1u << (f.width - 1)) - 1;  // all bits but the sign
  if (field == 255) {
    if (m == 0 && f.specials != Specials::ieee) throw std::runtime_error("infinity in a format without");
    const uint32_t infinity = (top >> f.fraction) << f.fraction;
    if (f.specials == Specials::fnuz) return 1u << (f.width - 1);
    if (f.specials == Specials::fn) return sign | top;
    return sign | infinity | (m ? 1u << (f.fraction - 1) : 0);
  }
  if (field) m |= 0x800000;
  if (m == 0) return f.specials == Specials::fnuz ? 0 : sign;
  const int unit = (field ? field : 1) - 127 - 23;
  int lead = 63;
  while (!(m >> lead)) --lead;
  const int exponent = std::max(lead + unit, 1 - f.bias);
  const int shift = exponent - f.fraction - unit;
  if (shift > 0) {
    if (shift > 40 || m & ((uint64_t{1} << shift) - 1)) throw std::runtime_error("value does not fit");
    m >>= shift;
  } else {
    m <<= -shift;
  }
  const int64_t code = (int64_t{exponent + f.bias - 1} << f.fraction) + static_cast<int64_t>(m);
  if (code > static_cast<int64_t>(top)) throw std::runtime_error("value does not fit");
  return sign | static_cast<uint32_t>(code);
}

// Float32 pattern of an fp16 code (results of cores with fp16 output).
inline uint32_t widen(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code >> 15) << 31;
  const uint32_t field = (code >> 10) & 31;
  uint32_t m = code & 1023;
  if (field == 31) return sign | 0x7F800000 | m << 13;
  if (field) return sign | (field + 112) << 23 | m << 13;
  if (m == 0) return sign;
  int exponent = 113;
  while (!(m & 1024)) m <<= 1, --exponent;
  return sign | static_cast<uint32_t>(exponent) << 23 | (m & 1023) << 13;
}

struct Matrix {
  size_t count = 0, k = 0;       // rows, numbers in a row as they stand in the file
  size_t stride = 0;             // bytes of a row, padded with zeros
  std::vector<unsigned char> bytes;
};

// Rows as codes, each padded with zeros to a multiple of `step` numbers (an instruction's k).
inline Matrix read_rows(const std::string &file, const Format &f, size_t step) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  Matrix matrix;
  std::string line;
  while (std::getline(stream, line)) {
    std::istringstream words(line);
    std::vector<uint32_t> codes;
    for (std::string word; words >> word;) codes.push_back(narrow(std::stoul(word, nullptr, 16), f));
    if (matrix.count == 0) {
      matrix.k = codes.size();
      matrix.stride = (matrix.k + step - 1) / step * step * (f.width / 8);
    }
    if (codes.size() != matrix.k) throw std::runtime_error(file + ": lines of different lengths");
    matrix.bytes.resize(++matrix.count * matrix.stride);
    unsigned char *row = matrix.bytes.data() + (matrix.count - 1) * matrix.stride;
    for (size_t i = 0; i < codes.size(); ++i)  // little-endian, like the devices
      std::memcpy(row + i * (f.width / 8), &codes[i], f.width / 8);
  }
  return matrix;
}

inline std::vector<uint32_t> read_words(const std::string &file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  std::vector<uint32_t> words;
  for (std::string word; stream >> word;) {
    if (word.size() != 32) throw std::runtime_error(file + ": a line of other than 32 digits");
    words.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 2)));
  }
  return words;
}

inline void write_words(const std::string &file, const std::vector<uint32_t> &words) {
  std::ofstream stream(file);
  for (uint32_t word : words) {
    char line[34] = {};
    for (int i = 0; i < 32; ++i) line[i] = '0' + ((word >> (31 - i)) & 1);
    line[32] = '\n';
    stream << line;
  }
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

}  // namespace rows
