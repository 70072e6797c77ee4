//===- RequestLedger.cpp --------------------------------------------------===//
#include "RequestLedger.h"

namespace llama {

void RequestLedger::gotToken(SequenceId id, bool isLast) {
  ++open[id].arrived;
  if (!isLast)
    return;
  open.erase(id);
  ++complete;
}

std::string RequestLedger::lossText(int64_t notSubmitted) const {
  constexpr size_t kNamed = 8;
  const auto lost = static_cast<int64_t>(open.size());
  std::string text = std::to_string(complete) + " of " +
                     std::to_string(complete + lost + notSubmitted) +
                     " requests are complete; ";
  size_t named = 0;
  for (const auto &[id, tokens] : open) {
    if (named == kNamed)
      break;
    text += (named++ == 0 ? "lost are " : ", ") + std::to_string(id) + " (" +
            std::to_string(tokens.arrived) + " of " +
            std::to_string(tokens.wanted) + " tokens)";
  }
  if (open.size() > named)
    text += " and " + std::to_string(open.size() - named) + " more";
  if (open.empty())
    text += "none is lost";
  if (notSubmitted > 0)
    text += ", and " + std::to_string(notSubmitted) +
            (notSubmitted == 1 ? " was" : " were") + " not submitted";
  return text;
}

} // namespace llama
