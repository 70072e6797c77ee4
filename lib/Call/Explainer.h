//===- Explainer.h - the faults of the struct of a call -------------------===//
//
// Reads a family's statements (Stated.h) as QuickReader does, and makes an
// error for each broken rule, with the field and its value. The limits of
// single fields come from the family's schema. It is off the dispatch path.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/QuickReader.h"
#include "Support/Error.h"

#include <llvm/ADT/SmallVector.h>

#include <optional>
#include <string>

namespace kiln {

class Explainer {
public:
  /// \p names receives the struct's names of the fields of \p schema.
  Explainer(const Schema &schema, CallUse use, int operandCount,
            FamilyCall &call, FieldNames &names)
      : schema(schema), use(use), operandCount(operandCount), call(call),
        names(names), quick(use, operandCount, call) {}

  template <class Args>
  bool begin(const Args &args, const char *structName, uint32_t flags = 0) {
    take(kiln::checkStruct(args, structName));
    if (fault)
      return false;
    take(checkReserved(args, structName));
    if constexpr (requires { args.reserved0; })
      if (args.reserved0)
        fail(ErrorCode::Unsupported, "{}: a reserved field is set", structName);
    const uint32_t known = flags | KILN_CALL_DEPENDENT;
    if (args.flags & ~known)
      fail(ErrorCode::Unsupported, "flags {:#x} are unknown",
           args.flags & ~known);
    if (args.determinism && args.determinism != KILN_DETERMINISM_FROZEN_CHOICE)
      fail(ErrorCode::Unsupported, "determinism {} is not available yet",
           args.determinism);
    return quick.begin(args, structName, flags) && !fault;
  }

  template <class Struct> bool nested(const Struct &given, const char *name) {
    take(checkInput(given, name));
    if constexpr (requires { given.reserved0; })
      if (!fault && given.reserved0)
        fail(ErrorCode::Unsupported, "{}: a reserved field is set", name);
    return quick.nested(given, name) && !fault;
  }

  void number(int field, StatedName name, int64_t value);
  int64_t derived(int field, StatedName name, int64_t given, int64_t otherwise);
  void hint(int field, StatedName name, int64_t given, int64_t most);
  void choice(int field, StatedName name, int64_t given, int64_t value);
  void type(int field, StatedName name, kiln_dtype given, int64_t value);
  void absent(int field) { quick.absent(field); }

  template <class... Args>
  void require(bool isGood, ErrorCode code,
               fmt::format_string<const Args &...> format,
               const Args &...args) {
    if (!isGood)
      fail(code, format, args...);
  }

  void isEmpty(bool value) { quick.isEmpty(value); }
  void batches(int64_t batch) {
    hasBatches = true;
    mostBatches = use.mostBatches(batch);
    quick.batches(batch);
  }

  void operand(const StatedOperand &stated);
  void heads(const StatedHeads &stated);
  void array(const StatedArray &stated);
  void unread(StatedName name, const kiln_operand &given);
  void unread(StatedName name, const kiln_heads_operand &given);
  bool optional(const StatedOperand &stated);
  const kiln_scale *scaleOf(StatedName name, const kiln_scale &given);
  void scales(const StatedScales &stated);
  void factors(const StatedFactors &stated);
  void packed(const StatedPacked &stated);

  template <class Args, class Each>
  void chain(int field, const Args &args, const Each &each) {
    names[field] = "pointwise";
    checkChain(field, args.pointwise, args.pointwise_count);
    if (!fault)
      quick.chain(field, args, each);
  }

  void scalar(const StatedScalar &stated);
  void alignment(int field) { quick.alignment(field); }

  /// Returns the first fault, once all is stated.
  llvm::Error finish();

private:
  /// A written operand, and the one that it may be exactly.
  struct Output {
    int index;
    int mayBe = -1;
    bool isAsWide = false; ///< the elements of both have one width
    const char *mayBeName = "";
  };

  template <class... Args>
  void fail(ErrorCode code, fmt::format_string<Args...> format,
            Args &&...args) {
    if (!fault)
      fault = {code, fmt::format(format, std::forward<Args>(args)...), 0};
  }
  void take(llvm::Error error);
  void refuse(llvm::StringRef what, bool isSet);
  void checkNumber(int field, int64_t value);
  template <class Stated> void addOutput(const Stated &stated);
  template <class Struct>
  void checkEmbedded(const std::string &name, const Struct &given);
  template <class Operand>
  void checkKnown(const std::string &name, const Operand &given);
  void checkScale(const std::string &name, const kiln_scale &given);
  void checkAbsent(const std::string &name, const kiln_scale &given);
  template <class Stated>
  void checkStruct(const std::string &name, const Stated &stated);
  void checkPackedPart(const std::string &name, const kiln_scale &given);
  void checkPackedZeros(const std::string &name, const StatedPacked &stated);
  void checkStrides(const std::string &name, const StatedOperand &stated);
  void checkMatrices(const std::string &name, const StatedOperand &stated);
  void checkWritten(const std::string &name, const StatedFactors &stated,
                    ScaleKind kind);
  void checkAddress(const std::string &name, uint64_t address, bool isNeeded,
                    uint64_t alignment);
  void checkOverlaps();
  void checkChain(int field, const kiln_pointwise *chain, uint32_t count);

  const Schema &schema;
  const CallUse use;
  const int operandCount;
  FamilyCall &call;
  FieldNames &names;
  QuickReader quick; ///< fills the call
  bool hasBatches = false;
  int64_t mostBatches = 1;
  std::string operandNames[Arguments::kMaxOperands];
  llvm::SmallVector<Output, 3> outputs; ///< in the order they were stated
  std::optional<ErrorSummary> fault;
};

} // namespace kiln
