//===- Chain.cpp ----------------------------------------------------------===//
#include "Families/Chain.h"

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

static llvm::StringRef enumeratorOf(PointwiseOp op) {
  switch (op) {
  case PointwiseOp::None:
    return "None";
  case PointwiseOp::Bias:
    return "Bias";
  case PointwiseOp::Residual:
    return "Residual";
  case PointwiseOp::Relu:
    return "Relu";
  case PointwiseOp::GeluErf:
    return "GeluErf";
  case PointwiseOp::GeluTanh:
    return "GeluTanh";
  case PointwiseOp::Silu:
    return "Silu";
  case PointwiseOp::Mul:
    return "Mul";
  case PointwiseOp::Scale:
    return "Scale";
  case PointwiseOp::RowBias:
    return "RowBias";
  case PointwiseOp::ColumnScale:
    return "ColumnScale";
  case PointwiseOp::RowScale:
    return "RowScale";
  case PointwiseOp::SwiGlu:
    return "SwiGlu";
  }
  return "None";
}

std::string initializerText(const PointwiseChain &chain) {
  std::string ops;
  for (int i = 0; i < chain.size(); ++i)
    ops += fmt::format("{}kiln::PointwiseOp::{}", i ? ", " : "",
                       enumeratorOf(chain.ops[i]));
  return "{{" + ops + "}}";
}

} // namespace kiln
