//===- Scheduler.cpp - which tokens run in the next step ------------------===//
#include "Scheduler.h"

#include "Error.h"
#include "Sequence.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace llama {

Scheduler::Scheduler(SchedulerLimits limits, int64_t pageCount,
                     int64_t pageTokens)
    : limits(limits), pages(pageCount, pageTokens) {
  // With fewer tokens than sequences, decodes would starve others.
  if (limits.maxSequences < 1 || limits.tokenBudget < limits.maxSequences)
    throw Error("a budget of " + std::to_string(limits.tokenBudget) +
                " tokens a step for " + std::to_string(limits.maxSequences) +
                " sequences, expected a token for each");
  if (limits.maxPositions < 1)
    throw Error("sequences of " + std::to_string(limits.maxPositions) +
                " positions, expected 1 at least");
}

Scheduler::~Scheduler() = default;

int64_t Scheduler::pagesFor(int64_t tokens) const {
  return (tokens + pages.pageTokens() - 1) / pages.pageTokens();
}

RequestRoom Scheduler::room() const {
  return {limits.maxPositions, limits.vocabSize, pages.capacity(),
          pages.pageTokens()};
}

SequenceId Scheduler::submit(Request request) {
  requireRunnable(request, room());
  auto sequence = std::make_unique<Sequence>();
  sequence->id = nextId++;
  sequence->tokens = std::move(request.prompt);
  sequence->maxNewTokens = request.maxNewTokens;
  sequence->sampling = request.sampling;
  waiting.push_back(sequence.get());
  const SequenceId id = sequence->id;
  sequences[id] = std::move(sequence);
  return id;
}

Step Scheduler::plan() {
  if (planned)
    throw std::logic_error("a step is planned before the last is committed");
  Step step;
  const int64_t preemptionsBefore = counts.preemptions;
  planDecodes(step);
  planPrefill(step);
  // The pages of a preempted sequence are for the decodes.
  if (counts.preemptions == preemptionsBefore)
    planAdmissions(step);
  planned = !step.empty();
  return step;
}

void Scheduler::planDecodes(Step &step) {
  // Preemption shortens `running` from its end, behind or at the index.
  for (size_t i = 0; i < running.size(); ++i)
    if (running[i]->remaining() == 1 && reserveDecode(*running[i]))
      schedule(*running[i], 1, step);
}

/// Gives \p sequence the page of its next token, if need be by preemption.
/// False: it was the youngest itself, and is preempted.
bool Scheduler::reserveDecode(Sequence &sequence) {
  while (pagesFor(sequence.computed + 1) > sequence.pageCount() &&
         pages.available() == 0) {
    const bool itself = running.back() == &sequence;
    preemptYoungest();
    if (itself)
      return false;
  }
  growTo(sequence, pagesFor(sequence.computed + 1));
  return true;
}

void Scheduler::preemptYoungest() {
  Sequence &victim = *running.back();
  releasePages(victim);
  running.pop_back();
  waiting.push_front(&victim);
  ++counts.preemptions;
}

void Scheduler::planPrefill(Step &step) {
  if (running.empty() || running.back()->remaining() == 0)
    return;
  Sequence &sequence = *running.back();
  const auto others = static_cast<int64_t>(running.size()) - 1;
  const int64_t spare = std::max<int64_t>(pages.available() - others, 0);
  const int64_t room =
      (sequence.pageCount() + spare) * pages.pageTokens() - sequence.computed;
  const int64_t count =
      std::min({sequence.remaining(), limits.tokenBudget - step.tokens, room});
  if (count <= 0)
    return;
  growTo(sequence, pagesFor(sequence.computed + count));
  schedule(sequence, count, step);
}

void Scheduler::planAdmissions(Step &step) {
  while (!waiting.empty() && step.tokens < limits.tokenBudget &&
         runningCount() < limits.maxSequences) {
    // One prompt at a time: two that are half done could wait for each other.
    // A prompt that lacks pages leaves none for admit() either, but that is a
    // matter of its reserve.
    if (!running.empty() && running.back()->remaining() > 0)
      return;
    if (!admit(*waiting.front(), step))
      return;
  }
}

bool Scheduler::admit(Sequence &sequence, Step &step) {
  // A new page is needed in any case: do not look for the shared ones in vain.
  if (pages.available() <= runningCount())
    return false;
  const int64_t shared = sharePrefix(sequence);
  const int64_t count =
      std::min(sequence.remaining(), limits.tokenBudget - step.tokens);
  const int64_t pageCount = pagesFor(sequence.computed + count);
  if (pageCount - sequence.pageCount() + runningCount() > pages.available()) {
    releasePages(sequence);
    return false;
  }
  growTo(sequence, pageCount);
  waiting.pop_front();
  running.push_back(&sequence);
  schedule(sequence, count, step);
  counts.sharedTokens += shared;
  return true;
}

/// Takes the pages that have the beginning of \p sequence, and returns their
/// tokens. The last token is never among them.
int64_t Scheduler::sharePrefix(Sequence &sequence) {
  const int64_t pageTokens = pages.pageTokens();
  while (limits.sharePrefixes &&
         sequence.computed + pageTokens < sequence.length()) {
    const auto shared =
        pages.share(sequence.published,
                    {sequence.tokens.data() + sequence.computed, pageTokens});
    if (!shared)
      break;
    sequence.pages.push_back(shared->page);
    sequence.published = shared->content;
    ++sequence.publishedPages;
    sequence.computed += pageTokens;
  }
  return sequence.computed;
}

void Scheduler::schedule(Sequence &sequence, int64_t count, Step &step) {
  ScheduledSequence part;
  part.id = sequence.id;
  part.tokens = {sequence.tokens.data() + sequence.computed, count};
  part.firstPosition = sequence.computed;
  part.pages = sequence.pages;
  part.pageTokens = pages.pageTokens();
  part.samples = sequence.remaining() == count;
  part.sampling = sequence.sampling;
  part.newTokens = sequence.newTokens;
  // The end of a prompt may be a single token as well: then it is a decode.
  auto &parts = part.samples && count == 1 ? step.decodes : step.prefills;
  parts.push_back(part);
  step.tokens += count;
  step.sampled += part.samples;
  sequence.scheduled = count;
}

std::vector<SequenceId> Step::samplers() const {
  std::vector<SequenceId> ids;
  for (const auto *list : {&decodes, &prefills})
    for (const ScheduledSequence &part : *list)
      if (part.samples)
        ids.push_back(part.id);
  return ids;
}

std::vector<SequenceId> Scheduler::commit(const Step &step,
                                          View<int32_t> tokens) {
  if (tokens.size() != step.sampled)
    throw std::logic_error(std::to_string(tokens.size()) +
                           " sampled tokens for a step with " +
                           std::to_string(step.sampled));
  const std::vector<SequenceId> samplers = step.samplers();
  std::vector<SequenceId> finished = commit(step);
  deliver(samplers, tokens);
  return finished;
}

std::vector<SequenceId> Scheduler::commit(const Step &step) {
  if (!planned && !step.empty())
    throw std::logic_error("a step is committed that is not planned");
  planned = false;
  std::vector<SequenceId> finished;
  for (const ScheduledSequence &part : step.decodes)
    advance(part, finished);
  for (const ScheduledSequence &part : step.prefills)
    advance(part, finished);
  counts.steps += !step.empty();
  counts.computedTokens += step.tokens;
  return finished;
}

void Scheduler::advance(const ScheduledSequence &part,
                        std::vector<SequenceId> &finished) {
  Sequence &sequence = *sequences.at(part.id);
  sequence.computed += sequence.scheduled;
  sequence.scheduled = 0;
  publishFullPages(sequence);
  if (part.samples) {
    sequence.tokens.push_back(kPending);
    ++sequence.newTokens;
  }
  if (sequence.leaving) {
    remove(part.id);
  } else if (sequence.newTokens == sequence.maxNewTokens) {
    finished.push_back(part.id);
    remove(part.id);
  }
}

void Scheduler::abandon(const Step &step) {
  if (!planned && !step.empty())
    throw std::logic_error("a step is abandoned that is not planned");
  planned = false;
  for (const auto *list : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &part : *list) {
      Sequence &sequence = *sequences.at(part.id);
      sequence.scheduled = 0;
      shrinkTo(sequence, pagesFor(sequence.computed));
      if (sequence.leaving)
        remove(part.id);
    }
  // The step may have ended several prompts. Only the youngest sequence may be
  // in the middle of its own.
  const auto isInPrompt = [](const Sequence *sequence) {
    return sequence->remaining() > 1;
  };
  while (!running.empty() &&
         std::any_of(running.begin(), running.end() - 1, isInPrompt))
    preemptYoungest();
}

void Scheduler::deliver(const std::vector<SequenceId> &sampled,
                        View<int32_t> tokens) {
  for (size_t i = 0; i < sampled.size(); ++i) {
    const auto found = sequences.find(sampled[i]);
    if (found != sequences.end())
      found->second->tokens.back() = tokens[static_cast<int64_t>(i)];
  }
}

void Scheduler::publishFullPages(Sequence &sequence) {
  const int64_t pageTokens = pages.pageTokens();
  while (limits.sharePrefixes &&
         (sequence.publishedPages + 1) * pageTokens <= sequence.computed) {
    const int64_t index = sequence.publishedPages++;
    const auto page = sequence.tokens.begin() + index * pageTokens;
    if (std::find(page, page + pageTokens, kPending) != page + pageTokens)
      throw std::logic_error("a page is published before its tokens are known");
    sequence.published = pages.publish(
        sequence.pages[static_cast<size_t>(index)], sequence.published,
        {sequence.tokens.data() + index * pageTokens, pageTokens});
  }
}

bool Scheduler::finish(SequenceId id) {
  const auto found = sequences.find(id);
  if (found == sequences.end() || found->second->leaving)
    return false;
  if (found->second->scheduled > 0)
    found->second->leaving = true; // The step writes to its pages.
  else
    remove(id);
  return true;
}

void Scheduler::remove(SequenceId id) {
  const auto found = sequences.find(id);
  Sequence *sequence = found->second.get();
  releasePages(*sequence);
  // It is in one of the two.
  running.erase(std::remove(running.begin(), running.end(), sequence),
                running.end());
  waiting.erase(std::remove(waiting.begin(), waiting.end(), sequence),
                waiting.end());
  sequences.erase(found);
}

void Scheduler::growTo(Sequence &sequence, int64_t pageCount) {
  while (sequence.pageCount() < pageCount)
    sequence.pages.push_back(pages.allocate().value());
}

void Scheduler::shrinkTo(Sequence &sequence, int64_t pageCount) {
  for (; sequence.pageCount() > pageCount; sequence.pages.pop_back())
    pages.release(sequence.pages.back());
}

/// Takes the pages of \p sequence back: it has computed nothing then.
void Scheduler::releasePages(Sequence &sequence) {
  shrinkTo(sequence, 0);
  sequence.computed = 0;
  sequence.publishedPages = 0;
  sequence.published = kNoContent;
}

} // namespace llama
