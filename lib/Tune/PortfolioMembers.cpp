//===- PortfolioMembers.cpp - the kernels of a session's members ----------===//
#include "Tune/PortfolioSessionImpl.h"

#include "Kernel/Space.h"
#include "Observe/Span.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <thread>

namespace kiln {

using Stage = TuningCandidate::Stage;
using Clock = PortfolioOptions::Clock;

/// Waits until some member has its kernels. The error is the reason why none
/// has.
llvm::Error PortfolioSession::Impl::awaitOne() {
  const observe::Span span(observe::Phase::Compile, "kernels are compiled");
  for (;;) {
    size_t open = 0;
    for (MemberWork &member : task.work) {
      open += !member.code->poll();
      if (member.code->stage == Stage::Ready)
        return llvm::Error::success();
    }
    if (task.isCancelled())
      return makeError(ErrorCode::Cancelled, "cancelled");
    if (open == 0)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const MemberWork &member : task.work)
    if (member.code->stage == Stage::Failed)
      return makeArtifactError(
          member.code->failure,
          member.code->plan.kernels[member.code->failedKernel]);
  return noCandidate(*range.family, *range.find(range.high),
                     task.context.device);
}

void PortfolioSession::Impl::awaitAll(Clock::time_point deadline) {
  const observe::Span span(observe::Phase::Compile, "kernels are compiled");
  auto isOpen = [](MemberWork &member) { return !member.code->poll(); };
  while (llvm::any_of(task.work, isOpen) && !task.isCancelled() &&
         Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  task.tellProgress();
}

bool isRefused(const MemberWork &member) {
  return member.code->stage == Stage::Failed &&
         member.code->failure.isLasting();
}

/// Waits until some member has its kernels. Where no trials follow, it waits
/// for all kernels, and replaces members whose kernels are refused: trials do
/// both themselves. A first cover of refused members alone is replaced in any
/// case. The error is the reason why no member has kernels.
llvm::Error PortfolioSession::Impl::awaitMembers(Clock::time_point deadline) {
  for (;;) {
    llvm::Error error = awaitOne();
    if (!error) {
      if (!isAnswered && task.measures())
        return llvm::Error::success();
      awaitAll(deadline);
    }
    if (!replaceRefused(deadline))
      return error;
    llvm::consumeError(std::move(error));
  }
}

/// Finds members whose kernels cannot be had, and bars them. Returns whether
/// any member is lost.
bool PortfolioSession::Impl::findLost() {
  bool hasLost = false;
  for (MemberWork &member : task.work) {
    if (member.code->poll() && member.code->stage == Stage::Failed &&
        !member.isLost) {
      member.isLost = true;
      ++task.result.failedCompiles;
      task.result.notes.push_back(fmt::format(
          "{}: {}", member.code->config, member.code->failure.error.message));
    }
    if (!member.isLost)
      continue;
    hasLost = true;
    barred.add(*member.code->candidate.tmpl, member.code->candidate.config);
  }
  return hasLost;
}

/// Counts the kernels that were compiled since the last call.
void PortfolioSession::Impl::countCompiled() {
  llvm::StringSet<> counted; // members that share a kernel asked for it once
  for (MemberWork &member : task.work) {
    const size_t compiled = std::exchange(member.code->compiled, 0);
    if (counted.insert(member.code->kernel).second)
      task.result.compiled += compiled;
  }
}

/// Takes lost members out of the portfolio.
void PortfolioSession::Impl::dropLost() {
  countCompiled();
  std::vector<PortfolioMember> &members = task.portfolio.mutableMembers();
  std::vector<PortfolioMember> keptMembers;
  std::vector<MemberWork> keptWork;
  for (size_t i = 0; i < members.size(); ++i)
    if (!task.work[i].isLost) {
      keptMembers.push_back(std::move(members[i]));
      keptWork.push_back(std::move(task.work[i]));
    }
  members = std::move(keptMembers);
  task.work = std::move(keptWork);
}

/// Replaces lost members by members of another cover. False if there is no such
/// cover; then nothing has changed, and a note says why.
bool PortfolioSession::Impl::completeLost() {
  std::vector<PortfolioMember> kept;
  for (auto [member, work] :
       llvm::zip_equal(task.portfolio.members(), task.work))
    if (!work.isLost)
      kept.push_back(member);
  if (llvm::Error error = coverWith(kept)) {
    ErrorSummary reason = summarize(std::move(error));
    if (reason.code == ErrorCode::NoCandidate)
      covers = kMostCovers; // later ones would fail as well
    task.result.notes.push_back(std::move(reason.message));
    return false;
  }
  countCompiled();
  std::vector<MemberWork> known = std::exchange(task.work, {});
  // The cover orders its members again. The state of a config goes along, with
  // a plan for its new interval.
  for (const PortfolioMember &member : task.portfolio.members()) {
    auto same = llvm::find_if(known, [&](const MemberWork &other) {
      return other.code && !other.isLost &&
             other.code->candidate.tmpl == member.tmpl &&
             other.code->candidate.config == member.config;
    });
    MemberWork &added = task.work.emplace_back(makeWork(member));
    if (same == known.end())
      continue;
    std::swap(same->code->plan, added.code->plan);
    same->code->loaded.reset();
    added.code = std::move(same->code);
  }
  requestAll();
  return true;
}

/// Replaces members if kernels of some are refused. False if none are, or if no
/// other cover may be searched. Members that an earlier session measured stay.
bool PortfolioSession::Impl::replaceRefused(Clock::time_point deadline) {
  const bool isKept = isAnswered && task.portfolio.measuredMembers() > 0;
  if (isKept || covers >= kMostCovers || task.isCancelled() ||
      Clock::now() >= deadline || llvm::none_of(task.work, isRefused))
    return false;
  if (isAnswered)
    findBarred();
  findLost();
  if (!completeLost())
    return false;
  isAnswered = false;
  return true;
}

/// Waits for the kernels that trials did not wait for, and replaces members
/// whose kernels are refused.
void PortfolioSession::Impl::awaitRest() {
  constexpr Clock::time_point kNever = Clock::time_point::max();
  do
    awaitAll(kNever);
  while (replaceRefused(kNever));
}

} // namespace kiln
