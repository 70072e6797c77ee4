//===- Dispatch.cpp - from a problem in a context to its plan -------------===//
#include "Runtime/Dispatch.h"

#include <cstring>
#include <set>

namespace kiln {

/// Multiply-and-rotate mixing; the constant is 2^64 over the golden ratio.
static uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15u;
  return state ^ (state >> 32);
}

uint64_t DispatchKey::hash() const noexcept {
  // Two chains, because one would wait for each multiplication.
  uint64_t even = mix(contextId, reinterpret_cast<uintptr_t>(family));
  uint64_t odd = values.size();
  size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    even = mix(even, static_cast<uint64_t>(values[i]));
    odd = mix(odd, static_cast<uint64_t>(values[i + 1]));
  }
  if (i < values.size())
    even = mix(even, static_cast<uint64_t>(values[i]));
  return mix(even, odd);
}

bool DispatchEntry::matches(const DispatchKey &key) const noexcept {
  return contextId == key.contextId && family == key.family &&
         values.size() == key.values.size() &&
         std::memcmp(values.data(), key.values.data(),
                     values.size() * sizeof(int64_t)) == 0;
}

void DispatchTable::publish(const DispatchKey &key, ActivePlanPtr plan) {
  auto entry = std::make_unique<DispatchEntry>();
  entry->hash = key.hash();
  entry->family = key.family;
  entry->contextId = key.contextId;
  entry->values.assign(key.values.begin(), key.values.end());
  entry->plan = std::move(plan);
  table.publish(std::move(entry),
                [&](const DispatchEntry &old) { return old.matches(key); });
}

void DispatchTable::replace(const ActivePlan *old, const ActivePlanPtr &now) {
  std::vector<const DispatchEntry *> found; // which live as long as the table
  table.forEach([&](const DispatchEntry &entry) {
    if (entry.plan.get() == old)
      found.push_back(&entry);
  });
  for (const DispatchEntry *entry : found)
    publish({entry->family, entry->contextId, entry->values}, now);
}

size_t DispatchTable::planCount() const {
  std::set<const ActivePlan *> plans;
  table.forEach(
      [&](const DispatchEntry &entry) { plans.insert(entry.plan.get()); });
  return plans.size();
}

void normaliseScalars(const RecordSchema &schema,
                      llvm::MutableArrayRef<int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Field &field = schema.fields()[i];
    if (field.role != FieldRole::Scalar || field.kind != FieldKind::Real)
      continue;
    bool optional = decodeReal(field.defaultValue) == 0;
    bool isUsed = !optional || decodeReal(values[i]) != 0;
    values[i] = encodeReal(isUsed ? 1.0 : 0.0);
  }
}

} // namespace kiln
