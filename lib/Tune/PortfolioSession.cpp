//===- PortfolioSession.cpp - the preparation of a range ------------------===//
#include "Tune/PortfolioSession.h"

#include "Support/Error.h"

namespace kiln {

struct PortfolioSession::Impl {
  const PortfolioContext &context;
  ProblemRange range;
  const PortfolioOptions &options;
  PortfolioResult result;
};

PortfolioSession::PortfolioSession(const PortfolioContext &context,
                                   ProblemRange range,
                                   const PortfolioOptions &options)
    : impl(new Impl{context, std::move(range), options, {}}) {}

PortfolioSession::~PortfolioSession() = default;

void PortfolioSession::begin(int64_t) {}
bool PortfolioSession::needsTrials() const { return false; }
std::chrono::milliseconds PortfolioSession::expectedTime() const { return {}; }
size_t PortfolioSession::priorities() const { return 0; }
llvm::Error PortfolioSession::finish(Clock::time_point) {
  return noCandidate(*impl->range.family, Problem{impl->range.described, {}},
                     impl->context.device);
}
PortfolioResult PortfolioSession::takeResult() {
  return std::move(impl->result);
}

llvm::StringRef nameOf(PortfolioOrigin origin) {
  switch (origin) {
  case PortfolioOrigin::Stored:
    return "stored";
  case PortfolioOrigin::Measured:
    return "measured";
  case PortfolioOrigin::Estimated:
    break;
  }
  return "estimated";
}

} // namespace kiln
