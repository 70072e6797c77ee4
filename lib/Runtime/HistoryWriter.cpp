//===- HistoryWriter.cpp - a file with what an engine was asked for -------===//
#include "Runtime/HistoryWriter.h"

#include "Call/HistoryFile.h"
#include "Runtime/Hooks.h"
#include "Support/OutputPath.h"

#include <llvm/ADT/STLExtras.h>

#include <utility>

namespace kiln {

/// Lines that values of launches leave to requests.
static constexpr size_t kRoomForRequests = 4096;

HistoryWriter::HistoryWriter(const Hooks &hooks, const Registry &families,
                             std::string path,
                             std::chrono::milliseconds interval)
    : hooks(hooks), file(std::move(path)), values(families) {
  if (!thread.start("kiln-history", interval, [this] { write(); }))
    tell("the system refuses a thread, so it is written at the end of the "
         "engine");
}

HistoryWriter::~HistoryWriter() {
  thread.stop();
  end();
}

void HistoryWriter::note(const ProblemSpec &spec) {
  std::string line = ProblemLine::of(spec).text();
  std::lock_guard<std::mutex> lock(mutex);
  values.cover(spec);
  add(std::move(line), kMostHistoryLines);
}

void HistoryWriter::note(const Problem &problem) {
  std::lock_guard<std::mutex> lock(mutex);
  if (std::string line = values.lineOf(problem); !line.empty())
    add(std::move(line), kMostHistoryLines - kRoomForRequests);
}

/// Under the lock.
void HistoryWriter::add(std::string line, size_t mostLines) {
  if (known.contains(line))
    return;
  if (known.size() >= mostLines || line.size() > kMostHistoryLineBytes) {
    lacksRoom = true;
    return;
  }
  known.insert(line);
  pending.push_back(std::move(line));
}

std::vector<std::string> HistoryWriter::allLines() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> lines;
  for (const auto &line : known)
    lines.push_back(line.getKey().str());
  llvm::sort(lines);
  return lines;
}

void HistoryWriter::tell(const std::string &what) {
  if (told.insert(what).second)
    hooks.log().warning("the history {}: {}", file, what);
}

void HistoryWriter::write() noexcept try {
  std::vector<std::string> lines;
  bool leftOut = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    lines.swap(pending);
    leftOut = lacksRoom;
  }
  if (leftOut)
    tell(fmt::format("requests are left out: an engine has {} lines at most, "
                     "of {} bytes",
                     kMostHistoryLines, kMostHistoryLineBytes));
  if (lines.empty())
    return;
  HistoryAppend outcome = appendHistory(FileOps::system(), file, lines);
  if (outcome.isNew && outcome.failure.empty()) {
    lines = allLines();
    outcome = appendHistory(FileOps::system(), file, lines);
  }
  if (outcome.leftOut > 0)
    tell(fmt::format("it has {} lines, and takes no more", kMostHistoryLines));
  if (!outcome.failure.empty())
    tell(outcome.failure);
  if (!outcome.isBusy && outcome.failure.empty())
    return;
  // A disk may have room again, and a lock is freed by its holder.
  std::lock_guard<std::mutex> lock(mutex);
  llvm::append_range(lines, pending);
  pending = std::move(lines);
} catch (...) { // no memory, or a hook: the lines of this time are lost
}

/// The file may have been deleted since the last line, so it gets all of them.
void HistoryWriter::end() noexcept try {
  pending = allLines();
  write();
  if (!pending.empty())
    tell(fmt::format("up to {} requests are lost: its lock was not free, or it "
                     "could not be written",
                     pending.size()));
} catch (...) { // as in write()
}

} // namespace kiln
