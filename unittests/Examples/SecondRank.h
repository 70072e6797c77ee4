// Memory that two ranks share, with a stand-in for one of them: lists of
// problems can then be made for the other without an engine in each process.
#pragma once

#include "llama/Error.h"
#include "llama/ExchangeMemory.h"
#include "llama/Ranks.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace llama {

/// A process that stands for rank 0 of two: it shares its memory, and nothing
/// else. So this process can be rank 1.
class FirstRank {
public:
  FirstRank(const Gpu &gpu, uint64_t bytes) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    process = fork();
    if (process == 0) {
      close(ends[1]);
      _exit(serve(gpu, bytes, ends[0]) ? 0 : 1);
    }
    close(ends[0]);
    socket = ends[1];
  }
  /// The socket has to be closed by then, which Ranks does.
  ~FirstRank() {
    int status = 0;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(status == 0);
  }
  FirstRank(const FirstRank &) = delete;
  FirstRank &operator=(const FirstRank &) = delete;

  RankOptions second() const {
    RankOptions options;
    options.count = 2;
    options.devices = {0, 0};
    options.rank = 1;
    options.socket = socket;
    return options;
  }

private:
  /// Exchanges names and no faults, and waits for the end of rank 1.
  static bool serve(const Gpu &gpu, uint64_t bytes, int socket) {
    try {
      const DeviceMemory memory(gpu, bytes, MemoryUse::Activations);
      const MemoryName name = memory.name();
      char rest = 0;
      return exchange(socket, {name.bytes, sizeof(name.bytes)}) &&
             exchange(socket, "") && read(socket, &rest, 1) == 0;
    } catch (const Error &) {
      return false;
    }
  }
  /// Ranks::exchange() of rank 0.
  static bool exchange(int socket, const std::string &own) {
    uint64_t count = 0;
    if (recv(socket, &count, sizeof(count), MSG_WAITALL) != sizeof(count))
      return false;
    std::string all = own + std::string(count, '\0');
    // To receive nothing would wait for something.
    if (count != 0 && recv(socket, &all[own.size()], count, MSG_WAITALL) !=
                          static_cast<ssize_t>(count))
      return false;
    count = all.size();
    return write(socket, &count, sizeof(count)) == sizeof(count) &&
           write(socket, all.data(), count) == static_cast<ssize_t>(count);
  }

  pid_t process = -1;
  int socket = -1;
};

/// The memory of rank 1 of two.
struct SecondRank {
  SecondRank(const Gpu &gpu, uint64_t bytes)
      : first(gpu, bytes), ranks(first.second()),
        exchange(ExchangeMemory::share(gpu, ranks, bytes, reason)) {
    CHECK(reason == "");
    REQUIRE(exchange != nullptr);
  }

  FirstRank first;
  Ranks ranks;
  std::string reason;
  std::unique_ptr<ExchangeMemory> exchange;
};

} // namespace llama
