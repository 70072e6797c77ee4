//===- MergeCall.cpp - kiln_attention_merge_args as a call ----------------===//
#include "Families/Attention/MergeFamily.h"

#include "Call/Visit.h"
#include "Families/Attention/MergeProblem.h"

namespace kiln {

static_assert(int(KILN_ATTENTION_MERGE_O1) == int(MergeOperand::O1) &&
              int(KILN_ATTENTION_MERGE_LSE1) == int(MergeOperand::Lse1) &&
              int(KILN_ATTENTION_MERGE_O2) == int(MergeOperand::O2) &&
              int(KILN_ATTENTION_MERGE_LSE2) == int(MergeOperand::Lse2) &&
              int(KILN_ATTENTION_MERGE_O) == int(MergeOperand::O) &&
              int(KILN_ATTENTION_MERGE_LSE) == int(MergeOperand::Lse) &&
              int(KILN_ATTENTION_MERGE_SLOT_COUNT) == int(MergeOperand::Count));

namespace {

struct MergeVisit {
  using Args = kiln_attention_merge_args;
  using F = MergeField;
  using Operand = MergeOperand;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = Operand::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_attention_merge_args", KILN_ATTENTION_HAS_LSE))
      return;
    const kiln_dtype in = args.o1.type, out = args.o.type ? args.o.type : in;
    const bool hasLse = args.lse || (args.flags & KILN_ATTENTION_HAS_LSE);
    v.number(F::Batch, "batch", args.batch);
    v.number(F::Rows, "queries", args.queries);
    v.number(F::Heads, "heads", args.heads);
    v.number(F::D, "value_dim", args.value_dim);
    v.type(F::DType, "o1.type", in, in);
    v.type(F::Out, "o.type", out, out == in ? 0 : out);
    v.number(F::Lse, "lse", hasLse);
    v.isEmpty(args.batch == 0 || args.queries == 0);
    v.batches(args.batch);
    visitParts(args, in, v);
    v.heads({.name = "o",
             .given = args.o,
             .index = Operand::O,
             .type = out,
             .typeOf = "o",
             .rows = args.queries,
             .planes = args.heads,
             .rowLength = args.value_dim,
             .field = F::LdO,
             .isWritten = true,
             .mayBe = Operand::O1,
             .mayBeType = in,
             .mayBeName = "o1"});
    if (hasLse)
      v.array({.name = "lse",
               .address = args.lse,
               .index = Operand::Lse,
               .isWritten = true,
               .mayBe = Operand::Lse1,
               .mayBeName = "lse1"});
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitParts(const Args &args, kiln_dtype in,
                                     Visitor &v) {
    auto part = [&](const char *name, const kiln_heads_operand &o, int index,
                    int field, const char *lseName, const float *lse,
                    int lseIndex) {
      v.heads({.name = name,
               .given = o,
               .index = index,
               .type = in,
               .typeOf = "o1",
               .rows = args.queries,
               .planes = args.heads,
               .rowLength = args.value_dim,
               .field = field});
      v.array({.name = lseName, .address = lse, .index = lseIndex});
    };
    part("o1", args.o1, Operand::O1, F::LdA, "lse1", args.lse1, Operand::Lse1);
    part("o2", args.o2, Operand::O2, F::LdB, "lse2", args.lse2, Operand::Lse2);
  }
};

} // namespace

constexpr CallReader kMergeCall =
    makeCallReader<MergeVisit>(KILN_FAMILY_ATTENTION_MERGE);

} // namespace kiln
