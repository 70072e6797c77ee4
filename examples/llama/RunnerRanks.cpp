//===- RunnerRanks.cpp - a runner among the ranks of a model --------------===//
#include "Error.h"
#include "Runner.h"
#include "StepMessage.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace llama {

/// Throws Error at rank 0, which ends all, unless all ranks launch equal
/// kernels.
void Runner::requireAgreement() {
  const std::string digest = serving->plansDigest(gpu.stream()).orThrow();
  const std::vector<std::string> all = chosen.ranks->gather(digest);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != digest)
      throw Error("rank " + std::to_string(rank) +
                  " chose other kernels than rank 0 (digests " + all[rank] +
                  " and " + digest +
                  "): the ranks need GPUs of one model and settings, and one "
                  "cache");
  chosen.ranks->barrier();
}

/// Shares memory for sums by Kiln, where that is wanted and possible.
void Runner::shareMemory() {
  if (isAlone() || chosen.ranks->asksForNccl())
    return;
  if (shard.count > KILN_ALLREDUCE_MOST_RANKS)
    throw Error("--tp is " + std::to_string(shard.count) + ", and Kiln sums " +
                std::to_string(KILN_ALLREDUCE_MOST_RANKS) +
                " ranks at most: choose --allreduce nccl");
  std::string reason;
  exchange = ExchangeMemory::share(
      gpu, *chosen.ranks, exchangeBytes(own, inputs.room(), shard.count),
      reason);
  if (!exchange && shard.isFirst())
    std::fprintf(stderr, "sums over the ranks are NCCL's: %s\n",
                 reason.c_str());
}

std::string Runner::allReduce() const {
  return exchange ? "kiln" : others ? "nccl" : "";
}

/// Connects the GPUs of all ranks.
void Runner::connect() {
  if (!exchange)
    connectByNccl();
  chosen.ranks->watch(
      [this] { return exchange ? exchange->failure() : others->failure(); });
  watched.reset(chosen.ranks);
}

void Runner::connectByNccl() {
  Ranks &ranks = *chosen.ranks;
  others = std::make_unique<Communicator>(gpu, ranks.ncclPath());
  others->connect(ranks.broadcast(shard.isFirst() ? others->makeId() : ""),
                  shard.rank, shard.count);
  transformer->connect(*others);
  // The first collectives make connections and take memory.
  const auto allBytes = sizeof(float) * static_cast<uint64_t>(shard.count);
  const DeviceMemory scratch(gpu, allBytes + sizeof(float), MemoryUse::Scratch);
  scratch.zero();
  const DeviceAddress own = scratch.address() + allBytes;
  others->sum(own, 1);
  others->gather(own, scratch.address(), 1);
  gpu.synchronize();
}

bool Runner::follow() {
  if (isAlone() || shard.isFirst())
    return false;
  for (;;) {
    const std::string bytes = chosen.ranks->broadcast("");
    if (bytes.empty())
      break;
    const ReceivedStep received(bytes);
    if (received.isProbe())
      probe(received.step());
    else
      run(received.step());
  }
  chosen.ranks->expectEnds();
  return true;
}

void Runner::requireRanks() const {
  if (const std::string why = exchange ? exchange->failure() : ""; !why.empty())
    throw Error(why + ": all ranks end");
}

} // namespace llama
