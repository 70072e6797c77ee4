//===- Dispatch.h - from a problem in a context to its plan ---------------===//
//
// The plans that launches hit, by all values of their problems. Servers meet
// values without end, so the table is bounded: a value that was not launched
// for long gives its place to another (CLOCK: each place has a mark that a hit
// sets and a sweep takes away; a place without mark is taken). Values that
// kiln_prepare promised are kept, and take no place from the others. Plans are
// shared between values and stay as long as the table, or as their context.
//
// Hits take no lock. A place is a row of atomic words behind a sequence number,
// which is odd while a writer changes them: a reader trusts its words if the
// number was even before and is the same afterwards. All words are read with
// acquire and written with release, so a reader that saw one word of a writer
// sees that writer's odd number, too. The index holds a number and half of a
// hash for each place. While a writer moves its entries, or rewrites a place,
// readers may miss a value. Then they take the slow path, which looks again
// under the lock.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Store/LoadedPlan.h"
#include "Support/ByteGauge.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kiln {

/// A loaded plan and the facts of its choice. Immutable, shared by all problems
/// that it serves.
struct ActivePlan {
  std::shared_ptr<const LoadedPlan> loaded;
  kiln_source source = KILN_SOURCE_NONE;
  /// A better plan may be found: this one is a generic kernel, or one that the
  /// mode would have measured.
  bool isFallback = false;

  /// Whether trials found since then that it computes wrong results.
  bool isWrong() const noexcept { return loaded && loaded->isWrong(); }
};
using ActivePlanPtr = std::shared_ptr<const ActivePlan>;

/// The plan of one problem.
struct ChosenPlan {
  ActivePlanPtr plan;                     ///< null: none
  double predictedNs = 0, measuredNs = 0; ///< 0: not known

  explicit operator bool() const { return plan != nullptr; }
};

/// The key of a launch: all that a choice depends on. `values` are the
/// canonical problem's, dynamic extents included, with scalars normalised (see
/// normaliseScalars).
struct DispatchKey {
  const KernelFamily *family = nullptr;
  uint64_t contextId = 0;
  llvm::ArrayRef<int64_t> values;

  /// Takes some 10 ns.
  uint64_t hash() const noexcept;
};

/// The plans that launches hit. Thread-safe. A value costs 64 bytes, 8 for each
/// field that the table has room for (not only its own), and 32 to 64 in the
/// index and the indices that it outgrew.
class DispatchTable {
public:
  static constexpr size_t kUsualCapacity = 65536;
  /// \p fields is the most that a problem has, \p capacity the number of values
  /// besides the kept ones, which may be as many. Memory is allocated as values
  /// come, and counts in \p gauge, which may be null.
  explicit DispatchTable(size_t fields, size_t capacity = kUsualCapacity,
                         ByteGaugePtr gauge = nullptr);
  DispatchTable(const DispatchTable &) = delete;
  DispatchTable &operator=(const DispatchTable &) = delete;

  /// Returns the plan for \p key, or null. Takes no lock and allocates nothing.
  /// Rarely it misses a value that another thread writes at the same time. The
  /// plan is valid until the table ends or forgets its context: no launch may
  /// be in progress in a context that is destroyed. It may be wrong, see
  /// ActivePlan::isWrong(); all other functions treat a wrong plan as missing.
  const ActivePlan *find(const DispatchKey &key) const noexcept;
  /// Like find(), under the table's lock: misses nothing.
  ChosenPlan lookup(const DispatchKey &key) const;
  /// Lets \p chosen serve \p key from now on.
  void publish(const DispatchKey &key, const ChosenPlan &chosen);
  /// Like publish(), unless \p key has a plan that is not a fallback, since
  /// another thread may have found a better one meanwhile. Returns the plan
  /// that serves now.
  ChosenPlan offer(const DispatchKey &key, const ChosenPlan &chosen);
  /// Like publish(), unless \p key has any plan.
  ChosenPlan introduce(const DispatchKey &key, const ChosenPlan &chosen);
  /// Lets \p chosen serve \p key if \p key has a plan that was not measured at
  /// this very value. Returns whether that was another plan. Launches in
  /// progress end with the plan that they found.
  bool replace(const DispatchKey &key, const ChosenPlan &chosen);
  /// Takes out \p key, also if it is kept or set aside.
  void drop(const DispatchKey &key);
  /// Returns the latest plan that served \p key before, needed less workspace
  /// than one that came after it, and that \p isMeant accepts; or null. It is
  /// valid as long as that of find().
  const ActivePlan *
  findEarlier(const DispatchKey &key,
              llvm::function_ref<bool(const ActivePlan &)> isMeant) const;
  /// Adds the values of \p family in a context at \p count places from \p place
  /// on, and moves \p place behind them. Returns false at the last one. Holds
  /// the table's lock for no more than these.
  using KeyValues = llvm::SmallVector<int64_t, 24>;
  bool list(const KernelFamily &family, uint64_t contextId, size_t &place,
            size_t count, std::vector<KeyValues> &values) const;
  /// Calls \p take, with the table's lock held, with the plan of each kept
  /// value in a context.
  void forEachKept(uint64_t contextId,
                   llvm::function_ref<void(const KernelFamily &, KeyValues,
                                           const ActivePlan &)>
                       take) const;
  /// Like offer(), and no other value takes the place of \p key from now on.
  /// Once as many values are kept as the table's capacity, further ones are not
  /// kept.
  ChosenPlan keep(const DispatchKey &key, const ChosenPlan &chosen);
  /// Takes out \p key unless it is kept, and remembers its plan until it has
  /// one again. Returns whether it is kept.
  bool setAside(const DispatchKey &key);
  /// Returns the plan that setAside() remembers for \p key, or none.
  ChosenPlan findAside(const DispatchKey &key) const;
  /// Forgets the plans that setAside() remembers for \p family in a context at
  /// values that \p isMeant accepts.
  void dropAsides(const KernelFamily &family, uint64_t contextId,
                  llvm::function_ref<bool(llvm::ArrayRef<int64_t>)> isMeant);
  /// Drops all plans of a destroyed context.
  void forgetContext(uint64_t contextId);

  /// Distinct plans that launches can hit.
  size_t planCount() const;
  /// Values that launches can hit, and the bytes that all of them take.
  size_t valueCount() const;
  size_t bytesInUse() const;

private:
  using Word = std::atomic<uint64_t>;
  /// Words of a place; the values follow.
  enum : size_t {
    kSequence,
    kMark,
    kHash,
    kFamily,
    kContext,
    kPlan,
    kPredicted,
    kMeasured,
    kValues
  };
  static constexpr size_t kChunkPlaces = 64;
  static constexpr size_t kNoPlace = ~size_t(0);

  /// Open addressing. A bucket holds the place's number + 1 above the low half
  /// of its hash, or 0 if it is free. At least half of the buckets are free.
  struct Index {
    uint64_t mask = 0;
    std::unique_ptr<Word[]> buckets;
  };

  Word *wordsOf(size_t place) const noexcept {
    return chunks[place / kChunkPlaces].load(std::memory_order_acquire) +
           place % kChunkPlaces * placeWords;
  }
  const ActivePlan *read(const Word *words,
                         const DispatchKey &key) const noexcept;
  /// The plan and place of a key; null and kNoPlace if there is none.
  struct Found {
    const ActivePlan *plan = nullptr;
    Word *words = nullptr;
    size_t place = kNoPlace;
  };
  Found search(const Index &index, const DispatchKey &key) const noexcept;
  // The following functions need the lock.
  size_t placeOf(const DispatchKey &key) const;
  ChosenPlan chosenAt(size_t place) const;
  KeyValues valuesOf(size_t place, size_t count) const;
  void clear(llvm::ArrayRef<size_t> places);
  size_t put(const DispatchKey &key, const ChosenPlan &chosen, bool isOffer);
  void makeRoom();
  size_t takePlace();
  void count(const ActivePlan *plan, int change);
  static void storePlan(Word *words, const ChosenPlan &chosen);
  void rememberEarlier(size_t place, const ActivePlan &now,
                       const ActivePlan &next);
  void write(size_t place, llvm::function_ref<void(Word *)> change);
  void insert(Index &index, uint64_t hash, size_t place);
  void removeFromIndex(size_t place);
  void grow();
  void countBytes();

  const size_t capacity, placeWords;
  std::vector<std::atomic<Word *>> chunks;
  std::atomic<Index *> current{nullptr};

  mutable std::mutex mutex; ///< guards what follows, and all writing
  std::vector<std::unique_ptr<Word[]>> memory;
  /// The last is the one in use; readers may still be in the others.
  std::vector<std::unique_ptr<Index>> indices;
  struct OwnedPlan {
    ActivePlanPtr plan;
    uint64_t contextId = 0;
    size_t values = 0; ///< that it serves
  };
  std::unordered_map<const ActivePlan *, OwnedPlan> plans;
  /// By place: earlier plans of its value with less workspace, the latest last.
  /// A caller may have room for no more than these.
  using Earlier = llvm::SmallVector<const ActivePlan *, 2>;
  std::unordered_map<size_t, Earlier> earlier;
  /// By hash: the former plans of values that are chosen again.
  struct Aside {
    const KernelFamily *family = nullptr;
    uint64_t contextId = 0;
    KeyValues values;
    ChosenPlan chosen;
    Earlier earlier;

    bool isOf(const DispatchKey &key) const;
  };
  std::unordered_map<uint64_t, Aside> asides;
  /// By place: whether its value is kept.
  std::vector<bool> isKept;
  /// Places that were cleared; nothing in the index points to them.
  std::vector<size_t> cleared;
  size_t placesUsed = 0, keptCount = 0, hand = 0;
  size_t plansInUse = 0;
  ByteAmount taken;
};

} // namespace kiln
