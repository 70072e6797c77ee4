//===- Decoder.h - a step of a small Llama as calls of Kiln ---------------===//
//
// The model of decoder_layer.cpp, which docs/engine.md walks through: its
// sizes, its memory, and one decoding step over a paged KV cache.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_DECODER_H
#define KILN_EXAMPLES_DECODER_H

#include "Sample.h"

#include <deque>

// The model; an engine reads these numbers from a config.json.
constexpr int64_t kLayers = 2, kHidden = 1024, kInner = 2816, kVocab = 8192;
constexpr int64_t kHeads = 8, kKvHeads = 2, kDim = 128;
constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kDim; // of q, k and v
constexpr double kEpsilon = 1e-5;
// The largest step; an engine takes these from its options and free memory.
constexpr int64_t kMostSequences = 16, kPositions = 1024, kPageTokens = 64;
constexpr int64_t kColumns = kPositions / kPageTokens; // of the page table
constexpr int64_t kPages = 1 + kMostSequences * kColumns;
constexpr int32_t kPaddingPage = 0; // no sequence has it

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Addresses of one layer. Row 2j of gateUp is of the gate, row 2j + 1 of the
/// up projection.
struct LayerMemory {
  Bf16 *inputNorm, *qkv, *output, *postNorm, *gateUp, *down;
  Bf16 *keys, *values; ///< [page][token][head][element]
};

/// Addresses in device memory. All are null where problems are only described.
struct Memory {
  Bf16 *embedding, *lastNorm, *head;
  float *angles;                                  ///< [position][kDim]
  int32_t *tokens, *positions, *lengths;          ///< [sequence]
  int32_t *pageTable;                             ///< [sequence][column]
  Bf16 *hidden, *normed, *qkv, *attended, *inner; ///< [sequence][...]
  float *logits;
  LayerMemory layers[kLayers];
};

/// Owns device memory, which is zero.
class DeviceArrays {
public:
  explicit DeviceArrays(const Gpu &gpu) : gpu(gpu) {}
  template <class T> void make(T *&address, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    address = reinterpret_cast<T *>(buffers.emplace_back(gpu, bytes).data());
  }

private:
  const Gpu &gpu;
  std::deque<Buffer<uint8_t>> buffers;
};

inline void makeLayer(DeviceArrays &arrays, LayerMemory &layer) {
  arrays.make(layer.inputNorm, kHidden);
  arrays.make(layer.qkv, kRow * kHidden);
  arrays.make(layer.output, kHidden * kHeads * kDim);
  arrays.make(layer.postNorm, kHidden);
  arrays.make(layer.gateUp, 2 * kInner * kHidden);
  arrays.make(layer.down, kHidden * kInner);
  arrays.make(layer.keys, kPages * kPageTokens * kKvHeads * kDim);
  arrays.make(layer.values, kPages * kPageTokens * kKvHeads * kDim);
}

/// All of a model's memory. A program of yours copies a checkpoint into it.
inline Memory makeMemory(const Gpu &gpu, DeviceArrays &arrays) {
  Memory memory = {};
  arrays.make(memory.embedding, kVocab * kHidden);
  arrays.make(memory.lastNorm, kHidden);
  arrays.make(memory.head, kVocab * kHidden);
  arrays.make(memory.tokens, kMostSequences);
  arrays.make(memory.positions, kMostSequences);
  arrays.make(memory.lengths, kMostSequences);
  arrays.make(memory.pageTable, kMostSequences * kColumns);
  arrays.make(memory.hidden, kMostSequences * kHidden);
  arrays.make(memory.normed, kMostSequences * kHidden);
  arrays.make(memory.qkv, kMostSequences * kRow);
  arrays.make(memory.attended, kMostSequences * kHeads * kDim);
  arrays.make(memory.inner, kMostSequences * kInner);
  arrays.make(memory.logits, kMostSequences * kVocab);
  for (LayerMemory &layer : memory.layers)
    makeLayer(arrays, layer);

  kiln::Sized<kiln_rope_table_args> rope;
  rope.rows = kPositions, rope.rotary_dim = kDim, rope.base = 500000;
  std::vector<float> angles(kPositions * kDim);
  kiln::Status(kiln_rope_table(&rope, angles.data())).orThrow();
  arrays.make(memory.angles, kPositions * kDim);
  Gpu::check(gpu.cuda.memcpyHtoD(reinterpret_cast<CudaAddress>(memory.angles),
                                 angles.data(), angles.size() * sizeof(float)));
  return memory;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// The context has died: the process has to be started again.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The step of a batch of sequences, as calls of Kiln.
class Decoder {
public:
  explicit Decoder(const Memory &memory) : memory(memory) {}

  /// The problems of all steps, with the ranges of their sizes.
  std::vector<kiln::Problem> problems() const;
  /// Enqueues a step of \p batch sequences. Throws DeviceLost, kiln::Error.
  void step(const kiln::Engine &engine, int64_t batch,
            kiln_stream stream) const;

private:
  kiln::Gather embedding(int64_t batch) const {
    kiln::Gather call(KILN_BF16, batch, kHidden, kVocab);
    return call.x(memory.embedding).y(memory.hidden).indices(memory.tokens);
  }
  kiln::RmsNorm norm(int64_t batch, const Bf16 *weight) const {
    kiln::RmsNorm call(KILN_BF16, batch, kHidden);
    call.x(memory.hidden).y(memory.normed).weight(weight).epsilon(kEpsilon);
    call.get().weight.flags = KILN_OPERAND_CONSTANT;
    return call.dependent();
  }
  /// d[m, n] = a[m, k] * weight[n, k]^T
  static kiln::Gemm product(int64_t m, int64_t n, int64_t k, const Bf16 *a,
                            const Bf16 *weight, void *d) {
    kiln::Gemm call(KILN_BF16, m, n, k);
    call.layout(KILN_LAYOUT_NT).a(a).weights(weight).d(d);
    return call.dependent();
  }
  kiln::Gemm qkv(int64_t batch, const LayerMemory &layer) const {
    return product(batch, kRow, kHidden, memory.normed, layer.qkv, memory.qkv);
  }
  kiln::Rope rope(int64_t batch, const LayerMemory &layer) const {
    Bf16 *q = memory.qkv;
    kiln::Rope call(KILN_BF16, batch, kHeads, kKvHeads, kDim);
    call.q(q, kRow).k(q + kHeads * kDim, kRow);
    call.v(q + (kHeads + kKvHeads) * kDim, kRow);
    call.table(memory.angles, kPositions).positions(memory.positions);
    call.caches(KILN_BF16, layer.keys, layer.values, kPageTokens, kPages);
    call.pageTable(memory.pageTable, kMostSequences, kColumns);
    return call.constantArrays().dependent();
  }
  kiln::Attention attention(int64_t batch, const LayerMemory &layer) const {
    kiln::Attention call(KILN_BF16, batch, 1, kPositions, kHeads, kDim);
    call.kvHeads(kKvHeads).q(memory.qkv, kRow).o(memory.attended);
    call.k(layer.keys).v(layer.values).keyLengths(memory.lengths);
    call.pages(memory.pageTable, kPageTokens, kPages, kColumns);
    return call.keysHint(kPositions / 2).cachedKeys().dependent();
  }
  kiln::Gemm output(int64_t batch, const LayerMemory &layer) const {
    return product(batch, kHidden, kHeads * kDim, memory.attended, layer.output,
                   memory.hidden)
        .c(1, memory.hidden); // the residual, in place
  }
  kiln::Gemm gateUp(int64_t batch, const LayerMemory &layer) const {
    return product(batch, 2 * kInner, kHidden, memory.normed, layer.gateUp,
                   memory.inner)
        .swiGlu();
  }
  kiln::Gemm down(int64_t batch, const LayerMemory &layer) const {
    return product(batch, kHidden, kInner, memory.inner, layer.down,
                   memory.hidden)
        .c(1, memory.hidden);
  }
  kiln::Gemm head(int64_t batch) const {
    return product(batch, kVocab, kHidden, memory.normed, memory.head,
                   memory.logits)
        .outputType(KILN_FP32);
  }
  /// The next tokens, where the embedding of the next step reads them.
  kiln::Sample sample(int64_t batch) const {
    kiln::Sample call(KILN_FP32, batch, kVocab);
    call.logits(memory.logits).advance(memory.positions, memory.lengths);
    return call.tokens(memory.tokens).dependent();
  }

  template <class Call>
  static void run(const kiln::Engine &engine, const Call &call,
                  kiln_stream stream);

  Memory memory;
};

inline std::vector<kiln::Problem> Decoder::problems() const {
  const LayerMemory &layer = memory.layers[0]; // all layers have its problems
  constexpr int64_t most = kMostSequences;
  auto ranged = [](kiln::Problem problem, const char *extent) {
    return problem.range(extent, 1, most);
  };
  return {
      ranged(embedding(most), "rows"),
      ranged(norm(most, layer.inputNorm), "rows"),
      ranged(qkv(most, layer), "m"),
      ranged(rope(most, layer), "tokens"),
      ranged(attention(most, layer), "batch").range("sk", 1, kPositions),
      ranged(output(most, layer), "m"),
      ranged(gateUp(most, layer), "m"),
      ranged(down(most, layer), "m"),
      ranged(head(most), "m"),
      ranged(sample(most), "rows"),
  };
}

template <class Call>
void Decoder::run(const kiln::Engine &engine, const Call &call,
                  kiln_stream stream) {
  const kiln::Status status = engine.run(call, stream);
  if (status.code() == KILN_CONTEXT_DEAD)
    throw DeviceLost(status.message());
  status.orThrow();
}

inline void Decoder::step(const kiln::Engine &engine, int64_t batch,
                          kiln_stream stream) const {
  auto run = [&](const auto &call) { Decoder::run(engine, call, stream); };
  run(embedding(batch));
  for (const LayerMemory &layer : memory.layers) {
    const kiln::ProfileRange range(engine, KILN_PROFILE_LAYER, "layer");
    run(norm(batch, layer.inputNorm));
    run(qkv(batch, layer));
    run(rope(batch, layer));
    run(attention(batch, layer));
    run(output(batch, layer));
    run(norm(batch, layer.postNorm));
    run(gateUp(batch, layer));
    run(down(batch, layer));
  }
  run(norm(batch, memory.lastNorm));
  run(head(batch));
  run(sample(batch));
}

#endif // KILN_EXAMPLES_DECODER_H
