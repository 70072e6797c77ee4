//===- RowFields.h - the fields of a problem over rows, and their places --===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

/// The family of a problem. Pointwise: elementwise problems whose result is
/// quantised, which have fields of their own.
enum class RowKind { RmsNorm, LayerNorm, Softmax, Quantize, Reduce, Pointwise };

/// Least epsilon of a norm.
inline constexpr double kLeastEpsilon = 0;

/// The fields of problems of these families. A family's schema has some of
/// them, at the places that fieldIndex() gives.
struct RowField {
  enum : int {
    Rows,
    Cols,
    DType,
    Out,
    Op,
    Axis,
    Weight,
    Bias,
    Residual,
    Mask,
    Epsilon,
    Scale,
    LdX,
    LdY,
    LdResidual,
    LdResidualOut,
    LdMask,
    ScaleY,
    ScaleOrderY,
    LdScaleY,
    Align,
    Count
  };
};

/// The fields of one family's problems, in their order.
struct RowFieldList {
  int count = 0;
  int8_t fields[RowField::Count] = {};
  /// The place of each RowField among them; -1 if it is absent.
  int8_t indexOf[RowField::Count] = {};

  template <size_t N> constexpr explicit RowFieldList(const int (&list)[N]) {
    for (int8_t &index : indexOf)
      index = -1;
    for (int field : list) {
      indexOf[field] = static_cast<int8_t>(count);
      fields[count++] = static_cast<int8_t>(field);
    }
  }
};

inline constexpr RowFieldList kNormFields(
    {RowField::Rows, RowField::Cols, RowField::DType, RowField::Out,
     RowField::Weight, RowField::Bias, RowField::Residual, RowField::Epsilon,
     RowField::LdX, RowField::LdY, RowField::LdResidual,
     RowField::LdResidualOut, RowField::ScaleY, RowField::ScaleOrderY,
     RowField::LdScaleY, RowField::Align});
inline constexpr RowFieldList kSoftmaxFields(
    {RowField::Rows, RowField::Cols, RowField::DType, RowField::Out,
     RowField::Scale, RowField::Mask, RowField::LdX, RowField::LdY,
     RowField::LdMask, RowField::Align});
inline constexpr RowFieldList kQuantizeFields(
    {RowField::Rows, RowField::Cols, RowField::DType, RowField::Op,
     RowField::LdX, RowField::LdY, RowField::ScaleY, RowField::ScaleOrderY,
     RowField::LdScaleY, RowField::Align});
inline constexpr RowFieldList kReduceFields({RowField::Op, RowField::Rows,
                                             RowField::Cols, RowField::Axis,
                                             RowField::DType, RowField::Out,
                                             RowField::LdX, RowField::Align});

constexpr const RowFieldList &fieldsOf(RowKind kind) {
  switch (kind) {
  case RowKind::RmsNorm:
  case RowKind::LayerNorm:
  case RowKind::Pointwise:
    break;
  case RowKind::Softmax:
    return kSoftmaxFields;
  case RowKind::Quantize:
    return kQuantizeFields;
  case RowKind::Reduce:
    return kReduceFields;
  }
  return kNormFields;
}

/// Index of RowField \p field in the problems of \p kind; -1 if it is absent.
constexpr int fieldIndex(RowKind kind, int field) {
  return fieldsOf(kind).indexOf[field];
}

} // namespace kiln
