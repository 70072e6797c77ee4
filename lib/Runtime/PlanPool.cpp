//===- PlanPool.cpp - what the values of one bucket share -----------------===//
#include "Runtime/PlanPool.h"

#include "Runtime/ProblemSpec.h"

#include <bit>
#include <optional>

namespace kiln {

/// True if both differ in the dynamic extent only.
static bool isAlike(const Problem &a, const Problem &b, int dynamic) {
  if (!(a.signature == b.signature))
    return false;
  Record moved = a.record;
  moved.set(dynamic, b.record[dynamic]);
  return moved == b.record;
}

/// The problem like \p problem with \p value for its dynamic extent; nullopt
/// beyond what a field, or a leading dimension that was given, leaves room for.
static std::optional<Problem> moveTo(const KernelFamily &family,
                                     const Problem &problem, int64_t value) {
  Record record = problem.record;
  record.set(family.dynamicExtent(), value);
  auto moved = makeProblem(family, std::move(record));
  if (moved)
    return std::move(*moved);
  llvm::consumeError(moved.takeError());
  return std::nullopt;
}

/// The largest value from \p value, which there is a problem like \p problem
/// for, to \p last: what leaves room for a value does for all below.
static int64_t largestValue(const KernelFamily &family, const Problem &problem,
                            int64_t value, int64_t last) {
  if (moveTo(family, problem, last))
    return last;
  while (last - value > 1) {
    int64_t middle = value + (last - value) / 2;
    (moveTo(family, problem, middle) ? value : last) = middle;
  }
  return value;
}

Problem coverOf(const KernelFamily &family, const Problem &problem) {
  const int dynamic = family.dynamicExtent();
  if (dynamic < 0 || problem.record[dynamic] < 1)
    return problem;
  // Buckets end at powers of two.
  const int64_t value = problem.record[dynamic];
  const int64_t last = largestValue(
      family, problem, value,
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))));
  // Signatures of a bucket repeat. Where the largest value fills a leading
  // dimension, the problem of it is that of packed rows, another one.
  const int64_t looked = family.signaturePeriod() + 1;
  for (int64_t largest = last; largest > std::max(value, last - looked);
       --largest) {
    std::optional<Problem> cover = moveTo(family, problem, largest);
    if (cover && isAlike(*cover, problem, dynamic))
      return std::move(*cover);
  }
  return problem;
}

llvm::SmallVector<Problem, 2> PlanRequest::targets() const {
  if (isRange)
    return {largest};
  Problem cover = coverOf(family, largest);
  if (cover.record == largest.record)
    return {largest};
  return {std::move(cover), largest};
}

/// Adds what tells \p record from others: its values and its schema.
static void append(std::string &bytes, const Record &record) {
  const RecordSchema *schema = &record.schema();
  bytes.append(reinterpret_cast<const char *>(&schema), sizeof(schema));
  llvm::ArrayRef<int64_t> values = record.values();
  bytes.append(reinterpret_cast<const char *>(values.data()),
               values.size() * sizeof(int64_t));
}

static std::string bytesOf(const Record &first, const Record &second) {
  std::string bytes;
  append(bytes, first);
  append(bytes, second);
  return bytes;
}

std::shared_ptr<const LoadedPlan> PlanPool::find(const Problem &cover,
                                                 const Record &config) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = plans.find(bytesOf(cover.record, config));
  return found == plans.end() ? nullptr : found->second;
}

std::shared_ptr<const LoadedPlan>
PlanPool::add(const Problem &cover, const Record &config,
              std::shared_ptr<const LoadedPlan> loaded) {
  std::lock_guard<std::mutex> lock(mutex);
  return plans.try_emplace(bytesOf(cover.record, config), std::move(loaded))
      .first->second;
}

ActivePlanPtr
PlanPool::activate(const std::shared_ptr<const LoadedPlan> &loaded,
                   kiln_source source, bool isFallback) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<Active> &list = active[loaded.get()];
  for (const Active &known : list)
    if (known.source == source && known.isFallback == isFallback)
      return known.plan;
  auto made = std::make_shared<ActivePlan>();
  made->loaded = loaded;
  made->source = source;
  made->isFallback = isFallback;
  list.push_back({source, isFallback, made});
  return made;
}

std::string PlanPool::digestOf(const Template &tmpl, const Problem &problem,
                               const Record &config,
                               const DeviceModel &device) {
  std::string key = bytesOf(problem.signature, config);
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = digests.find(key);
    if (found != digests.end())
      return found->second;
  }
  std::string digest = kernelDigest(tmpl.plan(problem, config, device));
  std::lock_guard<std::mutex> lock(mutex);
  return digests.try_emplace(std::move(key), std::move(digest)).first->second;
}

std::vector<ShortlistEntry> PlanPool::shortlist(const Problem &cover) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = shortlists.find(bytesOf(cover.record, cover.signature));
  return found == shortlists.end() ? std::vector<ShortlistEntry>()
                                   : found->second;
}

void PlanPool::setShortlist(const Problem &cover,
                            std::vector<ShortlistEntry> entries) {
  std::lock_guard<std::mutex> lock(mutex);
  shortlists[bytesOf(cover.record, cover.signature)] = std::move(entries);
}

} // namespace kiln
