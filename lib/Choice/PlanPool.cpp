//===- PlanPool.cpp - the loaded plans of a context -----------------------===//
#include "Choice/PlanPool.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// Adds the numbers and the schema, which identify \p values.
static void append(std::string &bytes, const Values &values) {
  const Schema *schema = &values.schema();
  bytes.append(reinterpret_cast<const char *>(&schema), sizeof(schema));
  llvm::ArrayRef<int64_t> array = values.array();
  bytes.append(reinterpret_cast<const char *>(array.data()),
               array.size() * sizeof(int64_t));
}

static std::string bytesOf(const Values &first, const Values &second) {
  std::string bytes;
  append(bytes, first);
  append(bytes, second);
  return bytes;
}

std::shared_ptr<const LoadedPlan> PlanPool::find(const Problem &problem,
                                                 const Values &config) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = plans.find(bytesOf(problem.values, config));
  return found == plans.end() ? nullptr : found->second;
}

static std::string bytesOf(const Values &one) {
  std::string bytes;
  append(bytes, one);
  return bytes;
}

std::shared_ptr<const LoadedPlan>
PlanPool::add(const Problem &problem, const Template &tmpl,
              const Values &config, std::shared_ptr<const LoadedPlan> loaded) {
  // A test may have no plan.
  std::string kernel = loaded ? kernelDigest(loaded->plan()) : std::string();
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<LoadedConfig> &known = configs[bytesOf(problem.signature)];
  if (llvm::none_of(known, [&](const LoadedConfig &other) {
        return other.tmpl == &tmpl && other.config == config;
      }))
    known.push_back({&tmpl, config});
  auto [place, isNew] =
      plans.try_emplace(bytesOf(problem.values, config), std::move(loaded));
  if (isNew && place->second) {
    place->second->markWrong(wrong.count(kernel) > 0);
    ofKernel.emplace(std::move(kernel), place->second);
  }
  return place->second;
}

std::vector<PlanPool::LoadedConfig> PlanPool::loadedOf(const Values &signature,
                                                       size_t most) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = configs.find(bytesOf(signature));
  std::vector<LoadedConfig> latest;
  if (found == configs.end())
    return latest;
  const std::vector<LoadedConfig> &all = found->second;
  for (size_t i = all.size(); i-- > 0;)
    if (latest.size() < most || all[i].tmpl->isGeneric())
      latest.push_back(all[i]);
  return latest;
}

void PlanPool::mark(const std::string &kernel, bool isWrong) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isWrong)
    wrong.insert(kernel);
  else
    wrong.erase(kernel);
  auto [first, last] = ofKernel.equal_range(kernel);
  for (; first != last; ++first)
    first->second->markWrong(isWrong);
}

std::string PlanPool::digestOf(const Template &tmpl, const Problem &problem,
                               const Values &config,
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

} // namespace kiln
