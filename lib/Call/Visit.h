//===- Visit.h - makes the reader of a family's struct --------------------===//
#pragma once

#include "Call/Explainer.h"
#include "Call/QuickReader.h"

#include <cassert>

namespace kiln {

/// Makes the reader of the struct that \p Visit states. \p Visit has `Args`,
/// the struct, `kFields` and `kOperands`, the numbers of fields and operands of
/// a problem, and the function `visit` of Stated.h.
template <class Visit> constexpr CallReader makeCallReader(kiln_family number) {
  static_assert(Visit::kFields <= kMaxProblemFields &&
                Visit::kOperands <= Arguments::kMaxOperands);
  using Args = typename Visit::Args;
  return {number, &kTypeTag<Args>,
          [](const void *args, FamilyCall &call) noexcept {
            auto read = [&](const Args &full) {
              QuickReader reader(CallAddresses::Used, Visit::kOperands, call);
              Visit::visit(full, reader);
              reader.finish();
              call.fieldCount = Visit::kFields;
              return !reader.wrong;
            };
            return withFullSize(*static_cast<const Args *>(args), read);
          },
          [](const void *args, CallUse use, const Schema &schema,
             FamilyCall &call, FieldNames &names) {
            assert(schema.fields().size() == size_t(Visit::kFields));
            auto explain = [&](const Args &full) {
              Explainer explainer(schema, use, Visit::kOperands, call, names);
              Visit::visit(full, explainer);
              call.fieldCount = Visit::kFields;
              return explainer.finish();
            };
            return withFullSize(*static_cast<const Args *>(args), explain);
          }};
}

} // namespace kiln
