//===- Cluster.h - the blocks of a cluster that run together --------------===//
//
// Threads are fibers that take turns where they wait. Asynchronous work happens
// as late as it may: a copy or a product where its thread waits for it, a bulk
// load when all threads wait, or now and then. So data that is read too early
// is old, and memory that is given back too early is overwritten.
//
// Clusters run one after the other. The blocks of a cooperative grid run
// together, as if they were a cluster; where it has clusters as well, a kernel
// fails here if its blocks wait for blocks of later ones. Every second launch
// of a function begins with the last cluster and with other bytes in shared
// memory. So results that depend on the order of blocks that store to one
// place, or on unwritten memory, differ from launch to launch, and trials show
// it.
//
// The emulation does not see two threads that are in a race though each waits
// for something, missing fences, global addresses that are not aligned or
// beyond an allocation (but red zones tell of writes there), static shared
// memory that is read before it is written, and plain C++ accesses to shared
// memory, which nothing checks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Emulator/Fiber.h"
#include "Emulator/Machine.h"
#include "Fakes/FakeCuda.h"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kiln::emulated {

/// Where the code and the shared memory of one block are.
struct KernelImage {
  void (*entry)(const void *params) = nullptr;
  unsigned char *shared = nullptr;
  Machine **machine = nullptr; ///< for the kernel's calls
};

/// A box between global memory and a block's shared memory; or, where \p bytes
/// is not 0, so many bytes from \p global.
struct BoxMove {
  KilnFakeTensorMap map;
  unsigned shared, mbarrier, clusterMask;
  int at[5];
  const void *global = nullptr;
  unsigned bytes = 0;
};

struct GlobalCopy {
  unsigned shared;
  const void *global;
  int bytes, sourceBytes;
};

/// Work that was issued and not waited for: an open group, and closed ones.
template <class T> struct Groups {
  std::vector<T> open;
  std::deque<std::vector<T>> closed;

  void close() {
    closed.push_back(std::move(open));
    open.clear();
  }
  /// Hands all groups but the last \p pending to \p finish, one by one.
  template <class Finish> void wait(int pending, const Finish &finish) {
    while (closed.size() > size_t(pending)) {
      for (const T &one : closed.front())
        finish(one);
      closed.pop_front();
    }
  }
};

struct Block;

enum class Wait {
  None,
  Warp,
  Warpgroup,
  Barrier,
  Mbarrier,
  Cluster,
  Predecessor
};

/// Memory that the grid ahead of a dependent launch may still read or write.
struct SharedMemoryOfGrids {
  unsigned char *data = nullptr;
  size_t bytes = 0;
};

/// The grid ahead of a dependent launch. It ends when all threads of a cluster
/// that can go on have waited for it, which is as late as it may. Until then
/// the memory that it shares with the launch has other content, so that a value
/// that is read too early is wrong; and no thread may have written there.
class Predecessor {
public:
  explicit Predecessor(std::vector<SharedMemoryOfGrids> memory)
      : memory(std::move(memory)) {}

  /// Begins, for one cluster.
  void begin();
  /// Ends. False if something was written meanwhile.
  bool end();

private:
  void flip();

  std::vector<SharedMemoryOfGrids> memory;
  std::vector<std::vector<unsigned char>> seen; ///< at the beginning
};

struct BlockThread {
  Thread thread = {};
  Block *block = nullptr;
  Fiber fiber;
  bool isQueued = false, hasEnded = false, hasAwaited = false;
  unsigned polls = 0; ///< of global memory
  Wait wait = Wait::None;
  unsigned waitsFor = 0; ///< number of a barrier, address of an mbarrier
  uint64_t clusterPhase = 0;
  Groups<GlobalCopy> copies;
  Groups<BoxMove> stores;
};

/// Lanes of a warp that meet.
struct Meeting {
  unsigned mask = 0, present = 0;
  std::array<void *, kWarp> brought = {};
};

/// One wgmma of all threads of a warpgroup.
struct GroupProduct {
  Product shape;
  std::array<void *, kWarpgroup> sums;
  std::array<const unsigned *, kWarpgroup> a;
};

struct Warpgroup {
  int present = 0;
  GroupProduct product;
  Groups<GroupProduct> products;
};

struct Block {
  KernelImage image;
  unsigned sharedBytes = 0;
  std::vector<std::unique_ptr<BlockThread>> threads;
  /// Meetings of each warp by the lowest lane of a mask: halves may meet apart.
  std::vector<std::array<Meeting, kWarp>> meetings;
  std::vector<Warpgroup> warpgroups;
  std::array<int, 16> arrived = {}; ///< at each barrier
  bool allMeet = false;             ///< at barrier 0: all that have not ended
  int running = 0;
};

/// Runs one cluster of a launch. One at a time in a process.
class Cluster {
public:
  /// \p images: the images of its blocks in the order of their ranks. \p first:
  /// its least block, \p extent: how many it has. \p seed: a number that
  /// decides the order in which threads take turns. \p unwritten: the first
  /// contents of shared memory. \p predecessor: the grid that the launch
  /// depends on; null: none.
  Cluster(const KilnFakeLaunch &launch, const std::vector<KernelImage> &images,
          Dim first, Dim extent, unsigned seed, unsigned char unwritten,
          Predecessor *predecessor);

  /// Returns the fault of a kernel; "" if it ended well.
  std::string run();

private:
  friend struct MachineCalls;

  void enqueue(BlockThread &thread);
  /// Ends the turn of the running thread, until it is woken.
  void wait(Wait what, unsigned which);
  /// Wakes the threads of \p block that wait for \p which of \p what.
  void wake(Block &block, Wait what, unsigned which);
  /// Ends the kernel with an error. Returns only where no thread is running.
  void fail(std::string text);
  std::string describeDeadlock() const;
  static void runThread();
  void endThread();
  void giveTurn(BlockThread &thread);

  Block &blockOf(unsigned address);
  unsigned char *bytesAt(Block &block, unsigned offset, unsigned bytes);
  unsigned char *sharedAt(unsigned address, unsigned bytes);

  void meet(unsigned mask, void *mine, Together run);
  void barrier(int id, int threads, bool waits);
  void poll();
  void mbarrierArrive(Block &block, unsigned offset, int arrivals, int bytes);
  bool mbarrierTryWait(unsigned address, unsigned parity);
  void clusterArrive();
  void awaitPredecessor();
  void endPredecessor();
  void checkWaits();

  void finish(const GlobalCopy &copy);
  void load(const BoxMove &move, Block &block);
  void loadBytes(const BoxMove &move, Block &block);
  void finish(const BoxMove &store);
  void deliverOne();
  template <class Last> void meetInWarpgroup(const Last &last);
  void multiply(const Product &product);
  void commitProducts();
  void waitForProducts(int pending);
  void finish(const GroupProduct &product);

  Machine machine;
  std::mt19937 random;
  const void *params;
  Predecessor *predecessor; ///< null: none, or it has ended
  bool isDependent;
  std::vector<Block> blocks;
  std::deque<BlockThread *> queue; ///< that can go on
  struct Pending {
    BoxMove move;
    Block *issuer;
  };
  std::deque<Pending> loads; ///< not delivered
  int arrivedInCluster = 0;
  uint64_t clusterPhase = 0;
  BlockThread *current = nullptr;
  std::string fault;
};

} // namespace kiln::emulated
