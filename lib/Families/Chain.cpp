//===- Chain.cpp ----------------------------------------------------------===//
#include "Families/Chain.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

#include <llvm/ADT/StringRef.h>

namespace kiln {

int64_t encodeChain(const PointwiseChain &chain) {
  uint64_t value = 0;
  for (int i = 0; i < PointwiseChain::kMaxOps; ++i)
    value |= static_cast<uint64_t>(chain.ops[i]) << (8 * i);
  return static_cast<int64_t>(value);
}

PointwiseChain decodeChain(int64_t value) {
  PointwiseChain chain;
  for (int i = 0; i < PointwiseChain::kMaxOps; ++i)
    chain.ops[i] = static_cast<PointwiseOp>(
        (static_cast<uint64_t>(value) >> (8 * i)) & 0xff);
  return chain;
}

LinkCost costOf(PointwiseOp op, bool pairs) {
  switch (op) {
  case PointwiseOp::None:
    return {};
  case PointwiseOp::GeluErf:
    return {26, 1};
  case PointwiseOp::GeluTanh:
    return pairs ? LinkCost{7, 1.5} : LinkCost{5, 2};
  case PointwiseOp::Silu:
    return pairs ? LinkCost{5, 1.5} : LinkCost{3, 2};
  default:
    return {1, 0};
  }
}

static llvm::StringRef enumeratorOf(PointwiseOp op) {
  using enum PointwiseOp;
  static constexpr EnumName<PointwiseOp> kNames[] = {
      {None, "None"},
      {Bias, "Bias"},
      {Residual, "Residual"},
      {Relu, "Relu"},
      {GeluErf, "GeluErf"},
      {GeluTanh, "GeluTanh"},
      {Silu, "Silu"},
      {Mul, "Mul"},
      {Scale, "Scale"},
      {RowBias, "RowBias"},
      {ColumnScale, "ColumnScale"},
      {RowScale, "RowScale"},
      {SwiGlu, "SwiGlu"},
      {SwiGluClamped, "SwiGluClamped"}};
  return nameIn(kNames, op, "None");
}

std::string initializerText(const PointwiseChain &chain) {
  std::string ops;
  for (int i = 0; i < chain.size(); ++i)
    ops += fmt::format("{}kiln::PointwiseOp::{}", i ? ", " : "",
                       enumeratorOf(chain.ops[i]));
  return "{{" + ops + "}}";
}

} // namespace kiln
