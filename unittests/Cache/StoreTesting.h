//===- StoreTesting.h - what the tests of the store share -----------------===//
#pragma once

#include "Cache/Store.h"
#include "Support/FaultyFileOps.h"
#include "Support/TemporaryFolder.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/Endian.h>

#include <functional>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace kiln::cache::testing {

using kiln::testing::FaultyFileOps;
using kiln::testing::filesIn;
using kiln::testing::readBytes;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;

/// The warnings a store gave, in order.
struct Warnings {
  std::vector<std::string> lines;
  Log log() {
    return Log([this](LogLevel, llvm::StringRef line) {
      lines.push_back(line.str());
    });
  }
  bool mention(const std::string &text) const {
    for (const std::string &line : lines)
      if (line.find(text) != std::string::npos)
        return true;
    return false;
  }
};

inline std::unique_ptr<Store>
openStore(const std::string &folder, FileOps *files = nullptr, Log log = {}) {
  StoreOptions options;
  options.writeDir = folder;
  options.files = files;
  options.log = std::move(log);
  return Store::open(std::move(options));
}

/// \p bytes, an entry up to its payload, as a faulty writer would make it: the
/// hash of the head agrees.
inline std::string withHeadHash(std::string bytes) {
  const Digest digest = contentHash({llvm::StringRef(bytes).take_front(96),
                                     llvm::StringRef(bytes).drop_front(128)});
  llvm::copy(digest.bytes, bytes.begin() + 96);
  return bytes;
}

/// An entry of the kind, key and payload of \p entry with \p json for its
/// attributes, which need not be any.
inline std::string withAttributes(llvm::StringRef entry, llvm::StringRef json) {
  const size_t at = 128 + llvm::support::endian::read32le(entry.data() + 20),
               end = at + llvm::support::endian::read32le(entry.data() + 24);
  std::string bytes =
      (entry.take_front(at) + json + entry.drop_front(end)).str();
  llvm::support::endian::write32le(&bytes[24],
                                   static_cast<uint32_t>(json.size()));
  const size_t head = at + json.size();
  return withHeadHash(bytes.substr(0, head)) + bytes.substr(head);
}

/// Bytes that only \p seed can have made, so that a reader can tell a whole
/// payload from a mixture: the seed, then noise that follows from it.
inline std::string makePayload(uint32_t seed, size_t bytes) {
  std::mt19937 noise(seed);
  std::string payload(reinterpret_cast<const char *>(&seed), sizeof seed);
  while (payload.size() < bytes)
    payload.push_back(static_cast<char>(noise()));
  return payload;
}

inline bool isWhole(const std::string &payload) {
  uint32_t seed = 0;
  if (payload.size() < sizeof seed)
    return false;
  payload.copy(reinterpret_cast<char *>(&seed), sizeof seed);
  return payload == makePayload(seed, payload.size());
}

/// Where the store keeps an entry, from the documented layout.
inline std::string pathOf(const std::string &folder, Kind kind,
                          llvm::StringRef key) {
  std::string name = fileNameOf(kind, key);
  return folder + "/v1/" + nameOf(kind).str() + "/" + name.substr(0, 2) + "/" +
         name + ".kiln";
}

/// Runs \p body(i) in \p count child processes at once; returns how many did
/// not return true.
inline int runProcesses(int count, const std::function<bool(int)> &body) {
  int gate[2];
  if (::pipe(gate) != 0)
    return count;
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      // All children start when the parent closes the gate.
      ::close(gate[1]);
      char byte;
      while (::read(gate[0], &byte, 1) < 0) {
      }
      ::_exit(body(i) ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  int failures = 0;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failures;
}

} // namespace kiln::cache::testing
