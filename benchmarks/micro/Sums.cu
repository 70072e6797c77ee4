//===- micro/Sums.cu - the precision of an fp8 product's sums -------------===//
//
// Products of powers of two next to 1, whose fate shows in the result: how many
// bits below the largest one a product keeps, whether the bits below are
// rounded or cut off, and the same for the sum that an instruction adds to.
// Then long sums of one sign, in which cut-off bits add up, in place and
// promoted: moved to an fp32 register every 128 of k.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace micro {
namespace {

constexpr int kRows = 64, kColumns = 8, kSlab = 128, kDepth = 32;

/// D (64 x 8) = A (64 x k) B (8 x k)^T with k-contiguous elements; k is a
/// multiple of kSlab. Sums go to fp32 registers after each \p interval
/// instructions, at most 4; 0: once, at the end.
__global__ void productOf(const unsigned char *a, const unsigned char *b,
                          float *d, int k, int interval) {
  extern __shared__ unsigned char memory[];
  unsigned char *rowTile = atomsOf(memory);
  unsigned char *columnTile = rowTile + kRows * kRowBytes;
  unsigned sums[kColumns / 2] = {};
  float totals[kColumns / 2] = {};
  bool isFirst = true;
#pragma unroll 1
  for (int slab = 0; slab < k; slab += kSlab) {
    __syncthreads();
    for (int i = threadIdx.x; i < (kRows + kColumns) * kSlab; i += blockDim.x) {
      int row = i / kSlab, byte = i % kSlab;
      if (row < kRows)
        rowTile[swizzled(row, byte)] = a[size_t(row) * k + slab + byte];
      else
        columnTile[swizzled(row - kRows, byte)] =
            b[size_t(row - kRows) * k + slab + byte];
    }
    fenceProxyAsync();
    __syncthreads();
#pragma unroll 1
    for (int step = 0; step < kSlab / kDepth; ++step) {
      wgmmaFence();
      wgmma<Product::E4m3, kColumns>(
          sums, descriptorOf(sharedAddress(rowTile)) + stepOffset(step),
          descriptorOf(sharedAddress(columnTile)) + stepOffset(step), !isFirst);
      wgmmaCommit();
      wgmmaWait<0>();
      pin(sums);
      isFirst = false;
      if (interval > 0 && (step + 1) % interval == 0) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i)
          totals[i] += __uint_as_float(sums[i]);
        isFirst = true;
      }
    }
  }
  if (!isFirst)
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i)
      totals[i] += __uint_as_float(sums[i]);
  int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i)
    d[(row + i / 2 * 8) * kColumns + column + i % 2] = totals[i];
}

double valueOf(unsigned char code) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (int i = 0; i < 256; ++i) {
      __nv_fp8_e4m3 element;
      element.__x = static_cast<unsigned char>(i);
      all.push_back(float(element));
    }
    return all;
  }();
  return values[code];
}

/// A problem whose elements are zero at first and set one by one.
class Problem {
public:
  explicit Problem(int k)
      : k(k), a(size_t(kRows) * k), b(size_t(kColumns) * k) {}

  void setA(int row, int at, double value) { set(a, row, at, value); }
  void setB(int column, int at, double value) { set(b, column, at, value); }
  /// The exact result for the elements as rounded.
  double exact(int row, int column) const {
    return sum(row, column, [](double product) { return product; });
  }
  double magnitude(int row, int column) const {
    return sum(row, column, [](double product) { return std::abs(product); });
  }

  /// (rows, columns)
  std::vector<float> run(int interval = 0) const {
    Buffer<unsigned char> rows(a), columns(b);
    Buffer<float> result(kRows * kColumns);
    launch(productOf, {1, 128, (kRows + kColumns) * kRowBytes + kAtomBytes},
           rows.data(), columns.data(), result.data(), k, interval);
    return result.values();
  }

private:
  void set(std::vector<unsigned char> &elements, int row, int at,
           double value) {
    elements[size_t(row) * k + at] = __nv_fp8_e4m3(float(value)).__x;
  }
  template <class Map> double sum(int row, int column, Map map) const {
    double total = 0;
    for (int i = 0; i < k; ++i)
      total += map(valueOf(a[size_t(row) * k + i]) *
                   valueOf(b[size_t(column) * k + i]));
    return total;
  }

  int k;
  std::vector<unsigned char> a, b;
};

/// The least exponents of e4m3: for normal numbers, and for any.
constexpr int kLeastNormal = 6, kLeast = 9;
constexpr int kExponents = 2 * kLeast + 1;

/// The results if products of \p factor * 2^-e at \p place of k, and at
/// \p count - 1 places behind it, are added to one product of 1 at \p one: for
/// e = 0, 1, ..., 18 (up to 15 for a factor with more than one bit).
std::vector<float> besideOne(int one, int place, int count, double factor) {
  Problem problem(kSlab);
  constexpr int kOfColumns[] = {0, kLeastNormal, kLeast};
  for (int row = 0; row <= kLeast; ++row) {
    problem.setA(row, one, 1);
    for (int i = 0; i < count; ++i)
      problem.setA(row, place + i, factor * std::ldexp(1, -row));
  }
  for (int column = 0; column < 3; ++column) {
    problem.setB(column, one, 1);
    for (int i = 0; i < count; ++i)
      problem.setB(column, place + i, std::ldexp(1, -kOfColumns[column]));
  }
  std::vector<float> all = problem.run(), results;
  for (int e = 0; e < kExponents; ++e) {
    int column = e <= kLeastNormal ? 0 : e <= 2 * kLeastNormal ? 1 : 2;
    results.push_back(all[(e - kOfColumns[column]) * kColumns + column]);
  }
  return results;
}

/// The greatest exponent at which the result differs from 1.
int bitsKept(const std::vector<float> &results) {
  int bits = 0;
  for (int e = 0; e < int(results.size()); ++e)
    if (results[e] != 1)
      bits = e;
  return bits;
}

/// Bits of a result's mantissa that are ever set.
int bitsOfResults(const std::vector<float> &results) {
  constexpr int kMantissa = 23;
  int bits = 0;
  for (float value : results) {
    unsigned word;
    std::memcpy(&word, &value, sizeof(word));
    for (int bit = 0; bit < kMantissa; ++bit)
      if (word >> bit & 1) {
        bits = std::max(bits, kMantissa - bit);
        break;
      }
  }
  return bits;
}

void addBits(Report &report) {
  constexpr int kNext = kDepth; // the first place of the next instruction
  int products = bitsKept(besideOne(0, 1, 1, 1));
  report.add("sums/bits_of_a_product", {{"bits", products}});
  report.add("sums/bits_of_a_product_behind_the_sum",
             {{"bits", bitsKept(besideOne(0, kNext, 1, 1))}});
  report.add("sums/bits_of_the_sum",
             {{"bits", bitsKept(besideOne(kNext, 0, 1, 1))}});
  // The last bit that is kept, and three quarters of one more. In units of that
  // bit: 1 if cut off, 2 if rounded; for negative numbers -1 if cut off towards
  // zero.
  double bit = std::ldexp(1, -products);
  double above = besideOne(0, 1, 1, 1.75)[products];
  double below = besideOne(0, 1, 1, -1.75)[products];
  report.add("sums/1.75_of_the_last_bit",
             {{"added", (above - 1) / bit}, {"subtracted", (1 - below) / bit}});
  // Whether each of them is lost, or all are kept until they are added up.
  if (products + 1 < kExponents) {
    double many = besideOne(0, 1, kDepth - 1, 1)[products + 1];
    report.add("sums/31_halves_of_the_last_bit",
               {{"added", (many - 1) / bit}, {"exact", (kDepth - 1) / 2.0}});
  }
}

/// Sums of ones, which are exact until 1 is below the last bit of the sum.
void addOnes(Report &report) {
  for (int k : {4096, 16384, 32768, 65536}) {
    Problem problem(k);
    for (int i = 0; i < k; ++i) {
      problem.setA(0, i, 1);
      problem.setB(0, i, 1);
    }
    report.add("sums/ones/k" + std::to_string(k),
               {{"sum", problem.run()[0]},
                {"promoted", problem.run(kSlab / kDepth)[0]},
                {"exact", k}});
  }
}

/// Errors of random data: relative to the exact sum if all are positive, else
/// to the sum of magnitudes.
void addErrors(Report &report) {
  constexpr int kWidth = 4;
  std::mt19937 random(20240501);
  for (int k : {4096, 16384})
    for (bool isPositive : {true, false}) {
      Problem problem(k);
      std::normal_distribution<double> normal;
      auto draw = [&] {
        double value = 16 * normal(random);
        return isPositive ? std::abs(value) : value;
      };
      for (int i = 0; i < k; ++i) {
        for (int row = 0; row < kRows; ++row)
          problem.setA(row, i, draw());
        for (int column = 0; column < kColumns; ++column)
          problem.setB(column, i, draw());
      }
      std::vector<float> fast = problem.run();
      std::vector<float> promoted = problem.run(kSlab / kDepth);
      std::vector<double> errors[2];
      for (int row = 0; row < kRows; ++row)
        for (int column = 0; column < kWidth; ++column) {
          double exact = problem.exact(row, column);
          double magnitude = problem.magnitude(row, column);
          int at = row * kColumns + column;
          errors[0].push_back(std::abs(fast[at] - exact) / magnitude);
          errors[1].push_back(std::abs(promoted[at] - exact) / magnitude);
        }
      report.add("sums/" + std::string(isPositive ? "positive" : "both_signs") +
                     "/k" + std::to_string(k),
                 {{"error", median(errors[0])},
                  {"error_promoted", median(errors[1])},
                  {"bits_of_results", bitsOfResults(fast)}});
    }
}

} // namespace

void measureSums(Report &report) {
  addBits(report);
  addOnes(report);
  addErrors(report);
}

} // namespace micro
