// A stand-in for NCCL, with the functions that examples/llama opens. It moves
// no data: it checks that the ranks, which are processes, enqueue the same
// collectives in the same order. A collective returns when all ranks are in it,
// so a rank that stays away stops the others, as it does on GPUs. The rank that
// KILN_FAKE_NCCL_KILLS names is killed where it would end its connection.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {

// Values of ncclResult_t.
enum : int { kSuccess = 0, kSystemError = 2, kInvalidArgument = 4 };
constexpr int kMostRanks = 8;
constexpr int kVersion = 22703; // of 2.27.3

struct UniqueId {
  char bytes[128];
};

/// The collectives that a rank enqueued last: it is one ahead of the others at
/// most.
struct alignas(64) Place {
  std::atomic<uint64_t> entered{0};    ///< how many collectives
  std::atomic<uint64_t> enqueued[2]{}; ///< describes the n-th at n % 2
};
/// The memory that the ranks share. Zero when it is new.
struct Shared {
  std::atomic<int> joined{0};
  Place places[kMostRanks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct Communicator {
  Shared *shared = nullptr;
  int rank = 0, count = 0;
  uint64_t entered = 0;
};

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

/// Enters a collective that \p what describes, and waits for the others.
int meet(Communicator &own, uint64_t what) {
  Place &place = own.shared->places[own.rank];
  const uint64_t turn = ++own.entered % 2;
  place.enqueued[turn] = what;
  place.entered = own.entered;
  for (int rank = 0; rank < own.count; ++rank) {
    const Place &other = own.shared->places[rank];
    while (other.entered < own.entered)
      rest();
    if (other.enqueued[turn] != what) {
      std::fprintf(stderr,
                   "stand-in for NCCL: collective %llu of rank %d and of rank "
                   "%d differ\n",
                   static_cast<unsigned long long>(own.entered), own.rank,
                   rank);
      return kInvalidArgument;
    }
  }
  return kSuccess;
}

uint64_t describe(int kind, uint64_t count, int type) {
  return count << 8 | static_cast<uint64_t>(kind) << 4 |
         static_cast<uint64_t>(type);
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

int ncclGetVersion(int *version) {
  *version = kVersion;
  return kSuccess;
}

const char *ncclGetErrorString(int result) {
  return result == kSuccess           ? "no error"
         : result == kInvalidArgument ? "invalid argument"
                                      : "system error";
}

int ncclGetUniqueId(UniqueId *id) {
  static std::atomic<int> made{0};
  std::memset(id->bytes, 0, sizeof(id->bytes));
  std::snprintf(id->bytes, sizeof(id->bytes), "/kiln-fake-nccl-%d-%d",
                static_cast<int>(getpid()), made++);
  return kSuccess;
}

int ncclCommInitRank(void **made, int count, UniqueId id, int rank) {
  if (count > kMostRanks || rank < 0 || rank >= count)
    return kInvalidArgument;
  const int file = shm_open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0)
    return kSystemError;
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return kSystemError;
  auto *own = new Communicator;
  own->shared = static_cast<Shared *>(memory);
  own->rank = rank;
  own->count = count;
  ++own->shared->joined;
  while (own->shared->joined < count)
    rest();
  if (rank == 0)
    shm_unlink(id.bytes);
  *made = own;
  return kSuccess;
}

int ncclCommAbort(void *communicator) {
  auto *own = static_cast<Communicator *>(communicator);
  munmap(own->shared, sizeof(Shared));
  delete own;
  return kSuccess;
}

int ncclCommDestroy(void *communicator) {
  const char *killed = std::getenv("KILN_FAKE_NCCL_KILLS");
  if (killed &&
      std::atoi(killed) == static_cast<Communicator *>(communicator)->rank)
    std::raise(SIGKILL);
  const int result = meet(*static_cast<Communicator *>(communicator), 0);
  ncclCommAbort(communicator);
  return result;
}

int ncclCommGetAsyncError(void *, int *result) {
  *result = kSuccess;
  return kSuccess;
}

int ncclAllReduce(const void *, void *, size_t count, int type, int,
                  void *communicator, struct CUstream_st *) {
  return meet(*static_cast<Communicator *>(communicator),
              describe(1, count, type));
}

int ncclAllGather(const void *, void *, size_t count, int type,
                  void *communicator, struct CUstream_st *) {
  return meet(*static_cast<Communicator *>(communicator),
              describe(2, count, type));
}

} // extern "C"
#pragma GCC visibility pop
