//===- problems.hpp - builders of problems over kiln.h --------------------===//
//
// The part of kiln.hpp that says what to compute: a class with setters for each
// struct of kiln.h, Problem and Arguments. Each builder holds its struct, which
// get() shows. The calls that get it check it: setters never fail.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PROBLEMS_HPP
#define KILN_PROBLEMS_HPP

#include "kiln/builders.hpp"
#include "kiln/kiln.h"

#include <array>
#include <cassert>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln {
inline namespace v1 {

//===----------------------------------------------------------------------===//
// Gemm
//===----------------------------------------------------------------------===//

/// D = pointwise(alpha * op(A) op(B) + beta * C): a kiln_gemm_args with
/// setters. Leading dimensions of 0 are packed rows. The pointwise chain is
/// applied in the order in which it is added. Addresses may be left out where
/// the problem is only described. A copy has its own parts and chain; where
/// get() was made to point at structs of the caller's, it points at these.
class Gemm {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_GEMM;
  static constexpr auto kLaunch = &kiln_gemm;

  /// All operands have \p type; D is changed by outputType().
  Gemm(kiln_dtype type, int64_t m, int64_t n, int64_t k) noexcept {
    values.m = m;
    values.n = n;
    values.k = k;
    values.a.type = type;
    values.pointwise = links.data();
  }
  Gemm(const Gemm &other) noexcept
      : values(other.values), links(other.links), scales(other.scales),
        packed(other.packed), quantized(other.quantized), groups(other.groups) {
    relink(other);
  }
  Gemm &operator=(const Gemm &other) noexcept {
    values = other.values;
    links = other.links;
    scales = other.scales;
    packed = other.packed;
    quantized = other.quantized;
    groups = other.groups;
    relink(other);
    return *this;
  }

  Gemm &layout(kiln_layout value) noexcept { return set(values.layout, value); }
  Gemm &batch(int64_t count) noexcept { return set(values.batch, count); }
  Gemm &compute(kiln_compute mode) noexcept {
    return set(values.compute, mode);
  }
  Gemm &outputType(kiln_dtype type) noexcept {
    return set(values.d.type, type);
  }
  /// The type of B where it differs from A's: the other fp8 type.
  Gemm &weightType(kiln_dtype type) noexcept {
    return set(values.b.type, type);
  }
  /// A, or B, is multiplied by scales, fp32 in device memory: one for all, or
  /// one for each row or column of the operand as stored. \p batchStride:
  /// scales from one matrix of a batch to the next; 0: the batch shares them.
  Gemm &scaleA(const void *data,
               kiln_granularity each = KILN_GRANULARITY_TENSOR,
               int64_t batchStride = 0) noexcept {
    set(scales.a, each, data, batchStride);
    values.scales = &scales;
    return *this;
  }
  Gemm &scaleB(const void *data,
               kiln_granularity each = KILN_GRANULARITY_TENSOR,
               int64_t batchStride = 0) noexcept {
    set(scales.b, each, data, batchStride);
    values.scales = &scales;
    return *this;
  }
  /// The same with a scale for each block of the operand as stored.
  /// Neighbouring scales are \p rowStride and \p columnStride apart, of which
  /// one is 1; both 0: rows are packed.
  Gemm &blockScaleA(const void *data, int32_t rows, int32_t columns,
                    int64_t rowStride = 0, int64_t columnStride = 0,
                    int64_t batchStride = 0) noexcept {
    scaleA(data, KILN_GRANULARITY_BLOCK, batchStride);
    return block(scales.a, {rows, columns}, {rowStride, columnStride});
  }
  Gemm &blockScaleB(const void *data, int32_t rows, int32_t columns,
                    int64_t rowStride = 0, int64_t columnStride = 0,
                    int64_t batchStride = 0) noexcept {
    scaleB(data, KILN_GRANULARITY_BLOCK, batchStride);
    return block(scales.b, {rows, columns}, {rowStride, columnStride});
  }
  /// D is e4m3, divided by one scale for all, which is given, or by a scale for
  /// each row, which is written; fp32 in device memory.
  Gemm &quantizeD(void *scaleData, kiln_granularity each,
                  int64_t batchStride = 0) noexcept {
    values.d.type = KILN_E4M3;
    set(quantized.scale, each, scaleData, batchStride);
    values.quantized_d = &quantized;
    return *this;
  }
  /// The same with a scale for each 128 columns of a row, which are written.
  /// Strides are as in blockScaleA(), so that a product with this D as its A
  /// can read the scales.
  Gemm &blockQuantizeD(void *scaleData, int64_t rowStride = 0,
                       int64_t columnStride = 0,
                       int64_t batchStride = 0) noexcept {
    quantizeD(scaleData, KILN_GRANULARITY_BLOCK, batchStride);
    return block(quantized.scale, {1, 128}, {rowStride, columnStride});
  }
  /// Zero points of an int8 A: one for all, or one for each row or column of
  /// the operand as stored. \p sums are the sums of the columns of op(B) over
  /// k. Both are int32 in device memory.
  Gemm &zeroPointsA(const int32_t *data, const int32_t *sums,
                    kiln_granularity each = KILN_GRANULARITY_TENSOR) noexcept {
    set(scales.a_zeros, each, data, 0);
    scales.column_sums_b = sums;
    values.scales = &scales;
    return *this;
  }
  /// B as kiln_prepack made it (prepack.h): codes of \p type, which never
  /// change, scales of \p scaleType for \p groupSize steps of k (0: for all),
  /// and zero points, unless they are null: see packedZeros(). Matrices of a
  /// batch follow each other without gaps.
  Gemm &packedWeights(kiln_dtype type, kiln_weight_order order,
                      const void *data, const void *scaleData,
                      kiln_dtype scaleType, int32_t groupSize,
                      const void *zeros = nullptr) noexcept {
    values.b.type = type;
    scales.b = {};
    packed.order = order;
    const bool isRow = groupSize == 0;
    set(packed.scale, isRow ? KILN_GRANULARITY_ROW : KILN_GRANULARITY_BLOCK,
        scaleData, 0);
    if (!isRow)
      block(packed.scale, {1, groupSize}, {0, 0});
    packed.scale.type = scaleType;
    packed.zeros = {};
    if (zeros)
      packedZeros(zeros);
    values.packed_b = &packed;
    return weights(data);
  }
  /// The weights of packedWeights(), which is called before, have zero points,
  /// whatever their address: null where the problem is only described.
  Gemm &packedZeros(const void *data) noexcept {
    packed.zeros = packed.scale;
    packed.zeros.data = const_cast<void *>(data);
    packed.zeros.type = KILN_INT8;
    return *this;
  }
  /// B is batch() matrices, each with a group of rows that ends before row
  /// ends[g] of A and D, int32 in device memory. A group begins at a multiple
  /// of \p align.
  Gemm &groupsByEnds(const int32_t *ends, int64_t align = 0) noexcept {
    return group(KILN_GROUPS_ENDS, ends, 0, align);
  }
  /// A and D are batch() matrices of \p room rows, of which the first rows[g]
  /// exist; the problem's m is the expected number.
  Gemm &maskedGroups(const int32_t *rows, int64_t room) noexcept {
    return group(KILN_GROUPS_MASKED, rows, room, 0);
  }
  /// Row r of the product is row index[r] / divisor of A.
  Gemm &gatherRows(const int32_t *index, int64_t divisor = 1) noexcept {
    mapRows(KILN_ROWS_GATHER, index);
    groups.divisor = divisor;
    return *this;
  }
  /// Row r of the product is row index[r] of D. A gather has the same index.
  Gemm &scatterRows(const int32_t *index) noexcept {
    return mapRows(KILN_ROWS_SCATTER, index);
  }
  /// Each row of the epilogue's result is multiplied by its weight.
  Gemm &rowWeights(const float *weights) noexcept {
    mapRows(KILN_ROWS_WEIGHTS, groups.index);
    groups.weights = weights;
    return *this;
  }
  Gemm &determinism(kiln_determinism level) noexcept {
    return set(values.determinism, level);
  }
  Gemm &alpha(double value) noexcept { return set(values.alpha, value); }
  /// alpha, an fp32 in device memory, is read when the kernel runs.
  Gemm &alphaDevice(const float *address) noexcept {
    return set(values.alpha_device, address);
  }
  /// The same for beta: the C of c() is read whatever the beta given there.
  Gemm &betaDevice(const float *address) noexcept {
    return set(values.beta_device, address);
  }

  Gemm &a(const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.a, data, leadingDim, batchStride);
  }
  Gemm &b(const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.b, data, leadingDim, batchStride);
  }
  /// The same with the promise that the content never changes.
  Gemm &weights(const void *data, int64_t leadingDim = 0,
                int64_t batchStride = 0) noexcept {
    values.b.flags |= KILN_OPERAND_CONSTANT;
    return b(data, leadingDim, batchStride);
  }
  /// The launch may begin before the kernel ahead of it has ended: see
  /// KILN_CALL_DEPENDENT. Only constant operands, such as weights(), are read
  /// before.
  Gemm &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }
  /// Adds beta * C.
  Gemm &c(double beta, const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    values.beta = beta;
    return place(values.c, data, leadingDim, batchStride);
  }
  Gemm &d(void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.d, data, leadingDim, batchStride);
  }

  Gemm &bias(const void *data, int64_t batchStride = 0) noexcept {
    return link(KILN_POINTWISE_BIAS, data, 0, batchStride);
  }
  Gemm &residual(const void *data, int64_t leadingDim = 0,
                 int64_t batchStride = 0) noexcept {
    return link(KILN_POINTWISE_RESIDUAL, data, leadingDim, batchStride);
  }
  Gemm &relu() noexcept { return link(KILN_POINTWISE_RELU); }
  Gemm &geluErf() noexcept { return link(KILN_POINTWISE_GELU_ERF); }
  Gemm &geluTanh() noexcept { return link(KILN_POINTWISE_GELU_TANH); }
  Gemm &silu() noexcept { return link(KILN_POINTWISE_SILU); }
  /// silu(x) * y of columns 2j and 2j + 1: D and what later links read are half
  /// as wide.
  Gemm &swiGlu() noexcept { return link(KILN_POINTWISE_SWIGLU); }
  /// The same with the clamped activation of gpt-oss.
  Gemm &swiGluClamped() noexcept { return link(KILN_POINTWISE_SWIGLU_CLAMPED); }

  /// Valid while this object lives and is not changed. A chain that is longer
  /// than KILN_MAX_POINTWISE is refused by the call that gets it.
  const kiln_gemm_args &get() const noexcept { return values; }
  kiln_gemm_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    slots.operands[KILN_GEMM_A] = values.a.data;
    slots.operands[KILN_GEMM_B] = values.b.data;
    slots.operands[KILN_GEMM_C] = values.c.data;
    slots.operands[KILN_GEMM_D] = values.d.data;
    fillParts(slots);
    slots.operands[KILN_GEMM_ALPHA] = const_cast<float *>(values.alpha_device);
    slots.operands[KILN_GEMM_BETA] = const_cast<float *>(values.beta_device);
    detail::fillChain(values, KILN_GEMM_POINTWISE, slots);
    slots.scalars = {values.alpha, values.beta};
    slots.scalarCount = 2;
  }

private:
  template <class T> Gemm &set(T &field, T value) noexcept {
    field = value;
    return *this;
  }
  /// A copied struct points to its own links and parts where the other one
  /// does.
  void relink(const Gemm &other) noexcept {
    if (values.pointwise == other.links.data())
      values.pointwise = links.data();
    if (values.scales == &other.scales)
      values.scales = &scales;
    if (values.packed_b == &other.packed)
      values.packed_b = &packed;
    if (values.quantized_d == &other.quantized)
      values.quantized_d = &quantized;
    if (values.groups == &other.groups)
      values.groups = &groups;
  }
  /// Addresses of the parts that the struct points at.
  void fillParts(detail::Slots &slots) const noexcept {
    auto put = [&](uint32_t slot, const void *data) {
      slots.operands[slot] = const_cast<void *>(data);
    };
    if (const kiln_gemm_scales *from = values.scales) {
      put(KILN_GEMM_SCALE_A, from->a.data);
      put(KILN_GEMM_SCALE_B, from->b.data);
      put(KILN_GEMM_ZERO_A, from->a_zeros.data);
      put(KILN_GEMM_COLUMN_SUMS_B, from->column_sums_b);
    }
    if (const kiln_gemm_packed_b *from = values.packed_b) {
      put(KILN_GEMM_SCALE_B, from->scale.data);
      put(KILN_GEMM_ZERO_B, from->zeros.data);
    }
    if (values.quantized_d)
      put(KILN_GEMM_SCALE_D, values.quantized_d->scale.data);
    if (const kiln_gemm_groups *from = values.groups) {
      put(KILN_GEMM_GROUP_SIZES, from->sizes);
      put(KILN_GEMM_ROW_INDEX, from->index);
      put(KILN_GEMM_ROW_WEIGHTS, from->weights);
    }
  }
  Gemm &group(kiln_group_kind kind, const int32_t *sizes, int64_t room,
              int64_t align) noexcept {
    groups.kind = kind;
    groups.sizes = sizes;
    groups.room = room;
    groups.align = align;
    values.groups = &groups;
    return *this;
  }
  Gemm &mapRows(uint32_t flags, const int32_t *index) noexcept {
    groups.flags |= flags;
    groups.index = index;
    values.groups = &groups;
    return *this;
  }
  static void set(kiln_scale &scale, kiln_granularity each, const void *data,
                  int64_t batchStride) noexcept {
    scale = {};
    scale.granularity = each;
    scale.data = const_cast<void *>(data);
    scale.batch_stride = batchStride;
  }
  Gemm &block(kiln_scale &scale, std::array<int32_t, 2> sides,
              std::array<int64_t, 2> strides) noexcept {
    scale.block_rows = sides[0];
    scale.block_columns = sides[1];
    scale.row_stride = strides[0];
    scale.column_stride = strides[1];
    return *this;
  }
  Gemm &place(kiln_operand &operand, const void *data, int64_t leadingDim,
              int64_t batchStride) noexcept {
    detail::place(operand, data, leadingDim);
    operand.batch_stride = batchStride;
    return *this;
  }
  Gemm &link(kiln_pointwise_op op, const void *data = nullptr,
             int64_t leadingDim = 0, int64_t batchStride = 0) noexcept {
    uint32_t index = values.pointwise_count++;
    if (index >= links.size())
      return *this;
    links[index].op = op;
    return place(links[index].operand, data, leadingDim, batchStride);
  }

  kiln_gemm_args values = kiln_gemm_args_init();
  std::array<Sized<kiln_pointwise>, KILN_MAX_POINTWISE> links;
  // Parts of the call, where it has them.
  Sized<kiln_gemm_scales> scales;
  Sized<kiln_gemm_packed_b> packed;
  Sized<kiln_gemm_quantized_d> quantized;
  Sized<kiln_gemm_groups> groups;
};

//===----------------------------------------------------------------------===//
// Over rows
//===----------------------------------------------------------------------===//

/// y = pointwise(x): a kiln_elementwise_args with setters. The chain is applied
/// in the order in which it is added; without a link, a copy or cast.
class Elementwise
    : public detail::QuantizingBuilder<Elementwise, kiln_elementwise_args,
                                       KILN_ELEMENTWISE_SCALES> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ELEMENTWISE;
  static constexpr auto kLaunch = &kiln_elementwise;

  /// x, y and what links read have \p type; y is changed by outputType().
  Elementwise(kiln_dtype type, int64_t rows, int64_t cols) noexcept
      : QuantizingBuilder(KILN_INIT(kiln_elementwise_args), type, rows, cols) {
    values.pointwise = links.data();
  }
  Elementwise(const Elementwise &other) noexcept
      : QuantizingBuilder(other), links(other.links) {
    relink(other);
  }
  Elementwise &operator=(const Elementwise &other) noexcept {
    QuantizingBuilder::operator=(other);
    links = other.links;
    relink(other);
    return *this;
  }

  Elementwise &outputType(kiln_dtype type) noexcept {
    values.y.type = type;
    return *this;
  }
  /// Adds, or multiplies by, a rows x cols matrix. All matrices of a chain have
  /// one leading dimension.
  Elementwise &add(const void *data, int64_t leadingDim = 0) noexcept {
    return link(KILN_POINTWISE_RESIDUAL, data, leadingDim);
  }
  Elementwise &mul(const void *data, int64_t leadingDim = 0) noexcept {
    return link(KILN_POINTWISE_MUL, data, leadingDim);
  }
  Elementwise &scale(float factor) noexcept {
    uint32_t index = values.pointwise_count;
    link(KILN_POINTWISE_SCALE);
    if (index < links.size())
      links[index].params[0] = factor;
    return *this;
  }
  /// A value for each column.
  Elementwise &bias(const void *data) noexcept {
    return link(KILN_POINTWISE_BIAS, data);
  }
  Elementwise &columnScale(const void *data) noexcept {
    return link(KILN_POINTWISE_COLUMN_SCALE, data);
  }
  /// A value for each row.
  Elementwise &rowBias(const void *data) noexcept {
    return link(KILN_POINTWISE_ROW_BIAS, data);
  }
  Elementwise &rowScale(const void *data) noexcept {
    return link(KILN_POINTWISE_ROW_SCALE, data);
  }
  Elementwise &relu() noexcept { return link(KILN_POINTWISE_RELU); }
  Elementwise &geluErf() noexcept { return link(KILN_POINTWISE_GELU_ERF); }
  Elementwise &geluTanh() noexcept { return link(KILN_POINTWISE_GELU_TANH); }
  Elementwise &silu() noexcept { return link(KILN_POINTWISE_SILU); }

  void fill(detail::Slots &slots) const noexcept {
    fillXY(slots);
    detail::fillChain(values, KILN_ELEMENTWISE_POINTWISE, slots);
    fillScales(slots);
    fillScalar(1.0, slots);
    for (uint32_t i = 0; i < detail::linkCount(values); ++i)
      if (values.pointwise[i].op == KILN_POINTWISE_SCALE)
        slots.scalars[0] = values.pointwise[i].params[0];
  }

private:
  /// As in Gemm.
  void relink(const Elementwise &other) noexcept {
    if (values.pointwise == other.links.data())
      values.pointwise = links.data();
  }
  Elementwise &link(kiln_pointwise_op op, const void *data = nullptr,
                    int64_t leadingDim = 0) noexcept {
    uint32_t index = values.pointwise_count++;
    if (index >= links.size())
      return *this;
    links[index].op = op;
    detail::place(links[index].operand, data, leadingDim);
    return *this;
  }

  std::array<Sized<kiln_pointwise>, KILN_MAX_POINTWISE> links;
};

/// y[r] = op(x[r, :]), or y = op(x) after all(): a kiln_reduce_args with
/// setters.
class Reduce : public detail::RowBuilder<Reduce, kiln_reduce_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_REDUCTION;
  static constexpr auto kLaunch = &kiln_reduce;

  Reduce(kiln_reduction op, kiln_dtype type, int64_t rows,
         int64_t cols) noexcept
      : RowBuilder(KILN_INIT(kiln_reduce_args), type, rows, cols) {
    values.op = op;
  }
  Reduce &outputType(kiln_dtype type) noexcept {
    values.y.type = type;
    return *this;
  }
  /// Reduces all to one value.
  Reduce &all() noexcept {
    values.axis = KILN_AXIS_ALL;
    return *this;
  }

  void fill(detail::Slots &slots) const noexcept { fillXY(slots); }
};

/// y = softmax(scale * x + mask) of each row: a kiln_softmax_args with setters.
class Softmax : public detail::RowBuilder<Softmax, kiln_softmax_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_SOFTMAX;
  static constexpr auto kLaunch = &kiln_softmax;

  Softmax(kiln_dtype type, int64_t rows, int64_t cols) noexcept
      : RowBuilder(kiln_softmax_args_init(), type, rows, cols) {}
  Softmax &outputType(kiln_dtype type) noexcept {
    values.y.type = type;
    return *this;
  }
  Softmax &scale(double factor) noexcept {
    values.scale = factor;
    return *this;
  }
  /// A rows x cols matrix that is added.
  Softmax &mask(const void *data, int64_t leadingDim = 0) noexcept {
    values.mask_kind = KILN_MASK_MATRIX;
    detail::place(values.mask, data, leadingDim);
    return *this;
  }
  /// cols values that are added to every row.
  Softmax &rowMask(const void *data) noexcept {
    values.mask_kind = KILN_MASK_ROW;
    detail::place(values.mask, data, 0);
    return *this;
  }

  void fill(detail::Slots &slots) const noexcept {
    fillXY(slots);
    slots.operands[KILN_ROW_MASK] = values.mask.data;
    fillScalar(values.scale, slots);
  }
};

namespace detail {
/// A kiln_norm_args with setters, for both norms.
template <class Self>
class NormBuilder : public QuantizingBuilder<Self, kiln_norm_args> {
public:
  NormBuilder(kiln_dtype type, int64_t rows, int64_t cols) noexcept
      : QuantizingBuilder<Self, kiln_norm_args>(kiln_norm_args_init(), type,
                                                rows, cols) {}
  Self &outputType(kiln_dtype type) noexcept {
    this->values.y.type = type;
    return this->self();
  }
  Self &epsilon(double value) noexcept {
    this->values.epsilon = value;
    return this->self();
  }
  /// weight() and bias(): a factor and a term for each column, in x's type.
  Self &weight(const void *data) noexcept {
    return optional(this->values.weight, data, 0);
  }
  Self &bias(const void *data) noexcept {
    return optional(this->values.bias, data, 0);
  }
  /// Normalises x + residual and stores that sum to \p sum, which may be the
  /// residual itself.
  Self &residual(const void *data, void *sum, int64_t leadingDim = 0,
                 int64_t sumLeadingDim = 0) noexcept {
    optional(this->values.residual_out, sum, sumLeadingDim);
    return optional(this->values.residual, data, leadingDim);
  }

  void fill(Slots &slots) const noexcept {
    const kiln_norm_args &from = this->values;
    this->fillXY(slots);
    slots.operands[KILN_ROW_WEIGHT] = from.weight.data;
    slots.operands[KILN_ROW_BIAS] = from.bias.data;
    slots.operands[KILN_ROW_RESIDUAL] = from.residual.data;
    slots.operands[KILN_ROW_RESIDUAL_OUT] = from.residual_out.data;
    this->fillScales(slots);
    this->fillScalar(from.epsilon, slots);
  }

private:
  /// An operand is there when its type is set.
  Self &optional(kiln_operand &operand, const void *data,
                 int64_t leadingDim) noexcept {
    operand.type = this->values.x.type;
    place(operand, data, leadingDim);
    return this->self();
  }
};
} // namespace detail

/// y = x / sqrt(mean(x^2) + epsilon) * weight + bias of each row.
class RmsNorm : public detail::NormBuilder<RmsNorm> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_RMS_NORM;
  static constexpr auto kLaunch = &kiln_rms_norm;
  using NormBuilder::NormBuilder;
};

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias of each row.
class LayerNorm : public detail::NormBuilder<LayerNorm> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_LAYER_NORM;
  static constexpr auto kLaunch = &kiln_layer_norm;
  using NormBuilder::NormBuilder;
};

/// y = round(x / its scale): a kiln_quantize_args with setters.
class Quantize
    : public detail::QuantizingBuilder<Quantize, kiln_quantize_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_QUANTIZE;
  static constexpr auto kLaunch = &kiln_quantize;

  /// From \p type to \p outputType, e4m3 or int8.
  Quantize(kiln_dtype type, kiln_dtype outputType, int64_t rows,
           int64_t cols) noexcept
      : QuantizingBuilder(KILN_INIT(kiln_quantize_args), type, rows, cols) {
    quantized(outputType, nullptr);
  }
  /// rows fp32 values, which the kernel writes.
  Quantize &scales(void *data) noexcept {
    return quantized(values.y.type, data);
  }
  /// A value for each 128 columns of a row: as in blockQuantized().
  Quantize &blockScales(void *data, int64_t rowStride = 0,
                        int64_t columnStride = 0) noexcept {
    return blockQuantized(values.y.type, data, rowStride, columnStride);
  }

  void fill(detail::Slots &slots) const noexcept {
    fillXY(slots);
    fillScales(slots);
  }
};

/// y[c, r] = x[r, c]: a kiln_transpose_args with setters. rows and cols are
/// x's.
class Transpose : public detail::RowBuilder<Transpose, kiln_transpose_args> {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_TRANSPOSE;
  static constexpr auto kLaunch = &kiln_transpose;

  Transpose(kiln_dtype type, int64_t rows, int64_t cols) noexcept
      : RowBuilder(KILN_INIT(kiln_transpose_args), type, rows, cols) {}

  void fill(detail::Slots &slots) const noexcept { fillXY(slots); }
};

//===----------------------------------------------------------------------===//
// Problems and arguments
//===----------------------------------------------------------------------===//

/// For templates that take any of the builders above.
template <class Call>
using EnableForCall = std::enable_if_t<
    std::is_same_v<decltype(Call::kFamily), const kiln_family>>;

/// A problem without its addresses, with the ranges of its dynamic extents.
class Problem {
public:
  template <class Call, class = EnableForCall<Call>>
  Problem(const Call &described)
      : family(Call::kFamily), held(std::make_shared<const Call>(described)),
        args(&static_cast<const Call *>(held.get())->get()) {}
  /// For any family: "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT".
  Problem(std::string described) : text(std::move(described)) {}
  Problem(const char *described) : text(described) {}

  /// The extent \p name, a string literal, takes values from \p first to
  /// \p last.
  Problem &range(const char *name, int64_t first, int64_t last,
                 int64_t hint = 0) {
    kiln_range added = KILN_INIT(kiln_range);
    added.name = name;
    added.first = first;
    added.last = last;
    added.hint = hint;
    ranges.push_back(added);
    return *this;
  }

  /// The same with a name that the problem keeps.
  Problem &range(const std::string &name, int64_t first, int64_t last,
                 int64_t hint = 0) {
    names.push_back(std::make_shared<const std::string>(name));
    return range(names.back()->c_str(), first, last, hint);
  }

  /// The problem for kiln.h, valid while this object lives and is not changed.
  kiln_problem get() const noexcept {
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = family;
    problem.args = args;
    if (!args)
      problem.text = text.c_str();
    problem.ranges = ranges.data();
    problem.range_count = static_cast<uint32_t>(ranges.size());
    return problem;
  }

private:
  kiln_family family = KILN_FAMILY_FROM_TEXT;
  std::shared_ptr<const void> held; ///< the builder; never changed, so shared
  const void *args = nullptr;       ///< its struct
  std::string text;
  std::vector<kiln_range> ranges;
  std::vector<std::shared_ptr<const std::string>> names; ///< never changed
};

/// Addresses, scalars and dynamic extents of one launch of a plan.
class Arguments {
public:
  Arguments() noexcept = default;
  /// Takes addresses and scalars of a Gemm, Softmax, ..., and nothing else:
  /// extents are set by extent(), in the order of the problem's ranges.
  template <class Call, class = EnableForCall<Call>>
  explicit Arguments(const Call &call) noexcept
      : flags(call.get().flags & KILN_CALL_DEPENDENT) {
    call.fill(slots);
  }

  /// The launch may begin before the kernel ahead of it has ended: see
  /// KILN_CALL_DEPENDENT.
  Arguments &dependent(bool value = true) noexcept {
    detail::setDependent(flags, value);
    return *this;
  }
  /// The content of the slot's operand never changes: KILN_OPERAND_CONSTANT.
  Arguments &constant(uint32_t slot) noexcept {
    assert(slot < kSlots && "no such slot");
    constants |= uint64_t(1) << slot;
    return *this;
  }

  /// Sets the address of a slot (kiln_gemm_slot, kiln_row_slot, ...,
  /// kiln_operand_info.slot), which is less than kSlots.
  Arguments &operand(uint32_t slot, const void *data) noexcept {
    assert(slot < kSlots && "no such slot");
    slots.operands[slot] = const_cast<void *>(data);
    return *this;
  }
  /// Sets the value of the problem's dynamic extent \p index. Where a later one
  /// is set, an extent that is left out is refused by the launch.
  Arguments &extent(uint32_t index, int64_t value) noexcept {
    assert(index < kExtents && "no such extent");
    extents[index] = value;
    if (extentCount <= index)
      extentCount = index + 1;
    return *this;
  }

  /// Valid while this object lives and is not changed.
  kiln_arguments get() const noexcept {
    kiln_arguments arguments = KILN_INIT(kiln_arguments);
    arguments.operands = slots.operands.data();
    arguments.operand_count = kSlots;
    arguments.scalars = slots.scalarCount ? slots.scalars.data() : nullptr;
    arguments.scalar_count = slots.scalarCount;
    arguments.extents = extentCount ? extents.data() : nullptr;
    arguments.extent_count = extentCount;
    arguments.flags = flags;
    arguments.constants = constants;
    return arguments;
  }

  static constexpr uint32_t kSlots = detail::Slots::kCount, kExtents = 4;

private:
  detail::Slots slots;
  static_assert(kExtents == 4, "each extent begins as one in no range");
  std::array<int64_t, kExtents> extents{-1, -1, -1, -1};
  uint32_t extentCount = 0;
  uint32_t flags = 0;
  uint64_t constants = 0;
};

} // namespace v1
} // namespace kiln

#endif // KILN_PROBLEMS_HPP
