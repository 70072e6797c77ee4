//===- Family.h - all that solves one kind of problem ---------------------===//
#pragma once

#include "Kernel/MatrixProduct.h"
#include "Kernel/Operand.h"
#include "Kernel/PoolDraws.h"
#include "Kernel/Template.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct CallReader; // of lib/Call

/// The most fields of a problem: the room in a launch's key.
inline constexpr size_t kMaxProblemFields = 56;
/// A value for every field of a problem; allocates nothing.
using FieldValues = llvm::SmallVector<int64_t, kMaxProblemFields>;

/// Rows [rowBegin, rowEnd) of the correct content of a written operand, and the
/// places for them: values and, with the same shape, their error bounds, double
/// and packed. A bound below 0 means that the element is not defined: a
/// candidate must not change it.
struct ReferencePart {
  int operand = 0; ///< its index in the operand table
  int64_t rowBegin = 0, rowEnd = 0;
  DeviceAddress values = 0, bounds = 0;

  int64_t rows() const { return rowEnd - rowBegin; }
};

/// The family's reference: a naive kernel that computes, in double precision,
/// the results that every candidate is compared with. Rows are those of one
/// written operand over all planes and batches: row r is row r % rows of plane
/// r / rows % planes of batch r / (rows * planes).
class Reference {
public:
  virtual ~Reference() = default;
  virtual const TranslationUnit &translationUnit() const = 0;
  /// Appends the step that computes \p part. KernelStep::function is 0.
  virtual void bind(const Arguments &arguments, const ReferencePart &part,
                    LaunchSpec &spec) const = 0;
};

/// The peer that a bench compares the kernels of a problem with.
enum class Peer {
  None,
  Blas,   ///< a library's matrix product
  Stream, ///< a copy baseline of as many bytes: the problem is memory-bound
};

/// A kind of problem: its schema, its operands, its reference, its templates.
/// Immutable once registered; thread-safe from then on.
class KernelFamily {
public:
  virtual ~KernelFamily() = default;

  /// The first word of its problems' text: "gemm".
  virtual llvm::StringRef name() const = 0;
  virtual const Schema &problemSchema() const = 0;

  /// The reader of the struct of kiln.h that describes these problems; null:
  /// there is none, and problems come as text.
  virtual const CallReader *call() const { return nullptr; }

  /// Checks the values of a problem, which need not come from parsing, and
  /// makes them canonical: a value that equals a derived default becomes that
  /// default, so that equal problems have equal text. Errors: InvalidArgument,
  /// Unsupported.
  virtual llvm::Expected<Problem> canonicalise(Values values) const = 0;

  /// Whether there is nothing to compute, so that a launch succeeds without
  /// steps.
  virtual bool isEmpty(const Problem &problem) const = 0;

  /// The operand table, which depends on the values alone. Allocates nothing,
  /// because a launch of packed rows calls it.
  virtual OperandTable operands(const Problem &problem) const = 0;

  /// Problems have equal signatures if they differ only in fields that ranges
  /// may vary, and by a multiple of this in each. The default follows from 16
  /// bytes of alignment for rows of single bytes.
  virtual int64_t signaturePeriod() const { return 16; }

  /// The fields of an example problem for help and messages, as text for
  /// parseProblem(); empty: there is none.
  virtual llvm::StringRef example() const { return ""; }
  /// Combinations of fields, as such text, that work with few values of each
  /// other, so that random draws of problems rarely find them.
  virtual llvm::ArrayRef<llvm::StringRef> combinations() const { return {}; }

  /// The problems that judge pools of the signature of \p described: the drawn
  /// fields and their distributions. The values of these fields are ignored.
  /// Empty: the family has no pools.
  virtual PoolDraws poolDraws(const Values &described) const { return {}; }

  /// The matrix product that \p problem is; nullopt: it is something else.
  virtual std::optional<MatrixProduct>
  matrixProduct(const Problem &problem) const;

  /// By default a library's matrix product if the problem is one.
  virtual Peer peer(const Problem &problem) const;

  /// The reference for \p problem on \p device.
  virtual std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const = 0;

  /// Arithmetic operations and the least bytes that must move, for reports. The
  /// bytes count every operand's elements once, unless the family knows better.
  virtual double flops(const Problem &problem) const = 0;
  virtual double compulsoryBytes(const Problem &problem) const;

  /// The rate of the fastest unit of \p device for the problem's arithmetic, a
  /// value of it. Null: the device has no such unit, or the family has too
  /// little arithmetic to tell.
  virtual double DeviceModel::*peakRate(const Problem & /*problem*/,
                                        const DeviceModel & /*device*/) const {
    return nullptr;
  }

  /// Parses and canonicalises "gemm m=1 n=2 k=3"; the family's name is
  /// optional.
  llvm::Expected<Problem> parseProblem(llvm::StringRef text) const;

  /// The text of the problem without fields that vary from call to call
  /// (Field::isFixed): the key of its layer.
  std::string fixedText(const Problem &problem) const;
  /// The indices of the dynamic extents in the problem's schema.
  llvm::ArrayRef<int> dynamicExtents() const {
    return problemSchema().dynamicExtents();
  }
  /// The bytes that divide every address of \p problem.
  int64_t promisedAlignment(const Problem &problem) const;

  /// Returns arguments with leading dimensions and strides from the operand
  /// table and scalars from \p problem; addresses are 0. \p problem must
  /// outlive them.
  Arguments defaultArguments(const Problem &problem) const;

  const std::vector<std::unique_ptr<Template>> &templates() const {
    return templateList;
  }
  const Template *findTemplate(llvm::StringRef name) const;
  /// For the family's own constructor; afterwards use Registry::addTemplate,
  /// which checks the name. Later templates lose ties to earlier ones.
  void addTemplate(std::unique_ptr<Template> added);

  /// Parses "mma.bm128.bn128" into the template and the config.
  struct NamedConfig {
    const Template *tmpl = nullptr;
    Values config;
  };
  llvm::Expected<NamedConfig> parseConfig(llvm::StringRef text) const;

private:
  std::vector<std::unique_ptr<Template>> templateList;
};

} // namespace kiln
