//===- trial/IntegerValues.h - integers with which trials fill operands ---===//
//
// Each integer is a function of its index alone. Compiled by the host compiler
// and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "trial/IntegerInit.h"

namespace kiln {

/// 64 well-mixed bits of a counter (SplitMix64: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
constexpr unsigned long long mix(unsigned long long counter) {
  unsigned long long z = counter * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// The integers of one operand.
struct IntegerValues {
  IntegerInit init;
  bool differ = false; ///< lengths vary: the data are outliers
  long long count = 0; ///< of integers
  unsigned long long seed = 0;

  /// Integer \p index. Offsets and ends take time proportional to the index.
  constexpr long long at(long long index) const {
    switch (init.kind) {
    case IntegerData::Lengths:
      return isUneven() ? unevenLength(index)
                        : wantedLength(index, count, init.most);
    case IntegerData::Offsets:
      return offset(index);
    case IntegerData::Indices:
      return place(index);
    case IntegerData::Counts:
      return countOf(index, init.total);
    case IntegerData::Ends:
      return end(index);
    case IntegerData::Values:
      return value(index);
    case IntegerData::None:
      break;
    }
    return 0;
  }

private:
  /// Whether most usual lengths are below `most`.
  constexpr bool isUneven() const {
    return !differ && init.total > 0 && init.total / count < init.most;
  }

  constexpr long long value(long long index) const {
    if (count > 1 && index < 2)
      return index == 0 ? init.most : init.least;
    return drawn(index, init.most);
  }
  /// A draw from `least` to \p greatest.
  constexpr long long drawn(long long index, long long greatest) const {
    const auto choices =
        static_cast<unsigned long long>(greatest - init.least) + 1;
    return init.least +
           static_cast<long long>(
               mix(mix(seed + 1) + static_cast<unsigned long long>(index)) %
               choices);
  }

  /// `most` once, and other lengths that make up the rest of the total: from
  /// `least` to twice the mean.
  constexpr long long unevenLength(long long index) const {
    const long long rest =
        count > 1 ? (init.total - init.most) / (count - 1) : init.total;
    if (index == 0 && count > 1 && rest >= init.least)
      return init.most;
    const long long mean = rest >= init.least ? rest : init.total / count;
    if (mean <= init.least)
      return init.least;
    const auto choices = static_cast<unsigned long long>(mean - init.least) * 2;
    const long long length =
        init.least +
        static_cast<long long>(
            mix(mix(seed + 1) + static_cast<unsigned long long>(index)) %
            (choices + 1));
    return length < init.most ? length : init.most;
  }

  /// Length \p index of \p lengths, before any is cut; all but the first two
  /// are at most \p greatest.
  constexpr long long wantedLength(long long index, long long lengths,
                                   long long greatest) const {
    if (!differ)
      return greatest;
    if (lengths > 1 && index < 2)
      return index == 0 ? init.most : init.least;
    return drawn(index, greatest);
  }

  /// Sum of the first \p index lengths. Each leaves room for the least of the
  /// lengths behind it.
  constexpr long long offset(long long index) const {
    const long long lengths = count - 1;
    if (index == 0 || lengths <= 0)
      return 0;
    const long long share = init.total / lengths;
    long long greatest = differ ? 2 * share : share;
    greatest = greatest < init.least ? init.least : greatest;
    greatest = greatest < init.most ? greatest : init.most;
    long long sum = 0;
    for (long long i = 0; i < index; ++i) {
      const long long room = init.total - sum - init.least * (lengths - 1 - i);
      const long long wanted = wantedLength(i, lengths, greatest);
      sum += wanted < room ? wanted : room;
    }
    return sum;
  }

  /// Count \p index of the counts that make up \p total.
  constexpr long long countOf(long long index, long long total) const {
    if (differ && count > 1 && index < 2)
      return index == 0 ? 0 : init.most < total ? init.most : total;
    // Shares of the total, so that few rows spread over many counts.
    const long long mean = (index + 1) * total / count - index * total / count;
    const long long spread = differ ? mean : mean * 3 / 10;
    const long long value =
        mean - spread +
        static_cast<long long>(
            mix(mix(seed + 1) + static_cast<unsigned long long>(index)) %
            static_cast<unsigned long long>(2 * spread + 1));
    return value < init.most ? value : init.most;
  }

  /// The end of count \p index.
  constexpr long long end(long long index) const {
    const long long gaps = (init.align - 1) * (count - 1);
    const long long total = init.total > gaps ? init.total - gaps : init.total;
    long long sum = 0;
    for (long long i = 0; i <= index; ++i) {
      const long long first = (sum + init.align - 1) / init.align * init.align;
      const long long room = init.total - first;
      const long long wanted = countOf(i, total);
      if (room > 0)
        sum = first + (wanted < room ? wanted : room);
    }
    return sum;
  }

  /// Multiples of a prime, modulo the number of places. The prime has no factor
  /// in common with any such number, and since half of the number before it is
  /// prime too, neighbours stay neighbours only for 1 and 2 places.
  constexpr long long place(long long index) const {
    constexpr unsigned long long kSafePrime = 2654436503;
    const auto places =
        static_cast<unsigned long long>(init.most - init.least) + 1;
    const unsigned long long at =
        (static_cast<unsigned long long>(index) % places * kSafePrime + seed) %
        places;
    return init.least + static_cast<long long>(differ ? places - 1 - at : at);
  }
};

} // namespace kiln
