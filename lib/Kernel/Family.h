//===- Family.h - all that solves one kind of problem ---------------------===//
#pragma once

#include "Kernel/MatrixProduct.h"
#include "Kernel/Operand.h"
#include "Kernel/PoolDraws.h"
#include "Kernel/Study.h"
#include "Kernel/Template.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct CallReader; // of lib/Call

/// Most fields of a problem's record: what a launch's key has room for.
inline constexpr size_t kMaxProblemFields = 56;
/// A value for every field of a problem's record; allocates nothing.
using FieldValues = llvm::SmallVector<int64_t, kMaxProblemFields>;

/// Rows [rowBegin, rowEnd) of what a written operand should hold, and where
/// they go: values and, of the same shape, their error bounds, double and
/// packed. A bound below 0 says that the element is not defined: it has to be
/// left as it was.
struct ReferencePart {
  int operand = 0; ///< its number in the operand table
  int64_t rowBegin = 0, rowEnd = 0;
  DeviceAddress values = 0, bounds = 0;

  int64_t rows() const { return rowEnd - rowBegin; }
};

/// The family's reference: a naive kernel that computes, in double precision,
/// what every candidate is compared with. Rows are those of one written operand
/// over all planes and batches: row r is row r % rows of plane r / rows %
/// planes of batch r / (rows * planes).
class Reference {
public:
  virtual ~Reference() = default;
  virtual const TranslationUnit &translationUnit() const = 0;
  /// Appends the step that computes \p part. KernelStep::function is 0.
  virtual void bind(const Arguments &arguments, const ReferencePart &part,
                    LaunchSpec &spec) const = 0;
};

/// What a bench holds the kernels of a problem against.
enum class Peer {
  None,
  Blas,   ///< a library's matrix product
  Stream, ///< a stream of as many bytes: memory alone can set the pace
};

/// A kind of problem: its record, its operands, its reference, its templates.
/// Immutable once registered; thread-safe from then on.
class KernelFamily {
public:
  virtual ~KernelFamily() = default;

  /// First word of its problems' text: "gemm".
  virtual llvm::StringRef name() const = 0;
  virtual const Schema &problemSchema() const = 0;

  /// How the struct of kiln.h that describes these problems is read; null:
  /// there is none, problems come as text.
  virtual const CallReader *call() const { return nullptr; }

  /// Checks a problem record, which need not come from parsing, and brings it
  /// into canonical form: what equals a derived default becomes that default,
  /// so that equal problems have equal text. Errors: InvalidArgument,
  /// Unsupported.
  virtual llvm::Expected<Problem> canonicalise(Values values) const = 0;

  /// True when there is nothing to compute: a launch succeeds without steps.
  virtual bool isEmpty(const Problem &problem) const = 0;

  /// Of the record alone; no allocation: a launch of packed rows asks for it.
  virtual OperandTable operands(const Problem &problem) const = 0;

  /// Of problems that differ in fields that ranges may vary, and by a multiple
  /// of this in each, the signatures are equal. By default what 16 bytes of
  /// alignment ask of rows of single bytes.
  virtual int64_t signaturePeriod() const { return 16; }

  /// Fields of a problem that help and messages may show, in the form that
  /// parseProblem() takes; empty: nothing is shown.
  virtual llvm::StringRef example() const { return ""; }
  /// Fields that go with few values of each other, in that form and that
  /// together: whoever draws problems hardly finds them.
  virtual llvm::ArrayRef<llvm::StringRef> combinations() const { return {}; }

  /// The problems that judge pools of the signature of \p described: fields
  /// that are drawn, from which distributions. The values of these fields are
  /// ignored. Empty: the family has no pools.
  virtual PoolDraws poolDraws(const Values &described) const { return {}; }

  /// The matrix product that \p problem is; nullopt: it is something else.
  virtual std::optional<MatrixProduct>
  matrixProduct(const Problem &problem) const;

  /// By default a library's matrix product where the problem is one.
  virtual Peer peer(const Problem &problem) const;

  /// The reference for \p problem on \p device.
  virtual std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const = 0;

  /// Arithmetic operations and the least bytes that must move, for reports. The
  /// bytes: every operand's elements once, unless the family knows better.
  virtual double flops(const Problem &problem) const = 0;
  virtual double compulsoryBytes(const Problem &problem) const;

  /// The named sets of configs that studies measure, as help and messages list
  /// them; empty: there are none.
  virtual llvm::StringRef studySets() const { return ""; }
  /// The configs of the set called \p name for \p problem, in its order. One
  /// that this device or problem cannot run has a rejection that prune() tells.
  /// Errors: InvalidArgument, which lists the sets; Unsupported.
  virtual llvm::Expected<std::vector<StudyConfig>>
  study(llvm::StringRef name, const Problem &problem,
        const DeviceModel &device) const;

  /// Parses and canonicalises "gemm m=1 n=2 k=3"; the family's name is
  /// optional.
  llvm::Expected<Problem> parseProblem(llvm::StringRef text) const;

  /// The same problem without what varies from call to call (Field::isFixed):
  /// what a record is keyed by.
  std::string fixedText(const Problem &problem) const;
  /// Indices of the dynamic extents in the problem's record.
  llvm::ArrayRef<int> dynamicExtents() const {
    return problemSchema().dynamicExtents();
  }
  /// Bytes that divide every address of \p problem.
  int64_t promisedAlignment(const Problem &problem) const;

  /// Arguments with leading dimensions and strides as the operand table says
  /// and scalars as the problem's record; addresses are 0. \p problem must
  /// outlive them.
  Arguments defaultArguments(const Problem &problem) const;

  const std::vector<std::unique_ptr<Template>> &templates() const {
    return templateList;
  }
  const Template *findTemplate(llvm::StringRef name) const;
  /// For the family's own constructor; afterwards Registry::addTemplate, which
  /// checks the name. Later templates lose ties to earlier.
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
