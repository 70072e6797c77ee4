//===- attention.cpp - a step of a serving engine through Kiln ------------===//
//
// Sequences whose keys and values lie in pages of one pool, 8 heads over 2:
//
//   prefill  a few sequences, each with a chunk of new tokens, packed one
//            behind the other; causal
//   decode   many sequences, one new token each
//
// Both are described before there is memory, prepared, and captured into one
// CUDA graph with the bounds that sequences may grow to. Between its replays
// only lengths, offsets and page tables change, in device memory; unused
// places of the batch are empty sequences. Each row of every replay is
// compared with fp64 on the host. Exit codes: 0 done, 1 failed, 3 no GPU.
//
//===----------------------------------------------------------------------===//
#include "Tools.h"

#include <kiln/kiln.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kHeads = 8, kKvHeads = 2, kDim = 64;
constexpr int kPage = 16, kPages = 128; ///< tokens of a page, pages of the pool
/// Most sequences of a step, keys of a sequence and new tokens of a sequence.
constexpr int kPrefills = 2, kDecodes = 6, kMostKeys = 512, kMostChunk = 128;
/// Room for the new tokens of all prefills.
constexpr int kMostTokens = 160;

/// bf16 rows of \p heads heads.
class Rows : public Array<uint16_t> {
public:
  Rows(size_t tokens, int heads)
      : Array(tokens * static_cast<size_t>(heads * kDim)), heads(heads) {}

  void fill(std::mt19937 &random) {
    std::normal_distribution<float> normal;
    for (uint16_t &element : host)
      element = toBf16(normal(random));
    upload();
  }
  double at(int token, int head, int element) const {
    return fromBf16(
        host[static_cast<size_t>((token * heads + head) * kDim + element)]);
  }

private:
  int heads;
};

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// A batch of sequences with its arrays; all of them keep their addresses.
struct Batch {
  static constexpr int kColumns = kMostKeys / kPage; ///< of the page table

  int places; ///< sequences at most
  Rows q, o;
  Array<int32_t> offsets, lengths, table;

  Batch(int places, int tokens)
      : places(places), q(tokens, kHeads), o(tokens, kHeads),
        offsets(places + 1), lengths(places), table(places * kColumns) {}

  /// Gives sequence i keys[i] keys, of which the last chunks[i] are new, and
  /// pages from \p freePages on. Further places have none.
  void assign(const std::vector<int> &keys, const std::vector<int> &chunks,
              std::vector<int> &freePages) {
    // Entries behind a sequence's pages are not read.
    std::fill(table.host.begin(), table.host.end(), -1);
    for (int i = 0; i < places; ++i) {
      size_t at = static_cast<size_t>(i);
      bool isThere = at < keys.size();
      lengths.host[at] = isThere ? keys[at] : 0;
      offsets.host[at + 1] = offsets.host[at] + (isThere ? chunks[at] : 0);
      for (int page = 0; page * kPage < lengths.host[at]; ++page) {
        table.host[at * kColumns + static_cast<size_t>(page)] =
            freePages.back();
        freePages.pop_back();
      }
    }
    offsets.upload();
    lengths.upload();
    table.upload();
    o.poison();
  }
};

struct Pool {
  Rows k{kPages * kPage, kKvHeads}, v{kPages * kPage, kKvHeads};
};

/// The common part of both calls. Builders hold sizes and addresses and cost
/// nothing to make.
kiln::Attention attentionOf(int batch, int queries) {
  return kiln::Attention(KILN_BF16, batch, queries, kMostKeys, kHeads, kDim)
      .kvHeads(kKvHeads)
      .causal();
}

/// Chunks: packed queries against paged keys. \p pool is null where the call is
/// only described.
kiln::Attention prefillOf(const Batch *batch, const Pool *pool) {
  kiln::Attention call = attentionOf(kPrefills, kMostChunk);
  call.queryOffsets(batch ? batch->offsets.data() : nullptr, kMostTokens);
  call.keyLengths(batch ? batch->lengths.data() : nullptr);
  call.pages(batch ? batch->table.data() : nullptr, kPage, kPages,
             Batch::kColumns);
  if (batch)
    call.q(batch->q.data()).o(batch->o.data());
  if (pool)
    call.k(pool->k.data()).v(pool->v.data());
  return call;
}

/// One query each: it stands at the last key, so `causal` says nothing more.
kiln::Attention decodeOf(const Batch *batch, const Pool *pool) {
  kiln::Attention call = attentionOf(kDecodes, 1);
  call.keyLengths(batch ? batch->lengths.data() : nullptr);
  call.pages(batch ? batch->table.data() : nullptr, kPage, kPages,
             Batch::kColumns);
  if (batch)
    call.q(batch->q.data()).o(batch->o.data());
  if (pool)
    call.k(pool->k.data()).v(pool->v.data());
  return call;
}

/// Choosing, compiling and tuning happen here, and so do kernels' loading and
/// the arena that a capture on \p stream needs.
void prepare(const kiln::Engine &engine, CudaStream stream) {
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  options.budget_ms = 20000; // for both together
  check(engine.prepare({kiln::Problem(prefillOf(nullptr, nullptr)),
                        kiln::Problem(decodeOf(nullptr, nullptr))},
                       options),
        "preparing");
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Row of the pool that key \p key of sequence \p sequence has.
int rowOf(const Batch &batch, int sequence, int key) {
  int entry = sequence * Batch::kColumns + key / kPage;
  return batch.table.host[static_cast<size_t>(entry)] * kPage + key % kPage;
}

/// Whether O of row \p token and head \p head is that of a query that sees the
/// first \p keys keys of \p sequence. Weights are rounded to bf16, and O is.
bool isRowRight(const Batch &batch, const Pool &pool, int sequence, int token,
                int keys, int head) {
  const int kvHead = head / (kHeads / kKvHeads);
  std::vector<double> weights(static_cast<size_t>(keys));
  for (int key = 0; key < keys; ++key) {
    double score = 0;
    for (int e = 0; e < kDim; ++e)
      score += batch.q.at(token, head, e) *
               pool.k.at(rowOf(batch, sequence, key), kvHead, e);
    weights[static_cast<size_t>(key)] =
        std::exp(score / std::sqrt(static_cast<double>(kDim)));
  }
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  bool isRight = true;
  for (int e = 0; e < kDim; ++e) {
    double o = 0, squares = 0;
    for (int key = 0; key < keys; ++key) {
      double part = weights[static_cast<size_t>(key)] / sum *
                    pool.v.at(rowOf(batch, sequence, key), kvHead, e);
      o += part;
      squares += part * part;
    }
    double bound = std::ldexp(std::fabs(o) + 4 * std::sqrt(squares), -8) + 1e-6;
    isRight &= std::fabs(batch.o.at(token, head, e) - o) <= bound;
  }
  return isRight;
}

/// Compares the rows that sequences of \p batch have in O. Packed sequence i
/// has the rows from offsets[i] on.
bool isRight(const char *name, Batch &batch, const Pool &pool) {
  batch.o.fetch();
  int wrong = 0, rows = 0;
  for (int i = 0; i < batch.places; ++i) {
    int first = batch.offsets.host[static_cast<size_t>(i)],
        last = batch.offsets.host[static_cast<size_t>(i) + 1];
    for (int token = first; token < last; ++token)
      for (int head = 0; head < kHeads; ++head, ++rows) {
        int keys = batch.lengths.host[static_cast<size_t>(i)];
        wrong +=
            !isRowRight(batch, pool, i, token, keys - (last - 1 - token), head);
      }
  }
  std::printf("%-7s %4d rows, %d wrong\n", name, rows, wrong);
  return wrong == 0;
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

/// Keys of each sequence, and how many keys of each prefill are new.
struct Step {
  std::vector<int> prefills, chunks, decodes;
};

bool runSteps(CudaStream stream) {
  kiln::Result<kiln::Engine> engine = kiln::Engine::create();
  check(engine.status(), "creating the engine");
  prepare(*engine, stream);

  std::mt19937 random(1);
  Pool pool;
  pool.k.fill(random);
  pool.v.fill(random);
  Batch prefills(kPrefills, kMostTokens), decodes(kDecodes, kDecodes);
  prefills.q.fill(random);
  decodes.q.fill(random);
  Graph step(stream, [&] {
    check(engine->run(prefillOf(&prefills, &pool), stream), "prefill");
    check(engine->run(decodeOf(&decodes, &pool), stream), "decode");
  });

  const Step kSteps[] = {
      // A first chunk and a later one; three sequences of six.
      {{128, 300}, {128, 32}, {1, 17, 512}},
      {{7}, {7}, {2, 18, 511, 100, 16, 33}},
      {{}, {}, {500, 3}},
  };
  bool correct = true;
  for (const Step &next : kSteps) {
    std::vector<int> freePages(kPages);
    std::iota(freePages.begin(), freePages.end(), 0);
    std::shuffle(freePages.begin(), freePages.end(), random);
    prefills.assign(next.prefills, next.chunks, freePages);
    decodes.assign(next.decodes, std::vector<int>(next.decodes.size(), 1),
                   freePages);
    // The stream does not wait for the default stream, where this ran.
    check(cuda.streamSynchronize(nullptr), "copying in");
    step.replay();
    correct &= isRight("prefill", prefills, pool);
    correct &= isRight("decode", decodes, pool);
  }
  return correct;
}

} // namespace

int main() {
  int device = 0;
  if (const char *reason = cudaDriverOpen(&cuda, &device)) {
    std::fprintf(stderr, "attention: %s\n", reason);
    return kExitNoGpu;
  }
  char name[128] = "";
  check(cuda.deviceGetName(name, sizeof(name), device), "naming the GPU");
  std::printf(
      "Kiln %s on %s: prefill and decode from pages, %d heads over %d\n",
      kiln_version_string(), name, kHeads, kKvHeads);
  CudaStream stream = nullptr;
  check(cuda.streamCreate(&stream, kStreamNonBlocking), "making a stream");
  bool correct = runSteps(stream);
  cuda.streamDestroy(stream);
  cuda.primaryCtxRelease(device);
  return correct ? 0 : 1;
}
