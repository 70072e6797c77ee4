//===- Dispatch.cpp - from a problem in a context to its plan -------------===//
#include "Runtime/Dispatch.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace kiln {

/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
static constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// One odd factor for each field.
static constexpr auto kFactors = [] {
  std::array<uint64_t, kMaxProblemFields> factors{};
  for (size_t i = 0; i < factors.size(); ++i)
    factors[i] = mix((i + 1) * 0x9e3779b97f4a7c15u) | 1;
  return factors;
}();

/// Both halves of the product of two words.
static uint64_t fold(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t DispatchKey::hash() const noexcept {
  // A sum of independent products of two fields each: for the fields of an
  // attention it takes 0.4 of the time of one product a field.
  const size_t count = std::min(values.size(), kFactors.size());
  auto field = [&](size_t i) {
    return static_cast<uint64_t>(values[i]) ^ kFactors[i];
  };
  uint64_t sum = contextId + reinterpret_cast<uintptr_t>(family);
  size_t i = 0;
  for (; i + 1 < count; i += 2)
    sum += fold(field(i), field(i + 1));
  if (i < count)
    sum += fold(field(i), kFactors[0]);
  return mix(sum);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static uint64_t bitsOf(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

const ActivePlan *DispatchTable::read(const Word *words,
                                      const DispatchKey &key) const noexcept {
  constexpr auto acquire = std::memory_order_acquire;
  uint64_t sequence = words[kSequence].load(acquire);
  uint64_t differs = sequence & 1;
  differs |= words[kFamily].load(acquire) ^ bitsOf(key.family);
  differs |= words[kContext].load(acquire) ^ key.contextId;
  // A local copy, because an acquire lets the compiler keep no field of the
  // key.
  const llvm::ArrayRef<int64_t> values = key.values;
  const size_t count = values.size();
  auto differsAt = [&](size_t i) {
    return words[kValues + i].load(acquire) ^ static_cast<uint64_t>(values[i]);
  };
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    differs |=
        differsAt(i) | differsAt(i + 1) | differsAt(i + 2) | differsAt(i + 3);
  for (; i < count; ++i)
    differs |= differsAt(i);
  uint64_t plan = words[kPlan].load(acquire);
  if (differs || words[kSequence].load(std::memory_order_relaxed) != sequence)
    return nullptr;
  return reinterpret_cast<const ActivePlan *>(static_cast<uintptr_t>(plan));
}

[[gnu::always_inline]] inline DispatchTable::Found
DispatchTable::search(const Index &index,
                      const DispatchKey &key) const noexcept {
  const auto tag = static_cast<uint32_t>(key.hash());
  for (uint64_t i = tag & index.mask;; i = (i + 1) & index.mask) {
    uint64_t bucket = index.buckets[i].load(std::memory_order_acquire);
    if (!bucket)
      return {};
    if (static_cast<uint32_t>(bucket) != tag)
      continue;
    size_t place = (bucket >> 32) - 1;
    Word *words = wordsOf(place);
    if (const ActivePlan *plan = read(words, key))
      return {plan, words, place};
  }
}

const ActivePlan *DispatchTable::find(const DispatchKey &key) const noexcept {
  Found found = search(*current.load(std::memory_order_acquire), key);
  // Only a clear mark is written: hits on many cores share the line.
  if (found.plan && !found.words[kMark].load(std::memory_order_relaxed))
    found.words[kMark].store(1, std::memory_order_relaxed);
  return found.plan;
}

size_t DispatchTable::placeOf(const DispatchKey &key) const {
  return search(*indices.back(), key).place;
}

static const ActivePlan *planOf(uint64_t word) {
  return reinterpret_cast<const ActivePlan *>(static_cast<uintptr_t>(word));
}

/// Returns none if the plan is wrong.
ChosenPlan DispatchTable::chosenAt(size_t place) const {
  const Word *words = wordsOf(place);
  const ActivePlanPtr &plan = plans.at(planOf(words[kPlan].load())).plan;
  if (plan->isWrong())
    return {};
  return {plan, std::bit_cast<double>(words[kPredicted].load()),
          std::bit_cast<double>(words[kMeasured].load())};
}

/// Notes that \p change more (or fewer) values have \p plan, which may be null.
void DispatchTable::count(const ActivePlan *plan, int change) {
  auto found = plans.find(plan);
  if (found == plans.end())
    return;
  size_t &values = found->second.values;
  plansInUse -= values > 0;
  values += static_cast<size_t>(change);
  plansInUse += values > 0;
}

ChosenPlan DispatchTable::lookup(const DispatchKey &key) const {
  std::lock_guard<std::mutex> lock(mutex);
  size_t place = placeOf(key);
  if (place == kNoPlace)
    return {};
  wordsOf(place)[kMark].store(1, std::memory_order_relaxed);
  return chosenAt(place);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static constexpr size_t kFirstBuckets = 64;

DispatchTable::DispatchTable(size_t fields, size_t capacity, ByteGaugePtr gauge)
    : capacity(capacity), placeWords(kValues + fields),
      chunks((2 * capacity + kChunkPlaces - 1) / kChunkPlaces),
      taken(std::move(gauge)) {
  grow();
}

/// Lets \p change store words, with release, while readers do not trust them.
void DispatchTable::write(size_t place,
                          llvm::function_ref<void(Word *)> change) {
  Word *words = wordsOf(place);
  uint64_t sequence = words[kSequence].load(std::memory_order_relaxed);
  words[kSequence].store(sequence + 1, std::memory_order_relaxed);
  change(words);
  words[kSequence].store(sequence + 2, std::memory_order_release);
}

void DispatchTable::insert(Index &index, uint64_t hash, size_t place) {
  const auto tag = static_cast<uint32_t>(hash);
  uint64_t i = tag & index.mask;
  while (index.buckets[i].load(std::memory_order_relaxed))
    i = (i + 1) & index.mask;
  index.buckets[i].store(uint64_t(place + 1) << 32 | tag,
                         std::memory_order_release);
}

/// Takes the bucket of \p place out and closes the gap: later ones move up
/// unless that would put them before the bucket where their search begins.
void DispatchTable::removeFromIndex(size_t place) {
  Index &index = *indices.back();
  auto at = [&](uint64_t i) {
    return index.buckets[i & index.mask].load(std::memory_order_relaxed);
  };
  uint64_t gap = wordsOf(place)[kHash] & index.mask;
  while ((at(gap) >> 32) != place + 1)
    gap = (gap + 1) & index.mask;
  for (uint64_t i = gap + 1; at(i); ++i) {
    uint64_t home = at(i) & index.mask;
    bool mayMove = ((i - home) & index.mask) >= ((i - gap) & index.mask);
    if (!mayMove)
      continue;
    index.buckets[gap & index.mask].store(at(i), std::memory_order_release);
    gap = i;
  }
  index.buckets[gap & index.mask].store(0, std::memory_order_release);
}

void DispatchTable::grow() {
  auto larger = std::make_unique<Index>();
  size_t buckets =
      indices.empty() ? kFirstBuckets : 2 * (indices.back()->mask + 1);
  larger->mask = buckets - 1;
  larger->buckets = std::make_unique<Word[]>(buckets); // all free
  if (!indices.empty())
    for (size_t i = 0; i <= indices.back()->mask; ++i)
      if (uint64_t bucket = indices.back()->buckets[i])
        insert(*larger, bucket, (bucket >> 32) - 1);
  // It is filled before it is published, so that readers miss nothing.
  indices.push_back(std::move(larger));
  current.store(indices.back().get(), std::memory_order_release);
  countBytes();
}

/// Gets the memory that takePlace() and the index need for one more value, so
/// that all that may throw comes before the first change.
void DispatchTable::makeRoom() {
  if (!cleared.empty() || placesUsed >= capacity + keptCount)
    return;
  if ((placesUsed + 1) * 2 > indices.back()->mask + 1)
    grow();
  const size_t chunk = placesUsed / kChunkPlaces;
  if (chunk == memory.size()) {
    memory.push_back(std::make_unique<Word[]>(kChunkPlaces * placeWords));
    chunks[chunk].store(memory.back().get(), std::memory_order_release);
    countBytes();
  }
  if (isKept.size() == placesUsed)
    isKept.push_back(false);
}

/// Returns a place that no bucket points to: a cleared or a new one, or that of
/// a value that was not hit since the hand came by.
size_t DispatchTable::takePlace() {
  if (!cleared.empty()) {
    size_t place = cleared.back();
    cleared.pop_back();
    return place;
  }
  if (placesUsed < capacity + keptCount)
    return placesUsed++;
  for (;; hand = (hand + 1) % placesUsed) {
    if (isKept[hand])
      continue;
    Word &mark = wordsOf(hand)[kMark];
    if (!mark.load(std::memory_order_relaxed))
      break;
    mark.store(0, std::memory_order_relaxed);
  }
  size_t place = hand;
  hand = (hand + 1) % placesUsed;
  removeFromIndex(place);
  count(planOf(wordsOf(place)[kPlan]), -1);
  earlier.erase(place);
  return place;
}

void DispatchTable::storePlan(Word *words, const ChosenPlan &chosen) {
  constexpr auto release = std::memory_order_release;
  words[kPredicted].store(std::bit_cast<uint64_t>(chosen.predictedNs), release);
  words[kMeasured].store(std::bit_cast<uint64_t>(chosen.measuredNs), release);
  words[kPlan].store(bitsOf(chosen.plan.get()), release);
}

/// Lets \p chosen serve \p key and returns the place. With \p isOffer a plan
/// that is not a fallback stays.
size_t DispatchTable::put(const DispatchKey &key, const ChosenPlan &chosen,
                          bool isOffer) {
  constexpr auto release = std::memory_order_release;
  assert(kValues + key.values.size() <= placeWords && "too many fields");
  size_t place = placeOf(key);
  if (isOffer && place != kNoPlace)
    if (ChosenPlan known = chosenAt(place); known && !known.plan->isFallback)
      return place;
  plans.try_emplace(chosen.plan.get(), OwnedPlan{chosen.plan, key.contextId});
  auto writePlan = [&](Word *words) { storePlan(words, chosen); };
  if (place != kNoPlace) {
    rememberEarlier(place, *planOf(wordsOf(place)[kPlan]), *chosen.plan);
    count(planOf(wordsOf(place)[kPlan]), -1);
    count(chosen.plan.get(), 1);
    write(place, writePlan);
    return place;
  }
  Aside before;
  if (auto found = asides.find(key.hash()); found != asides.end()) {
    if (found->second.isOf(key))
      before = std::move(found->second);
    asides.erase(found);
    countBytes();
  }
  makeRoom();
  place = takePlace();
  write(place, [&](Word *words) {
    words[kMark].store(0, release);
    words[kHash].store(key.hash(), release);
    words[kFamily].store(bitsOf(key.family), release);
    words[kContext].store(key.contextId, release);
    for (size_t i = 0; i < key.values.size(); ++i)
      words[kValues + i].store(static_cast<uint64_t>(key.values[i]), release);
    writePlan(words);
  });
  insert(*indices.back(), key.hash(), place);
  count(chosen.plan.get(), 1);
  if (!before.earlier.empty())
    earlier[place] = std::move(before.earlier);
  if (before.chosen)
    rememberEarlier(place, *before.chosen.plan, *chosen.plan);
  return place;
}

/// Keeps \p now, which serves \p place, if its successor \p next needs more
/// workspace.
void DispatchTable::rememberEarlier(size_t place, const ActivePlan &now,
                                    const ActivePlan &next) {
  constexpr size_t kMost = 8;
  if (&now == &next || !now.loaded || !next.loaded)
    return;
  const WorkspaceLayout &has = now.loaded->workspace();
  WorkspaceLayout both = has;
  both.merge(next.loaded->workspace());
  if (both.zeroedBytes == has.zeroedBytes &&
      both.scratchBytes == has.scratchBytes)
    return;
  auto &list = earlier[place];
  llvm::erase(list, &now);
  if (list.size() == kMost)
    list.erase(list.begin() + 1); // the first one has the workspace that was
                                  // prepared
  list.push_back(&now);
}

const ActivePlan *DispatchTable::findEarlier(
    const DispatchKey &key,
    llvm::function_ref<bool(const ActivePlan &)> isMeant) const {
  std::lock_guard<std::mutex> lock(mutex);
  const Earlier *list = nullptr;
  const size_t place = placeOf(key);
  if (auto found = earlier.find(place); found != earlier.end())
    list = &found->second;
  if (auto found = asides.find(key.hash());
      place == kNoPlace && found != asides.end() && found->second.isOf(key))
    list = &found->second.earlier;
  if (!list)
    return nullptr;
  for (const ActivePlan *plan : llvm::reverse(*list))
    if (isMeant(*plan))
      return plan;
  return nullptr;
}

void DispatchTable::publish(const DispatchKey &key, const ChosenPlan &chosen) {
  std::lock_guard<std::mutex> lock(mutex);
  put(key, chosen, /*isOffer=*/false);
}

ChosenPlan DispatchTable::offer(const DispatchKey &key,
                                const ChosenPlan &chosen) {
  std::lock_guard<std::mutex> lock(mutex);
  ChosenPlan serving = chosenAt(put(key, chosen, /*isOffer=*/true));
  return serving ? serving : chosen; // it may have been found wrong just now
}

ChosenPlan DispatchTable::introduce(const DispatchKey &key,
                                    const ChosenPlan &chosen) {
  std::lock_guard<std::mutex> lock(mutex);
  if (size_t place = placeOf(key); place != kNoPlace)
    if (ChosenPlan known = chosenAt(place))
      return known;
  put(key, chosen, /*isOffer=*/false);
  return chosen;
}

bool DispatchTable::replace(const DispatchKey &key, const ChosenPlan &chosen) {
  std::lock_guard<std::mutex> lock(mutex);
  size_t place = placeOf(key);
  if (place == kNoPlace)
    return false;
  const ChosenPlan known = chosenAt(place);
  if (known && known.measuredNs > 0 && chosen.measuredNs == 0)
    return false;
  put(key, chosen, /*isOffer=*/false);
  return known.plan != chosen.plan;
}

void DispatchTable::drop(const DispatchKey &key) {
  std::lock_guard<std::mutex> lock(mutex);
  if (const size_t place = placeOf(key); place != kNoPlace)
    clear(place);
  if (auto found = asides.find(key.hash());
      found != asides.end() && found->second.isOf(key)) {
    asides.erase(found);
    countBytes();
  }
}

bool DispatchTable::list(const KernelFamily &family, uint64_t contextId,
                         size_t &place, size_t count,
                         std::vector<KeyValues> &values) const {
  std::lock_guard<std::mutex> lock(mutex);
  const size_t fields = family.problemSchema().fields().size();
  const size_t end = std::min(place + count, placesUsed);
  for (; place < end; ++place) {
    const Word *words = wordsOf(place);
    if (words[kContext] == contextId && words[kFamily] == bitsOf(&family))
      values.push_back(valuesOf(place, fields));
  }
  return place < placesUsed;
}

void DispatchTable::forEachKept(
    uint64_t contextId, llvm::function_ref<void(const KernelFamily &, KeyValues,
                                                const ActivePlan &)>
                            take) const {
  std::lock_guard<std::mutex> lock(mutex);
  for (size_t place = 0; place < placesUsed; ++place) {
    const Word *words = wordsOf(place);
    const ChosenPlan chosen = chosenAt(place);
    if (!isKept[place] || words[kContext] != contextId || !chosen)
      continue;
    const auto &family =
        *reinterpret_cast<const KernelFamily *>(words[kFamily].load());
    take(family, valuesOf(place, family.problemSchema().fields().size()),
         *chosen.plan);
  }
}

ChosenPlan DispatchTable::keep(const DispatchKey &key,
                               const ChosenPlan &chosen) {
  std::lock_guard<std::mutex> lock(mutex);
  size_t place = put(key, chosen, /*isOffer=*/true);
  if (!isKept[place] && keptCount < capacity) {
    isKept[place] = true;
    ++keptCount;
  }
  ChosenPlan serving = chosenAt(place);
  return serving ? serving : chosen; // as in offer()
}

/// Frees \p places. Their plans stay, since a reader may still use one.
void DispatchTable::clear(llvm::ArrayRef<size_t> places) {
  cleared.reserve(cleared.size() + places.size());
  for (size_t place : places) {
    removeFromIndex(place);
    count(planOf(wordsOf(place)[kPlan]), -1);
    write(place, [&](Word *words) {
      for (size_t i : {kFamily, kContext, kPlan})
        words[i].store(0, std::memory_order_release);
    });
    cleared.push_back(place);
    earlier.erase(place);
    keptCount -= isKept[place];
    isKept[place] = false;
  }
}

bool DispatchTable::setAside(const DispatchKey &key) {
  std::lock_guard<std::mutex> lock(mutex);
  const size_t place = placeOf(key);
  if (place == kNoPlace)
    return false;
  if (isKept[place])
    return true;
  ChosenPlan chosen = chosenAt(place);
  if (chosen && (asides.size() < capacity || asides.count(key.hash()))) {
    Aside &aside = asides[key.hash()];
    aside = {key.family,
             key.contextId,
             valuesOf(place, key.values.size()),
             std::move(chosen),
             {}};
    if (auto list = earlier.find(place); list != earlier.end())
      aside.earlier = std::move(list->second);
    countBytes();
  }
  clear(place);
  return false;
}

bool DispatchTable::Aside::isOf(const DispatchKey &key) const {
  return family == key.family && contextId == key.contextId &&
         llvm::ArrayRef<int64_t>(values) == key.values;
}

ChosenPlan DispatchTable::findAside(const DispatchKey &key) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = asides.find(key.hash());
  if (found == asides.end() || !found->second.isOf(key) ||
      found->second.chosen.plan->isWrong())
    return {};
  return found->second.chosen;
}

void DispatchTable::dropAsides(
    const KernelFamily &family, uint64_t contextId,
    llvm::function_ref<bool(llvm::ArrayRef<int64_t>)> isMeant) {
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(asides, [&](const auto &entry) {
    const Aside &aside = entry.second;
    return aside.family == &family && aside.contextId == contextId &&
           isMeant(aside.values);
  });
  countBytes();
}

void DispatchTable::forgetContext(uint64_t contextId) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<size_t> gone;
  for (size_t place = 0; place < placesUsed; ++place)
    if (wordsOf(place)[kContext] == contextId)
      gone.push_back(place);
  clear(gone);
  std::erase_if(asides, [&](const auto &entry) {
    return entry.second.contextId == contextId;
  });
  countBytes();
  std::erase_if(plans, [&](const auto &entry) {
    return entry.second.contextId == contextId;
  });
}

DispatchTable::KeyValues DispatchTable::valuesOf(size_t place,
                                                 size_t count) const {
  KeyValues values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<int64_t>(wordsOf(place)[kValues + i].load()));
  return values;
}

size_t DispatchTable::planCount() const {
  std::lock_guard<std::mutex> lock(mutex);
  return plansInUse;
}

size_t DispatchTable::valueCount() const {
  std::lock_guard<std::mutex> lock(mutex);
  return placesUsed - cleared.size();
}

size_t DispatchTable::bytesInUse() const {
  std::lock_guard<std::mutex> lock(mutex);
  return taken.bytes();
}

/// Needs the lock.
void DispatchTable::countBytes() {
  size_t words = memory.size() * kChunkPlaces * placeWords + chunks.size();
  for (const std::unique_ptr<Index> &index : indices)
    words += index->mask + 1;
  taken.set(words * sizeof(Word) + asides.size() * sizeof(Aside));
}

} // namespace kiln
