//===- BenchJudge.cpp -----------------------------------------------------===//
#include "compare/BenchJudge.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "cli/Report.h"
#include "compare/BenchPeer.h"

#include <cmath>

namespace kiln::cli {

bool BenchVerdict::isKilnWrong() const {
  return unknown.empty() && isWrongResult(kiln.status);
}
bool BenchVerdict::isPeerWrong() const {
  return unknown.empty() && isWrongResult(peer.status);
}

/// The sides that are wrong, in words.
static llvm::StringRef blameOf(const BenchVerdict &verdict) {
  if (!verdict.unknown.empty())
    return "not judged";
  if (verdict.isKilnWrong())
    return verdict.isPeerWrong() ? "both are wrong" : "Kiln is wrong";
  return verdict.isPeerWrong() ? "peer is wrong" : "both are right";
}

std::string BenchVerdict::text() const {
  const std::string blame = blameOf(*this).str();
  if (!unknown.empty())
    return blame;
  if (isPeerWrong() && !isKilnWrong())
    return fmt::format("{}: {:.2g} beside Kiln's {:.2g}", blame,
                       peer.maxErrorRatio, kiln.maxErrorRatio);
  return fmt::format("{}: {:.2g} beside the peer's {:.2g}", blame,
                     kiln.maxErrorRatio, peer.maxErrorRatio);
}

std::string BenchVerdict::details() const {
  if (!unknown.empty())
    return unknown;
  std::string text;
  if (isKilnWrong())
    text = "Kiln: " + kiln.message;
  if (isPeerWrong())
    text += (text.empty() ? "peer: " : "; peer: ") + peer.message;
  return text;
}

/// Infinite where something was not written, which JSON cannot say.
static llvm::json::Value errorOrNull(double ratio) {
  return std::isfinite(ratio) ? rounded(ratio) : llvm::json::Value(nullptr);
}

void BenchVerdict::addTo(llvm::json::Object &object) const {
  object["verdict"] = blameOf(*this);
  if (unknown.empty()) {
    object["kiln_error"] = errorOrNull(kiln.maxErrorRatio);
    object["peer_error"] = errorOrNull(peer.maxErrorRatio);
  }
  if (const std::string text = details(); !text.empty())
    object["verdict_details"] = jsonText(text);
}

/// Both sides by the same reference; a side that it could not judge is unknown.
static llvm::Error judgeBoth(TrialValidator &validator, const TimedLaunch &kiln,
                             const TimedLaunch &peer, CudaStream stream,
                             BenchVerdict &verdict) {
  // The reference of the largest problems takes seconds.
  constexpr std::chrono::seconds kLimit(60), kHang(20);
  const auto deadline = ValidationTime::Clock::now() + kLimit;
  const ValidationTime time{kHang, deadline, deadline, nullptr, nullptr};
  for (auto [launch, side] :
       {std::pair(&kiln, &verdict.kiln), std::pair(&peer, &verdict.peer)}) {
    auto found = validator.validate(
        [&](const Arguments &) { return (*launch)(0, stream); }, stream, time);
    if (!found)
      return found.takeError();
    *side = std::move(*found);
    if (side->status != TrialStatus::Ok && !isWrongResult(side->status))
      verdict.unknown = side->message;
  }
  return llvm::Error::success();
}

llvm::Expected<BenchVerdict>
judgeSides(const JudgeTools &tools, const Registry::NamedProblem &named,
           TrialBuffers &buffers, const TimedLaunch &kiln,
           const TimedLaunch &peer, CudaStream stream) {
  constexpr std::chrono::milliseconds kSlab(100);
  BenchVerdict verdict;
  auto judge = [&]() -> llvm::Error {
    auto validator = TrialValidator::create(
        tools.driver, tools.tools, buffers, *named.family, named.problem,
        tools.device, tools.artifacts, tools.loader, KernelLifetime::Users,
        kSlab);
    if (!validator)
      return validator.takeError();
    return judgeBoth(*validator, kiln, peer, stream, verdict);
  };
  llvm::Error error = judge();
  if (!error)
    return verdict;
  ErrorSummary summary = summarize(std::move(error));
  if (endsAll(summary.code))
    return errorOf(summary);
  verdict.unknown = summary.message;
  return verdict;
}

} // namespace kiln::cli
