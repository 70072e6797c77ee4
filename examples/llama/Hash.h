//===- Hash.h - one 64-bit mix for weights and workloads ------------------===//
//
// Values that are drawn by a seed have to be equal on every machine, so they
// come from integers of this file and not from <random>, whose distributions
// differ between standard libraries.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_HASH_H
#define KILN_EXAMPLES_LLAMA_HASH_H

#include <cstdint>
#include <string_view>

namespace llama {

/// The increment of splitmix64: 2^64 divided by the golden ratio, made odd.
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014). A
/// bijection: different inputs have different results.
constexpr uint64_t mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// FNV-1a of \p text, 64 bits.
constexpr uint64_t hashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Counted random numbers of a seed, for workloads and tests.
class Random {
public:
  explicit Random(uint64_t seed) : state(mix64(seed + kGolden)) {}

  uint64_t next() { return mix64(state += kGolden); }
  /// In [0, \p bound), by the upper bits; \p bound is not 0. Deviates from
  /// uniform by less than bound / 2^32, so \p bound stays below 2^32.
  uint64_t below(uint64_t bound) { return ((next() >> 32) * bound) >> 32; }
  /// In [least, most], both included.
  int64_t between(int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(below(static_cast<uint64_t>(most - least) + 1));
  }
  /// In (0, 1): 53 bits, never 0, so that a logarithm can be taken.
  double unit() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }

private:
  uint64_t state;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_HASH_H
