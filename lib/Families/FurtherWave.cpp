//===- FurtherWave.cpp ----------------------------------------------------===//
#include "Families/FurtherWave.h"

#include "Support/Format.h"

#include <algorithm>
#include <utility>

namespace kiln {

void explainFurtherWave(const FurtherWave &wave, Derivation &steps) {
  if (!(wave.all.value > 0))
    return;
  constexpr double kEnough = 4;
  const double each = wave.count / wave.placeCount;
  const double share = wave.further.value / wave.all.value;
  llvm::StringRef place = wave.places.drop_back(); // the singular
  steps.add(
      {.title = fmt::format("{} for each {}", wave.pieces, place),
       .formula = fmt::format(
           "{:.0f} {} on {:.0f} {}: {:.1f} for each; {}, and a further wave "
           "would have one for each{}",
           wave.count, wave.pieces, wave.placeCount, wave.places, each,
           wave.room > 0
               ? fmt::format("{:.0f} more would fit the last wave", wave.room)
               : "the last wave is full",
           wave.note),
       .verdict =
           fmt::format("{}: a further wave would cost {:.0f} %",
                       each < kEnough ? "below 4" : "at least 4", 100 * share),
       .values = llvm::json::Object{{"pieces", wave.count},
                                    {"for_each", each},
                                    {"room", wave.room},
                                    {"further_share", share}},
       .rule = StepRule::Quotient,
       .terms = {wave.further, wave.all},
       .unit = ""});
}

} // namespace kiln
