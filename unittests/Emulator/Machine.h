//===- Machine.h - the functions that an emulated kernel calls ------------===//
//
// Included by the emulator and by the text of every kernel that it builds. A
// shared address is an offset in the block's dynamic shared memory, plus
// kSharedBase; in the highest byte it has the rank of another block of the
// cluster plus 1, or 0.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln::emulated {

/// No address is 0, as on a GPU, and each is aligned as its offset is.
constexpr unsigned kSharedBase = 1024;
constexpr unsigned kSharedBytes = 256 << 10; ///< more than any block has
constexpr int kWarp = 32, kWarpgroup = 128;

struct Dim {
  unsigned x, y, z;
};

/// The running thread, as a kernel knows it.
struct Thread {
  Dim threadIdx, blockIdx, blockDim, gridDim;
  unsigned char *shared; ///< dynamic shared memory of its block
  unsigned clusterRank;
  unsigned index; ///< in its block

  unsigned lane() const { return index % kWarp; }
};

/// The operands of one wgmma as a thread of the warpgroup gives them.
struct Product {
  void *sums;        ///< float, of int8 int32
  const unsigned *a; ///< null: descriptorA says where it is
  unsigned long long descriptorA, descriptorB;
  int width, typeA, typeB, accumulate, transA, transB;
};

/// One lane's part of a meeting of its warp; the last lane that comes runs it
/// for all. Lanes outside of \p mask have no part.
using Together = void (*)(void *const *lanes, unsigned mask);

struct Machine {
  Thread *thread;
  void *(*sharedAt)(unsigned address, unsigned bytes);
  void (*misaligned)(const void *address, unsigned bytes);
  void (*meet)(unsigned mask, void *mine, Together run);
  void (*barrier)(int id, int threads, bool waits); ///< threads 0: all
  void (*poll)(); ///< before a read of memory that another block may have to
                  ///< write
  unsigned long long (*globalTimer)(); ///< a millisecond for each poll of the
                                       ///< thread
  void (*mbarrierInit)(unsigned address, unsigned count);
  void (*mbarrierArrive)(unsigned address, unsigned expectedBytes);
  void (*mbarrierComplete)(unsigned address, unsigned bytes);
  bool (*mbarrierTryWait)(unsigned address, unsigned parity);
  void (*clusterArrive)();
  void (*clusterWait)();
  void (*awaitPredecessor)(); ///< the grid ahead, where the launch depends
  void (*copy)(unsigned shared, const void *global, int bytes, int sourceBytes);
  void (*commitCopies)();
  void (*waitForCopies)(int pending);
  void (*load)(unsigned shared, const void *map, unsigned mbarrier,
               const int *at, int rank, unsigned clusterMask);
  void (*bulkLoad)(unsigned shared, const void *global, unsigned bytes,
                   unsigned mbarrier);
  void (*store)(const void *map, unsigned shared, const int *at, int rank);
  void (*commitStores)();
  void (*waitForStores)(int pending);
  void (*multiply)(const Product &product);
  void (*commitProducts)();
  void (*waitForProducts)(int pending);
};

} // namespace kiln::emulated
