//===- ExchangeMemory.cpp -------------------------------------------------===//
#include "ExchangeMemory.h"

#include "Error.h"

#include <kiln/kiln.h>

#include <algorithm>
#include <cstring>

namespace llama {

/// The driver shares pages of this size, which then have nothing else.
static constexpr uint64_t kPage = uint64_t(2) << 20;

uint64_t exchangeBytes(const ModelConfig &model, const StepRoom &room,
                       int64_t ranks) {
  constexpr uint64_t kMost = uint64_t(256) << 20;
  constexpr int64_t kBf16 = 2, kFp32 = 4;
  const auto count = static_cast<int32_t>(ranks);
  const uint64_t hidden = kiln_allreduce_exchange_bytes(
      count, room.tokens, model.hiddenSize * kBf16);
  const uint64_t logits = kiln_allreduce_exchange_bytes(
      count, room.sequences, model.vocabSize * kFp32);
  const uint64_t bytes = std::min(std::max(hidden, logits), kMost);
  return (bytes + kPage - 1) / kPage * kPage;
}

ExchangeMemory::ExchangeMemory(const Gpu &gpu, int64_t rank, uint64_t bytes)
    : gpu(gpu), ownRank(rank), own(gpu, bytes, MemoryUse::Activations),
      word(gpu, sizeof(uint32_t)) {
  *word.at<uint32_t>() = 0;
  own.zero();
  gpu.synchronize();
}

/// The message of an error of \p work; empty without one.
template <class Work> static std::string errorOf(const Work &work) {
  try {
    work();
  } catch (const DeviceLost &) {
    throw;
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

std::unique_ptr<ExchangeMemory> ExchangeMemory::share(const Gpu &gpu,
                                                      Ranks &ranks,
                                                      uint64_t bytes,
                                                      std::string &reason) {
  std::unique_ptr<ExchangeMemory> made(
      new ExchangeMemory(gpu, ranks.rank(), bytes));
  MemoryName name{};
  std::string failed = errorOf([&] { name = made->own.name(); });
  const std::string names = ranks.exchange({name.bytes, sizeof(name.bytes)});
  if (failed.empty())
    failed = errorOf([&] { made->map(ranks, names); });
  if (!failed.empty())
    failed = "rank " + std::to_string(ranks.rank()) + ": " + failed + "\n";
  // Nothing is written before all ranks are here.
  const std::string failures = ranks.exchange(failed);
  reason = failures.substr(0, failures.find('\n'));
  if (!reason.empty()) {
    made->unmap();
    ranks.barrier();
    made.reset();
  }
  return made;
}

/// Maps the memory of each other rank.
void ExchangeMemory::map(const Ranks &ranks, const std::string &names) {
  for (int64_t rank = 0; rank < ranks.count(); ++rank) {
    if (rank == ownRank) {
      all.push_back(own.at<void>());
      continue;
    }
    const int64_t device = ranks.devices()[static_cast<size_t>(rank)];
    if (!gpu.reaches(device))
      throw Error("there is no peer access to GPU " + std::to_string(device));
    MemoryName name;
    std::memcpy(name.bytes, names.data() + size_t(rank) * sizeof(name.bytes),
                sizeof(name.bytes));
    peers.push_back(std::make_unique<PeerMemory>(gpu, name));
    all.push_back(reinterpret_cast<void *>(peers.back()->address()));
  }
}

void ExchangeMemory::enqueueCheck() const {
  copyToHost(gpu, word.at<uint32_t>(), own.address(), sizeof(uint32_t));
}

std::string ExchangeMemory::failure() const {
  const uint32_t missing = *word.at<volatile uint32_t>();
  if (missing == 0)
    return "";
  return "rank " + std::to_string(missing - 1) +
         " did not come to a sum over the GPUs within 2 seconds";
}

} // namespace llama
