//===- Ranks.h - the processes of a model on several GPUs -----------------===//
//
// A process for each GPU: rank 0 is the one that was started; it starts the
// others with its own command line. Each has a socket to rank 0, over which
// they exchange what is small: names, digests, and what each step runs. A rank
// that ends before its time ends all of them within a moment, with a message: a
// thread of each process watches the sockets, since the others would wait for
// ever in a collective of the GPUs.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_RANKS_H
#define KILN_EXAMPLES_LLAMA_RANKS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace llama {

struct RankOptions {
  int64_t count = 1;
  std::vector<int64_t> devices{0}; ///< the GPU of each
  std::string nccl;         ///< the library; empty: as the loader finds it
  bool asksForNccl = false; ///< also where Kiln could sum over the GPUs
  // For processes that a rank 0 started:
  int64_t rank = 0;
  int socket = -1;
};

/// A process's place among the others. Made before any thread and any use of
/// the GPU. All ranks make the same calls of its collectives in the same order,
/// from one thread. Collectives throw Error.
class Ranks {
public:
  /// At rank 0 starts the other processes. Throws Error.
  explicit Ranks(RankOptions options);
  /// At rank 0 waits for the end of the others, and ends this process with a
  /// message if one of them failed; while an exception unwinds they are ended.
  ~Ranks();
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;

  int64_t rank() const { return chosen.rank; }
  int64_t count() const { return chosen.count; }
  bool isFirst() const { return chosen.rank == 0; }
  bool areSeveral() const { return chosen.count > 1; }
  int64_t device() const {
    return chosen.devices[static_cast<size_t>(chosen.rank)];
  }
  const std::vector<int64_t> &devices() const { return chosen.devices; }
  const std::string &ncclPath() const { return chosen.nccl; }
  bool asksForNccl() const { return chosen.asksForNccl; }

  /// Returns \p bytes of rank 0, whatever the other ranks give.
  std::string broadcast(const std::string &bytes);
  /// At rank 0 returns the bytes of all, by rank; elsewhere none.
  std::vector<std::string> gather(const std::string &bytes);
  /// Returns the bytes of all, one rank behind the other, at each rank.
  std::string exchange(const std::string &bytes);
  /// Returns the least of the values.
  int64_t least(int64_t value);
  /// Waits until all ranks are here.
  void barrier() { least(0); }

  /// Asked once a second by the watching thread; a text ends all ranks. Null
  /// takes it back, and waits for a question in progress.
  void watch(std::function<std::string()> failure);
  /// From now on the others may end. This process then has to end soon, too.
  void expectEnds() { areEnding = true; }

private:
  struct Peer {
    int socket = -1;
    pid_t process = 0;
  };

  void start(int64_t rank);
  void send(size_t peer, const std::string &bytes) const;
  std::string receive(size_t peer) const;
  void watchPeers();
  void endProcesses();
  std::string nameOf(size_t peer) const; ///< at rank 0
  [[noreturn]] void failBecauseOf(size_t peer);
  [[noreturn]] void fail(const std::string &why);

  RankOptions chosen;
  std::vector<Peer> peers; ///< at rank 0 the others; elsewhere rank 0
  std::atomic<bool> areEnding{false};
  std::mutex mutex; ///< guards `failure`, and is held while it is asked
  std::function<std::string()> failure;
  int wake[2] = {-1, -1}; ///< a pipe that ends the watching thread
  std::thread watcher;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_RANKS_H
