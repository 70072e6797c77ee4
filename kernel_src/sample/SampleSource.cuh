//===- sample/SampleSource.cuh - the logits that a block reads ------------===//
//
// A block has a part of the row, in vectors of kPack tokens, which its threads
// take in turn. Steps 1 to 3 of include/kiln/sample.h are done here, so that
// all kernels choose from the same bits.
//
// Penalties need the number of times that a token occurs in the row's history.
// The block counts in shared memory, for kCountedTokens tokens at once: for
// each such piece of its part all threads walk through the history. That is
// exact however often a token occurs, and needs no memory that grows with the
// vocabulary.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"
#include "sample/SampleLayout.h"
#include "sample/SampleNumbers.h"
#include "sample/SampleParams.h"

namespace kiln {

/// The greater; NaN if either is.
inline float maxOrNan(float a, float b) {
  if constexpr (__CUDA_ARCH__ >= 800)
    return ptx::maxNan(a, b);
  else
    return a != a || a > b ? a : b;
}

inline float minusInfinity() { return __uint_as_float(0xff800000u); }

/// kThreads threads read kItems vectors each at once, and keep kKept tokens of
/// the block's part.
template <SampleSignature kSignature, int kThreads, int kItems, int kKept>
class SampleSource {
public:
  static constexpr int kBytes = bytesOf(kSignature.in);
  /// Tokens of a vector: 16 bytes.
  static constexpr int kPack = 16 / kBytes;

  /// Part \p part of \p parts of row \p row.
  SampleSource(const SampleParams &params, long long row, unsigned part,
               unsigned parts, unsigned char *memory,
               const SampleLayout &layout)
      : params(params), row(row),
        logits(static_cast<const char *>(params.logits) +
               row * params.ld * kBytes),
        slice(reinterpret_cast<float *>(memory + layout.slice)),
        counters(reinterpret_cast<unsigned *>(memory + layout.counters)) {
    const unsigned packs =
        (static_cast<unsigned>(params.vocab) + kPack - 1) / kPack;
    const unsigned each = (packs + parts - 1) / parts;
    first = min(part * each, packs);
    last = min(first + each, packs);
    if constexpr (kSignature.allowed)
      allowed = params.allowed + row * ((params.vocab + 31) / 32);
    if constexpr (kSignature.penalties)
      readPenalties();
  }

  /// The block's vectors: from begin() to before end().
  unsigned begin() const { return first; }
  unsigned end() const { return last; }
  const char *addressOf(unsigned pack) const {
    return logits + static_cast<long long>(pack) * 16;
  }
  unsigned vocab() const { return static_cast<unsigned>(params.vocab); }
  /// Vectors before this one are whole; a row may end within one.
  unsigned wholeEnd() const { return min(last, vocab() / kPack); }
  /// Whether step 1 leaves logits as they are.
  bool isAsStored() const { return !kSignature.softcap && params.scale == 1; }

  /// Has L2 load the first vectors, without waiting.
  void prefetch() const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const unsigned pack = first + i * kThreads + threadIdx.x;
      if (pack < last)
        ptx::prefetchL2(addressOf(pack));
    }
  }

  /// Step 1 for one stored logit.
  float raw(float logit) const {
    // The sum makes +0 of -0, also of a product that underflows: fmaf with 0
    // would not, and a product and a sum would be contracted to it.
    float x = fmaf(logit, params.scale, 0.0f) + 0.0f;
    if constexpr (kSignature.softcap)
      x = params.softcap * tanhf(x * params.inverseCap) + 0.0f;
    return x;
  }
  float rawOf(unsigned token) const {
    return raw(toFloat<kSignature.in>(
        reinterpret_cast<const Storage<kSignature.in> *>(logits)[token]));
  }

  /// Calls each(token, x) with the logits of step 1 of each vector, and after()
  /// in all threads together after some vectors. Places behind the vocabulary
  /// are minus infinity.
  template <class Each, class After> void forEachRaw(Each each, After after) {
    walk<false, kLaterItems>(first, last, each, after);
  }

  /// The same with the logits of step 3, for the first walk over the row, which
  /// keeps them if they are kept.
  template <class Each, class After> void forEachFirst(Each each, After after) {
    auto keep = [&](unsigned token, float(&x)[kPack]) {
      if constexpr (kKept > 0)
        store(token / kPack - first, x);
      each(token, x);
    };
    walkFinal<kItems>(keep, after);
  }
  /// The same for later walks.
  template <class Each, class After> void forEach(Each each, After after) {
    if constexpr (kKept > 0)
      walkKept(each, after);
    else
      walkFinal<kLaterItems>(each, after);
  }

  /// The words of a whole vector at \p from.
  static Words<16> wholeWords(const char *from) {
    Words<16> words;
    if constexpr (kAccess >= 4) {
#pragma unroll
      for (int i = 0; i < 16 / kAccess; ++i) {
        const Words<kAccess> part =
            loadVector<kAccess, CacheHint::Streaming>(from + i * kAccess);
#pragma unroll
        for (int w = 0; w < kAccess / 4; ++w)
          words.word[i * (kAccess / 4) + w] = part.word[w];
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words.word[i] =
            loadVector<2, CacheHint::Streaming>(from + 4 * i).word[0] |
            loadVector<2, CacheHint::Streaming>(from + 4 * i + 2).word[0] << 16;
    }
    return words;
  }
  /// The words of vector \p pack. Places behind the vocabulary have the logit
  /// of its first one.
  Words<16> wordsOf(unsigned pack) const {
    const char *from = addressOf(pack);
    if ((pack + 1) * kPack <= vocab())
      return wholeWords(from);
    Words<16> words;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words.word[i] = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const int place = pack * kPack + i < vocab() ? i : 0;
      words.word[i * kBytes / 4] |=
          loadVector<kBytes, CacheHint::Streaming>(from + place * kBytes)
              .word[0]
          << (i * kBytes % 4 * 8);
    }
    return words;
  }

private:
  static constexpr int kAccess = kSignature.align;
  /// Later walks compute more for each vector and read from L2, which is near:
  /// they need fewer loads in flight, and have fewer registers for them.
  static constexpr int kLaterItems = kItems > 1 && kThreads < 1024 ? 2 : 1;

  //===--------------------------------------------------------------------===//
  // Vectors
  //===--------------------------------------------------------------------===//

  /// The logits of a vector as stored.
  void loadPack(float (&x)[kPack], const Words<16> &words) const {
    unpackFloats<kSignature.in>(x, words);
  }

  template <int kAtOnce, class Each, class After>
  void walkFinal(Each &each, After &after) {
    if constexpr (kSignature.penalties) {
      constexpr unsigned kCounted = kCountedTokens / kPack;
      for (unsigned from = first; from < last; from += kCounted) {
        countFrom(from * kPack);
        walk<true, kAtOnce>(from, min(from + kCounted, last), each, after);
        __syncthreads();
      }
    } else
      walk<true, kAtOnce>(first, last, each, after);
  }

  template <bool kFinal, int kAtOnce, class Each, class After>
  void walk(unsigned from, unsigned to, Each &each, After &after) {
    for (unsigned base = from; base < to; base += kThreads * kAtOnce) {
      Words<16> words[kAtOnce];
      unsigned bits[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const unsigned pack = base + i * kThreads + threadIdx.x;
        if (pack < to) {
          words[i] = wordsOf(pack);
          if constexpr (kFinal && kSignature.allowed)
            bits[i] = allowed[pack * kPack / 32] >> (pack * kPack % 32);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const unsigned pack = base + i * kThreads + threadIdx.x;
        if (pack < to) {
          float x[kPack];
          loadPack(x, words[i]);
          finish<kFinal>(x, pack * kPack, bits[i]);
          each(pack * kPack, x);
        }
      }
      after();
    }
  }

  /// Steps 1 to 3 of the vector that begins with \p token.
  template <bool kFinal>
  void finish(float (&x)[kPack], unsigned token, unsigned bits) const {
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      x[i] = raw(x[i]);
    if constexpr (kFinal && kSignature.allowed)
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        x[i] = bits >> i & 1 ? x[i] : minusInfinity();
    if constexpr (kFinal && kSignature.penalties)
      penalise(x, token);
    if (token + kPack > static_cast<unsigned>(params.vocab))
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        if (token + i >= static_cast<unsigned>(params.vocab))
          x[i] = minusInfinity();
  }

  //===--------------------------------------------------------------------===//
  // Kept logits
  //===--------------------------------------------------------------------===//

  static constexpr int kQuads = kPack / 4;

  /// Quad \p quad of the \p pack-th vector of the block: neighbours in memory
  /// belong to neighbours among threads.
  float4 &keptAt(unsigned pack, int quad) const {
    return reinterpret_cast<float4 *>(slice)[quad * (kKept / kPack) + pack];
  }
  void store(unsigned pack, const float (&x)[kPack]) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q)
      keptAt(pack, q) = {x[4 * q], x[4 * q + 1], x[4 * q + 2], x[4 * q + 3]};
  }
  template <class Each, class After>
  void walkKept(Each &each, After &after) const {
    for (unsigned base = first; base < last; base += kThreads) {
      const unsigned pack = base + threadIdx.x;
      if (pack < last) {
        float x[kPack];
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
          const float4 four = keptAt(pack - first, q);
          x[4 * q] = four.x;
          x[4 * q + 1] = four.y;
          x[4 * q + 2] = four.z;
          x[4 * q + 3] = four.w;
        }
        each(pack * kPack, x);
      }
      after();
    }
  }

  //===--------------------------------------------------------------------===//
  // Penalties
  //===--------------------------------------------------------------------===//

  void readPenalties() {
    const long long most = params.historyCount;
    const long long begin = params.historyBegins[row];
    historyBegin = min(max(0ll, begin), most);
    historyEnd =
        min(max(historyBegin, static_cast<long long>(params.historyEnds[row])),
            most);
    outputBegin = begin + max(params.promptLengths[row], 0);
    if (params.repetition)
      repetition = params.repetition[row];
    if (params.frequency)
      frequency = params.frequency[row];
    if (params.presence)
      presence = params.presence[row];
  }

  /// Counts the history's tokens \p first to \p first + kCountedTokens - 1: a
  /// counter is odd where the prompt was first, and has two for each time in
  /// the output.
  void countFrom(unsigned first) const {
    for (int i = threadIdx.x; i < kCountedTokens; i += kThreads)
      counters[i] = 0;
    firstCounted = first;
    __syncthreads();
    for (long long i = historyBegin + threadIdx.x; i < historyEnd;
         i += kThreads) {
      const unsigned token = static_cast<unsigned>(params.history[i]) - first;
      if (token >= static_cast<unsigned>(kCountedTokens))
        continue;
      if (i < outputBegin)
        atomicMax(counters + token, 1u);
      else
        atomicAdd(counters + token, 2u);
    }
    __syncthreads();
  }

  /// Step 3.
  void penalise(float (&x)[kPack], unsigned token) const {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const unsigned counted = counters[token - firstCounted + i];
      if (counted != 0)
        x[i] = penalised(x[i], counted >> 1);
    }
  }
  float penalised(float x, unsigned times) const {
    x = x > 0 ? x / repetition : x * repetition;
    x = fmaf(-frequency, static_cast<float>(times), x);
    return x - (times != 0 ? presence : 0.0f) + 0.0f;
  }

  const SampleParams &params;
  long long row;
  const char *logits;
  float *slice;
  unsigned *counters;
  const unsigned *allowed = nullptr;
  unsigned first, last; ///< vectors
  long long historyBegin = 0, historyEnd = 0, outputBegin = 0;
  float repetition = 1, frequency = 0, presence = 0;
  mutable unsigned firstCounted = 0;
};

} // namespace kiln
