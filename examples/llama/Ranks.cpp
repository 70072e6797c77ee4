//===- Ranks.cpp ----------------------------------------------------------===//
#include "Ranks.h"

#include "Error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace llama {

namespace {

/// The descriptor by which a started process finds its socket.
constexpr int kSocketOfRank = 3;
constexpr int kExitFailed = 1;
using Clock = std::chrono::steady_clock;
/// The time that all ranks have to end once one has, the watching thread to
/// tell of one that did too early, and a process whose socket is closed to be
/// gone.
constexpr std::chrono::milliseconds kMostEnd(10000), kMostTell(2000),
    kMostGone(1000);

std::string errorText() { return std::strerror(errno); }

/// The words of this process's command line.
std::vector<std::string> ownWords() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (size_t at = 0; at < all.size(); at += words.back().size() + 1)
    words.emplace_back(all.c_str() + at);
  return words;
}

/// All of \p count bytes, or false.
template <class Transfer>
bool transferAll(size_t count, const Transfer &transfer) {
  for (size_t done = 0; done < count;) {
    const ssize_t now = transfer(done, count - done);
    if (now < 0 && errno == EINTR)
      continue;
    if (now <= 0)
      return false;
    done += static_cast<size_t>(now);
  }
  return true;
}

/// The status of \p process, which has ended by \p deadline; else nullopt.
std::optional<int> awaitEnd(pid_t process, Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    if (waitpid(process, &status, WNOHANG) == process)
      return status;
    if (Clock::now() >= deadline)
      return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string textOfEnd(int status) {
  if (WIFSIGNALED(status))
    return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with the exit code " + std::to_string(WEXITSTATUS(status));
}

/// NCCL prints to stdout, unless a file is named. It empties a regular file.
void keepStdoutForAnswers() {
  struct stat facts {};
  if (fstat(STDERR_FILENO, &facts) == 0 && !S_ISREG(facts.st_mode))
    setenv("NCCL_DEBUG_FILE", "/dev/stderr", /*overwrite=*/0);
}

bool sendAll(int socket, const void *data, size_t count) {
  return transferAll(count, [&](size_t done, size_t left) {
    return ::send(socket, static_cast<const char *>(data) + done, left,
                  MSG_NOSIGNAL);
  });
}

bool receiveAll(int socket, void *data, size_t count) {
  return transferAll(count, [&](size_t done, size_t left) {
    return ::recv(socket, static_cast<char *>(data) + done, left, 0);
  });
}

} // namespace

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

Ranks::Ranks(RankOptions options) : chosen(std::move(options)) {
  if (!areSeveral())
    return;
  if (isFirst()) {
    // NVLink multicast is for the user to ask for.
    setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
    keepStdoutForAnswers();
    for (int64_t rank = 1; rank < chosen.count; ++rank)
      start(rank);
  } else {
    // A process that inherited it would hide the end of this one.
    fcntl(chosen.socket, F_SETFD, FD_CLOEXEC);
    peers.push_back({chosen.socket, 0});
  }
  if (pipe(wake) != 0)
    throw Error("a pipe cannot be made: " + errorText());
  watcher = std::thread([this] { watchPeers(); });
}

/// Starts the process of \p rank.
void Ranks::start(int64_t rank) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("a socket cannot be made: " + errorText());
  std::vector<std::string> words = ownWords();
  for (const std::string &word :
       {std::string("--rank"), std::to_string(rank),
        std::string("--rank-socket"), std::to_string(kSocketOfRank)})
    words.push_back(word);
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // A copy is not closed at the start of a program.
  posix_spawn_file_actions_adddup2(&actions, ends[1], kSocketOfRank);
  // stdin and stdout are of rank 0.
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  Peer peer;
  peer.socket = ends[0];
  const int result = posix_spawn(&peer.process, "/proc/self/exe", &actions,
                                 nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (result != 0) {
    close(ends[0]);
    throw Error("the process of rank " + std::to_string(rank) +
                " cannot be started: " + std::strerror(result));
  }
  peers.push_back(peer);
  std::fprintf(stderr, "rank %lld: process %lld, GPU %lld\n",
               static_cast<long long>(rank),
               static_cast<long long>(peer.process),
               static_cast<long long>(chosen.devices[size_t(rank)]));
}

Ranks::~Ranks() {
  if (!watcher.joinable())
    return;
  areEnding = true;
  const char end = 0;
  if (write(wake[1], &end, 1) == 1)
    watcher.join();
  else
    watcher.detach();
  for (const Peer &peer : peers)
    close(peer.socket); // a rank whose rank 0 has gone ends
  close(wake[0]);
  close(wake[1]);
  endProcesses();
}

/// Waits for the other processes, and ends those that go on. Unless an
/// exception unwinds, this process fails if one of them has.
void Ranks::endProcesses() {
  const bool isUnwinding = std::uncaught_exceptions() > 0;
  const auto deadline =
      Clock::now() + (isUnwinding ? std::chrono::milliseconds(0) : kMostEnd);
  std::string why;
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer &peer = peers[i];
    if (peer.process == 0)
      continue;
    const std::string name = nameOf(i);
    std::optional<int> status = awaitEnd(peer.process, deadline);
    if (!status) {
      kill(peer.process, SIGKILL);
      status = awaitEnd(peer.process, Clock::now() + kMostGone);
    }
    if (status)
      peer.process = 0;
    if (status != 0)
      why = name + " " + (status ? textOfEnd(*status) : "does not end");
  }
  if (why.empty() || isUnwinding)
    return;
  std::fflush(nullptr);
  fail(why);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Throws Error, unless the watching thread tells first which rank it was.
[[noreturn]] static void failToTalk() {
  std::this_thread::sleep_for(kMostTell);
  throw Error("a rank cannot be reached");
}

void Ranks::send(size_t peer, const std::string &bytes) const {
  const uint64_t count = bytes.size();
  if (!sendAll(peers[peer].socket, &count, sizeof(count)) ||
      !sendAll(peers[peer].socket, bytes.data(), bytes.size()))
    failToTalk();
}

std::string Ranks::receive(size_t peer) const {
  uint64_t count = 0;
  std::string bytes;
  bool isGood = receiveAll(peers[peer].socket, &count, sizeof(count));
  if (isGood) {
    bytes.resize(count);
    isGood = receiveAll(peers[peer].socket, bytes.data(), bytes.size());
  }
  if (!isGood)
    failToTalk();
  return bytes;
}

std::string Ranks::broadcast(const std::string &bytes) {
  if (!isFirst())
    return receive(0);
  for (size_t i = 0; i < peers.size(); ++i)
    send(i, bytes);
  return bytes;
}

std::vector<std::string> Ranks::gather(const std::string &bytes) {
  if (!isFirst()) {
    send(0, bytes);
    return {};
  }
  std::vector<std::string> all = {bytes};
  for (size_t i = 0; i < peers.size(); ++i)
    all.push_back(receive(i));
  return all;
}

std::string Ranks::exchange(const std::string &bytes) {
  std::string all;
  for (const std::string &one : gather(bytes))
    all += one;
  return broadcast(all);
}

int64_t Ranks::least(int64_t value) {
  for (const std::string &other : gather(std::to_string(value)))
    value = std::min<int64_t>(value, std::stoll(other));
  return std::stoll(broadcast(std::to_string(value)));
}

//===----------------------------------------------------------------------===//
// Watching
//===----------------------------------------------------------------------===//

void Ranks::watch(std::function<std::string()> given) {
  const std::lock_guard<std::mutex> lock(mutex);
  failure = std::move(given);
}

void Ranks::watchPeers() {
  constexpr int kAskEveryMs = 1000;
  std::vector<pollfd> polled;
  for (const Peer &peer : peers)
    polled.push_back({peer.socket, POLLRDHUP, 0});
  polled.push_back({wake[0], POLLIN, 0});
  std::optional<Clock::time_point> end; // of all, once one has ended in time
  for (;;) {
    if (poll(polled.data(), polled.size(), kAskEveryMs) < 0 && errno != EINTR)
      return;
    if (polled.back().revents != 0)
      return;
    for (size_t i = 0; i < peers.size(); ++i) {
      if (polled[i].revents == 0)
        continue;
      if (!areEnding)
        failBecauseOf(i);
      polled[i].fd = -1; // is not polled any more
      if (!end)
        end = Clock::now() + kMostEnd;
    }
    if (end && Clock::now() > *end)
      fail("another rank has ended, and this one waits for it");
    const std::lock_guard<std::mutex> lock(mutex);
    if (const std::string why = failure ? failure() : ""; !why.empty())
      fail("a collective of the GPUs failed: " + why);
  }
}

std::string Ranks::nameOf(size_t peer) const {
  return "rank " + std::to_string(peer + 1) + " (process " +
         std::to_string(peers[peer].process) + ")";
}

/// Ends this process because another one has.
void Ranks::failBecauseOf(size_t peer) {
  if (!isFirst())
    fail("rank 0 has ended");
  // They may wait for memory of that process, as it does for its end.
  for (size_t i = 0; i < peers.size(); ++i)
    if (i != peer && peers[i].process > 0)
      kill(peers[i].process, SIGKILL);
  const std::string name = nameOf(peer);
  const std::optional<int> status =
      awaitEnd(peers[peer].process, Clock::now() + kMostGone);
  if (!status)
    fail(name + " has ended");
  peers[peer].process = 0;
  fail(name + " " + textOfEnd(*status));
}

/// The other threads may wait for a GPU that waits for a rank which is gone, so
/// they are not asked.
void Ranks::fail(const std::string &why) {
  std::fprintf(stderr, "kiln-llama: rank %lld: %s: all ranks end\n",
               static_cast<long long>(chosen.rank), why.c_str());
  for (const Peer &peer : peers)
    if (peer.process > 0)
      kill(peer.process, SIGKILL);
  _exit(kExitFailed);
}

} // namespace llama
