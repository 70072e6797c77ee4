//===- PeerCase.h - a product for cuBLASLt, with its operands in memory ---===//
#pragma once

#include "Fakes/FakeCublasLt.h"
#include "Store/FakeFamily.h"
#include "compare/BenchOutput.h"
#include "compare/CublasLt.h"

#include <random>

namespace kiln::fake {

/// The stand-in library.
inline std::shared_ptr<const cli::CublasLt> fakeCublasLt() {
  Environment environment;
  environment.kilnCublasLt =
      std::string(KILN_BINARY_DIR) + "/lib/libkiln_fake_cublaslt.so";
  return must(cli::CublasLt::load(environment, {}));
}

/// D[m, n] = A[m, k] B[n, k]^T with scales in any order, on host memory that
/// the stand-in computes with.
class PeerCase {
public:
  enum Index : int { A, B, D, ScaleA, ScaleB, Count };

  PeerCase(DType type, int64_t m, int64_t n, int64_t k) {
    table.operands.resize(Count);
    product.type = product.typeB = type;
    product.layout = Layout::NT;
    product.m = m;
    product.n = n;
    product.k = k;
    product.a = A;
    product.b = B;
    product.d = D;
    set(A, type, m, k, k);
    set(B, type, n, k, k);
    setOut(type == DType::INT8 ? DType::INT32 : DType::FP32);
  }

  void setOut(DType type) {
    product.out = type;
    set(D, type, product.m, product.n, product.n);
  }
  void setTypeB(DType type) { product.typeB = table.operands[B].type = type; }
  /// Scales of A; \p ld 0: without gaps.
  void scaleA(ScaleKind kind, bool alongRows = false, int64_t ld = 0) {
    setScales(product.scalesA, ScaleA, kind, product.m, alongRows, ld);
  }
  void scaleB(ScaleKind kind, bool alongRows = false, int64_t ld = 0) {
    setScales(product.scalesB, ScaleB, kind, product.n, alongRows, ld);
  }
  /// Scales of 1x128 with 128x128 where cuBLASLt wants them.
  void scaleBlocks() {
    scaleA(ScaleKind::Block1x128, true);
    scaleB(ScaleKind::Block128x128, false,
           (blocks(product.k, 128) + 3) / 4 * 4);
  }

  /// Fills all operands; another \p seed, other data.
  void fill(unsigned seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < Count; ++i) {
      const OperandSpec &spec = table.operands[size_t(i)];
      memory[i].assign(size_t(spec.bytes() + 256) / 4 + 1, 0);
      auto *bytes = reinterpret_cast<uint8_t *>(memory[i].data());
      if (spec.type == DType::FP32)
        for (float &value : memory[i])
          value = std::ldexp(1.0f, int(random() % 7) - 4);
      else
        for (int64_t at = 0; at < spec.bytes(); ++at)
          bytes[at] = uint8_t(random() % 2 * 0x80 + random() % 0x60);
    }
  }

  Arguments arguments() {
    Arguments made;
    for (int i = 0; i < Count; ++i)
      made.operands[i].address = reinterpret_cast<DeviceAddress>(dataOf(i));
    return made;
  }

  /// D by Kiln's definition.
  double expected(int64_t row, int64_t col) {
    double sum = 0;
    for (int64_t depth = 0; depth < product.k; ++depth)
      sum += at(A, row * product.k + depth) * at(B, col * product.k + depth) *
             scaleAt(product.scalesA, row, depth) *
             scaleAt(product.scalesB, col, depth);
    return sum;
  }
  double at(int operand, int64_t index) {
    const OperandSpec &spec = table.operands[size_t(operand)];
    const auto bytes = static_cast<size_t>(spec.bytes());
    if (spec.type == DType::INT32)
      return static_cast<int32_t *>(dataOf(operand))[index];
    return cli::elementAt(
        {static_cast<const uint8_t *>(dataOf(operand)), bytes}, size_t(index),
        spec.type);
  }

  MatrixProduct product;
  OperandTable table;

private:
  static int64_t blocks(int64_t extent, int size) {
    return size ? (extent + size - 1) / size : 1;
  }
  void set(int index, DType type, int64_t rows, int64_t cols, int64_t ld) {
    OperandSpec &spec = table.operands[size_t(index)];
    spec.type = type;
    spec.rows = rows;
    spec.cols = cols;
    spec.leadingDimension = ld;
    spec.batchStride = rows * ld;
    spec.role = index == D ? OperandRole::Out : OperandRole::In;
  }
  void setScales(ProductScales &scales, int index, ScaleKind kind, int64_t rows,
                 bool alongRows, int64_t ld) {
    int64_t lines = blocks(rows, scaledRows(kind));
    int64_t length = blocks(product.k, scaledDepth(kind));
    if (alongRows || !isBlockScale(kind))
      std::swap(lines, length);
    scales = {kind, alongRows, ld ? ld : length, index};
    set(index, DType::FP32, lines, length, scales.ld);
  }
  double scaleAt(const ProductScales &scales, int64_t row, int64_t depth) {
    if (scales.kind == ScaleKind::None)
      return 1;
    if (scales.kind == ScaleKind::Tensor)
      return at(scales.operand, 0);
    const int64_t line = row / scaledRows(scales.kind);
    if (scales.kind == ScaleKind::Row)
      return at(scales.operand, line);
    const int64_t block = depth / 128;
    return at(scales.operand, scales.alongRows ? block * scales.ld + line
                                               : line * scales.ld + block);
  }
  /// At a multiple of 16 bytes, in memory that is large enough.
  void *dataOf(int operand) {
    auto address = reinterpret_cast<uintptr_t>(memory[operand].data());
    return reinterpret_cast<void *>((address + 15) / 16 * 16);
  }

  std::vector<float> memory[Count];
};

} // namespace kiln::fake
