//===- Cluster.cpp - threads, and where they wait -------------------------===//
#include "Emulator/Cluster.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace kiln::emulated {

/// The cluster that runs: functions that a kernel calls have no other way to
/// it.
static Cluster *running = nullptr;

/// The functions of Machine.
struct MachineCalls {
  static void *sharedAt(unsigned address, unsigned bytes) {
    return running->sharedAt(address, bytes);
  }
  static void misaligned(const void *address, unsigned bytes) {
    running->fail(
        fmt::format("address {} is not aligned to {} bytes", address, bytes));
  }
  static void meet(unsigned mask, void *mine, Together run) {
    running->meet(mask, mine, run);
  }
  static void barrier(int id, int threads, bool waits) {
    running->barrier(id, threads, waits);
  }
  static void poll() { running->poll(); }
  static unsigned long long globalTimer() {
    constexpr unsigned long long kNsOfPoll = 1000000;
    return (running->current->polls + 1) * kNsOfPoll;
  }
  static void mbarrierInit(unsigned address, unsigned count);
  static void mbarrierArrive(unsigned address, unsigned bytes) {
    running->mbarrierArrive(running->blockOf(address), address & 0xffffff,
                            /*arrivals=*/1, static_cast<int>(bytes));
  }
  static void mbarrierComplete(unsigned address, unsigned bytes) {
    running->mbarrierArrive(running->blockOf(address), address & 0xffffff,
                            /*arrivals=*/0, -static_cast<int>(bytes));
  }
  static bool mbarrierTryWait(unsigned address, unsigned parity) {
    return running->mbarrierTryWait(address, parity);
  }
  static void clusterArrive() { running->clusterArrive(); }
  static void clusterWait() {
    if (running->clusterPhase == running->current->clusterPhase)
      running->wait(Wait::Cluster, 0);
  }
  static void awaitPredecessor() { running->awaitPredecessor(); }
  static void copy(unsigned shared, const void *global, int bytes,
                   int sourceBytes) {
    running->current->copies.open.push_back(
        {shared, global, bytes, sourceBytes});
  }
  static void commitCopies() { running->current->copies.close(); }
  static void waitForCopies(int pending) {
    running->current->copies.wait(
        pending, [](const GlobalCopy &copy) { running->finish(copy); });
  }
  static void load(unsigned shared, const void *map, unsigned mbarrier,
                   const int *at, int rank, unsigned clusterMask) {
    running->loads.push_back(
        {boxOf(shared, map, mbarrier, at, rank, clusterMask),
         running->current->block});
  }
  static void bulkLoad(unsigned shared, const void *global, unsigned bytes,
                       unsigned mbarrier) {
    BoxMove move = {};
    move.shared = shared;
    move.mbarrier = mbarrier;
    move.global = global;
    move.bytes = bytes;
    running->loads.push_back({move, running->current->block});
  }
  static void store(const void *map, unsigned shared, const int *at, int rank) {
    running->current->stores.open.push_back(boxOf(shared, map, 0, at, rank, 0));
  }
  static void commitStores() { running->current->stores.close(); }
  static void waitForStores(int pending) {
    running->current->stores.wait(
        pending, [](const BoxMove &move) { running->finish(move); });
  }
  static void multiply(const Product &product) { running->multiply(product); }
  static void commitProducts() { running->commitProducts(); }
  static void waitForProducts(int pending) {
    running->waitForProducts(pending);
  }

private:
  static BoxMove boxOf(unsigned shared, const void *map, unsigned mbarrier,
                       const int *at, int rank, unsigned clusterMask) {
    BoxMove move{{}, shared, mbarrier, clusterMask, {}};
    std::memcpy(&move.map, map, sizeof(move.map));
    if (move.map.rank != rank)
      running->fail(fmt::format("{} coordinates for a tensor map of rank {}",
                                rank, move.map.rank));
    std::copy_n(at, std::min(rank, 5), move.at);
    return move;
  }
};

Cluster::Cluster(const KilnFakeLaunch &launch,
                 const std::vector<KernelImage> &images, Dim first, Dim extent,
                 unsigned seed, unsigned char unwritten,
                 Predecessor *predecessor)
    : machine{nullptr,
              MachineCalls::sharedAt,
              MachineCalls::misaligned,
              MachineCalls::meet,
              MachineCalls::barrier,
              MachineCalls::poll,
              MachineCalls::globalTimer,
              MachineCalls::mbarrierInit,
              MachineCalls::mbarrierArrive,
              MachineCalls::mbarrierComplete,
              MachineCalls::mbarrierTryWait,
              MachineCalls::clusterArrive,
              MachineCalls::clusterWait,
              MachineCalls::awaitPredecessor,
              MachineCalls::copy,
              MachineCalls::commitCopies,
              MachineCalls::waitForCopies,
              MachineCalls::load,
              MachineCalls::bulkLoad,
              MachineCalls::store,
              MachineCalls::commitStores,
              MachineCalls::waitForStores,
              MachineCalls::multiply,
              MachineCalls::commitProducts,
              MachineCalls::waitForProducts},
      random(seed), params(launch.params), predecessor(predecessor),
      isDependent(predecessor != nullptr), blocks(images.size()) {
  const Dim shape{launch.block[0], launch.block[1], launch.block[2]};
  const unsigned count = shape.x * shape.y * shape.z;
  for (unsigned rank = 0; rank < images.size(); ++rank) {
    Block &block = blocks[rank];
    block.image = images[rank];
    block.sharedBytes = launch.sharedBytes;
    block.meetings.resize((count + kWarp - 1) / kWarp);
    block.warpgroups.resize((count + kWarpgroup - 1) / kWarpgroup);
    block.running = static_cast<int>(count);
    std::memset(block.image.shared, unwritten, launch.sharedBytes);
    *block.image.machine = &machine;
    for (unsigned i = 0; i < count; ++i) {
      auto &thread = *block.threads.emplace_back(new BlockThread);
      thread.block = &block;
      thread.thread = {
          {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y},
          {first.x + rank % extent.x, first.y + rank / extent.x % extent.y,
           first.z + rank / extent.x / extent.y},
          shape,
          {launch.grid[0], launch.grid[1], launch.grid[2]},
          block.image.shared,
          rank,
          i};
      thread.fiber.start(runThread);
      enqueue(thread);
    }
  }
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void Cluster::enqueue(BlockThread &thread) {
  if (!thread.isQueued)
    queue.push_back(&thread);
  thread.isQueued = true;
  thread.wait = Wait::None;
}

void Cluster::wait(Wait what, unsigned which) {
  current->wait = what;
  current->waitsFor = which;
  current->fiber.suspend();
}

void Cluster::wake(Block &block, Wait what, unsigned which) {
  for (auto &thread : block.threads)
    if (thread->wait == what && thread->waitsFor == which)
      enqueue(*thread);
}

void Cluster::fail(std::string text) {
  if (fault.empty())
    fault = std::move(text);
  if (!current)
    return;
  const Dim at = current->thread.blockIdx;
  fault += fmt::format(" (thread {} of block {}, {}, {})",
                       current->thread.index, at.x, at.y, at.z);
  current->fiber.suspend(); // for ever
}

void Cluster::runThread() {
  running->current->block->image.entry(running->params);
  running->endThread();
}

void Cluster::endThread() {
  current->copies.close();
  MachineCalls::waitForCopies(0);
  current->stores.close();
  MachineCalls::waitForStores(0);
  Block &block = *current->block;
  current->hasEnded = true;
  --block.running;
  if (block.arrived[0] && block.allMeet && block.arrived[0] == block.running) {
    block.arrived[0] = 0;
    wake(block, Wait::Barrier, 0);
  }
  current->fiber.suspend();
}

void Cluster::giveTurn(BlockThread &thread) {
  thread.isQueued = false;
  current = &thread;
  machine.thread = &thread.thread;
  thread.fiber.resume();
  current = nullptr;
}

std::string Cluster::run() {
  // Threads take turns in order, now and then in another one.
  constexpr unsigned kTurnsInOrder = 64, kTurnsBetweenLoads = 512;
  running = this;
  if (predecessor)
    predecessor->begin();
  while (fault.empty()) {
    const bool loadNow = queue.empty() || random() % kTurnsBetweenLoads == 0;
    if (loadNow && !loads.empty()) {
      deliverOne();
    } else if (!queue.empty()) {
      const size_t i =
          random() % kTurnsInOrder == 0 ? random() % queue.size() : 0;
      BlockThread *next = queue[i];
      queue.erase(queue.begin() + static_cast<ptrdiff_t>(i));
      giveTurn(*next);
    } else if (predecessor) {
      endPredecessor();
    } else {
      break;
    }
  }
  running = nullptr;
  if (fault.empty())
    fault = describeDeadlock();
  if (fault.empty() && isDependent)
    checkWaits();
  return fault;
}

//===----------------------------------------------------------------------===//
// The grid ahead
//===----------------------------------------------------------------------===//

void Predecessor::flip() {
  for (const SharedMemoryOfGrids &part : memory)
    for (size_t i = 0; i < part.bytes; ++i)
      part.data[i] ^= 0x5a;
}

void Predecessor::begin() {
  flip();
  seen.clear();
  for (const SharedMemoryOfGrids &part : memory)
    seen.emplace_back(part.data, part.data + part.bytes);
}

bool Predecessor::end() {
  bool isSame = true;
  for (size_t i = 0; i < memory.size(); ++i)
    isSame &= std::equal(seen[i].begin(), seen[i].end(), memory[i].data);
  flip();
  return isSame;
}

void Cluster::awaitPredecessor() {
  current->hasAwaited = true;
  if (predecessor)
    wait(Wait::Predecessor, 0);
}

/// All that can be has been done before: copies that were issued as well.
void Cluster::endPredecessor() {
  for (Block &block : blocks)
    for (auto &thread : block.threads) {
      current = thread.get();
      current->copies.wait(0, [&](const GlobalCopy &copy) { finish(copy); });
      for (const GlobalCopy &copy : std::exchange(current->copies.open, {}))
        finish(copy);
      current->stores.wait(0, [&](const BoxMove &store) { finish(store); });
      for (const BoxMove &store : std::exchange(current->stores.open, {}))
        finish(store);
      current = nullptr;
    }
  if (!std::exchange(predecessor, nullptr)->end())
    return fail("memory was written before the grid ahead had ended");
  for (Block &block : blocks)
    wake(block, Wait::Predecessor, 0);
}

/// A block that ends without a wait does not tell the grid behind it that the
/// grid ahead has ended.
void Cluster::checkWaits() {
  for (const Block &block : blocks)
    if (std::none_of(block.threads.begin(), block.threads.end(),
                     [](const auto &thread) { return thread->hasAwaited; }))
      fault = "a block ended and never waited for the grid ahead";
}

std::string Cluster::describeDeadlock() const {
  static constexpr const char *kNames[] = {
      "nothing",  "lanes",       "its warpgroup", "barrier",
      "mbarrier", "the cluster", "the grid ahead"};
  std::map<std::string, int> counts;
  for (const Block &block : blocks)
    for (const auto &thread : block.threads)
      if (!thread->hasEnded)
        ++counts[fmt::format("warp {} for {} {}", thread->thread.index / kWarp,
                             kNames[static_cast<int>(thread->wait)],
                             thread->waitsFor)];
  std::string text;
  for (const auto &[what, count] : counts)
    text += fmt::format("{} {} threads of {}",
                        text.empty() ? "everybody waits:" : ",", count, what);
  return text;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Block &Cluster::blockOf(unsigned address) {
  const unsigned rank = address >> 24;
  // Beyond is static shared memory, anywhere in the kernel's library.
  if (rank == 0 || rank > 16)
    return *current->block;
  if (rank <= blocks.size())
    return blocks[rank - 1];
  fail(fmt::format("there is no block {} in the cluster", rank - 1));
  return blocks[0];
}

unsigned char *Cluster::bytesAt(Block &block, unsigned offset, unsigned bytes) {
  const unsigned at = offset - kSharedBase;
  if (offset % std::min(bytes, 16u) != 0)
    fail(fmt::format("shared address {:#x} of {} bytes is not aligned", offset,
                     bytes));
  else if (offset < kSharedBase + kSharedBytes &&
           (offset < kSharedBase || at + bytes > block.sharedBytes))
    fail(fmt::format("shared address {:#x} is beyond {} bytes", offset,
                     block.sharedBytes));
  else
    return block.image.shared + static_cast<int>(at);
  return block.image.shared;
}

unsigned char *Cluster::sharedAt(unsigned address, unsigned bytes) {
  Block &block = blockOf(address);
  const bool isMapped = address >> 24 && address >> 24 <= 16;
  return bytesAt(block, isMapped ? address & 0xffffff : address, bytes);
}

//===----------------------------------------------------------------------===//
// Warps and barriers
//===----------------------------------------------------------------------===//

void Cluster::meet(unsigned mask, void *mine, Together run) {
  Block &block = *current->block;
  const unsigned lane = current->thread.lane();
  const unsigned warp = current->thread.index / kWarp;
  // The last warp may be a part of one.
  const size_t lanes = block.threads.size() - warp * kWarp;
  if (lanes < kWarp)
    mask &= (1u << lanes) - 1;
  if (!(mask >> lane & 1))
    fail(fmt::format("lane {} is not in the mask {:#x}", lane, mask));
  Meeting &meeting = block.meetings[warp][__builtin_ctz(mask)];
  if (meeting.present && meeting.mask != mask)
    fail(fmt::format("lanes meet with masks {:#x} and {:#x}", meeting.mask,
                     mask));
  meeting.mask = mask;
  meeting.brought[lane] = mine;
  meeting.present |= 1u << lane;
  if (meeting.present != mask)
    return wait(Wait::Warp, mask);
  meeting.present = 0;
  run(meeting.brought.data(), mask);
  for (unsigned i = 0; i < kWarp; ++i)
    if (mask >> i & 1 && i != lane)
      enqueue(*block.threads[warp * kWarp + i]);
}

void Cluster::barrier(int id, int threads, bool waits) {
  Block &block = *current->block;
  if (id < 0 || id > 15 || threads % kWarp != 0)
    fail(fmt::format("barrier {} of {} threads", id, threads));
  int &arrived = block.arrived[static_cast<size_t>(id)];
  if (id == 0)
    block.allMeet = threads == 0;
  if (++arrived == (threads ? threads : block.running)) {
    arrived = 0;
    wake(block, Wait::Barrier, static_cast<unsigned>(id));
  } else if (waits) {
    wait(Wait::Barrier, static_cast<unsigned>(id));
  }
}

void Cluster::poll() {
  // Far more than a thread reads that waits for nothing.
  constexpr unsigned kMostPolls = 1 << 20;
  if (++current->polls > kMostPolls)
    fail("a thread waits for global memory that another block is to write");
  // Another block may have its turn meanwhile.
  if (blocks.size() > 1) {
    enqueue(*current);
    current->fiber.suspend();
  }
}

namespace {
/// The contents of the eight bytes of an mbarrier.
struct Mbarrier {
  int32_t bytes;    ///< that are to come in this phase
  int16_t arrivals; ///< likewise
  uint16_t count : 15, parity : 1;
};
static_assert(sizeof(Mbarrier) == 8);
} // namespace

void MachineCalls::mbarrierInit(unsigned address, unsigned count) {
  Mbarrier barrier{0, static_cast<int16_t>(count), 0, 0};
  barrier.count = count & 0x7fff;
  std::memcpy(running->sharedAt(address, sizeof(barrier)), &barrier,
              sizeof(barrier));
}

void Cluster::mbarrierArrive(Block &block, unsigned offset, int arrivals,
                             int bytes) {
  auto &barrier =
      *reinterpret_cast<Mbarrier *>(bytesAt(block, offset, sizeof(Mbarrier)));
  barrier.bytes += bytes;
  barrier.arrivals = static_cast<int16_t>(barrier.arrivals - arrivals);
  if (barrier.arrivals < 0)
    fail(fmt::format("more than {} arrivals at mbarrier {:#x}",
                     uint32_t(barrier.count), offset));
  if (barrier.arrivals != 0 || barrier.bytes != 0)
    return;
  barrier.arrivals = static_cast<int16_t>(barrier.count);
  barrier.parity ^= 1;
  wake(block, Wait::Mbarrier, offset);
}

bool Cluster::mbarrierTryWait(unsigned address, unsigned parity) {
  auto &barrier =
      *reinterpret_cast<Mbarrier *>(sharedAt(address, sizeof(Mbarrier)));
  if (barrier.parity == parity)
    wait(Wait::Mbarrier, address);
  return barrier.parity != parity;
}

void Cluster::clusterArrive() {
  current->clusterPhase = clusterPhase;
  size_t threads = 0;
  for (const Block &block : blocks)
    threads += block.threads.size();
  if (++arrivedInCluster < static_cast<int>(threads))
    return;
  arrivedInCluster = 0;
  ++clusterPhase;
  for (Block &block : blocks)
    wake(block, Wait::Cluster, 0);
}

} // namespace kiln::emulated
