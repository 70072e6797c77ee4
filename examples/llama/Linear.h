//===- Linear.h - the weight of a product in device memory ----------------===//
#ifndef KILN_EXAMPLES_LLAMA_LINEAR_H
#define KILN_EXAMPLES_LLAMA_LINEAR_H

#include "Gpu.h"
#include "WeightFormat.h"

#include <kiln/kiln.hpp>

#include <cstdint>

namespace llama {

enum class ActivationType : uint8_t {
  Bf16,
  E4m3Rows,  ///< an fp32 scale for each row (per-token)
  E4m3Blocks ///< an fp32 scale for each block of 1 x 128, row by row
};

/// The type of the activations that a weight of \p type is multiplied by.
ActivationType activationOf(WeightType type);

/// A matrix of packed rows in device memory. `scales` is 0 with Bf16.
struct Activation {
  DeviceAddress address = 0;
  ActivationType type = ActivationType::Bf16;
  DeviceAddress scales = 0;
};

/// A weight W [rows, columns] of y = x W^T. `scales` and `zeros` are 0 where
/// its format has none.
struct Linear {
  int64_t rows = 0, columns = 0;
  /// Weights of rows / groups rows each that follow each other, of experts. A
  /// product with several gets the groups of its rows afterwards.
  int64_t groups = 1;
  bool isOfExperts = false;  ///< also with one expert
  bool isTransposed = false; ///< W^T is stored, in bf16
  WeightFormat format;
  DeviceAddress data = 0, scales = 0, zeros = 0;

  /// y = x W^T for the \p m rows of \p x, whose type is activationOf() that of
  /// the weight. y is packed rows, of bf16 until outputType() says else. The
  /// launch may begin before the kernel ahead of it has ended.
  kiln::Gemm product(int64_t m, const Activation &x, DeviceAddress y) const;

  /// Elements of x and of y, of one expert.
  int64_t inputs() const { return isTransposed ? rows / groups : columns; }
  int64_t outputs() const { return isTransposed ? columns : rows / groups; }
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_LINEAR_H
