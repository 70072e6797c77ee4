//===- HistoryWriter.cpp - a file with what an engine was asked for -------===//
#include "Runtime/HistoryWriter.h"

#include "Call/HistoryFile.h"
#include "Runtime/Hooks.h"
#include "Support/OutputPath.h"

#include <llvm/ADT/STLExtras.h>

#include <utility>

namespace kiln {

HistoryWriter::HistoryWriter(const Hooks &hooks, std::string path)
    : hooks(hooks), file(std::move(path)) {
  constexpr std::chrono::seconds kInterval{5};
  if (!thread.start("kiln-history", kInterval, [this] { write(); }))
    tell("the system refuses a thread, so it is written at the end of the "
         "engine");
}

HistoryWriter::~HistoryWriter() {
  thread.stop();
  write();
}

void HistoryWriter::note(const ProblemSpec &spec) {
  add(ProblemLine::of(spec).text());
}

void HistoryWriter::note(const Problem &problem) { add(problem.text()); }

void HistoryWriter::add(std::string line) {
  std::lock_guard<std::mutex> lock(mutex);
  if (known.size() < kMostHistoryLines && known.insert(line).second)
    pending.push_back(std::move(line));
}

void HistoryWriter::tell(const std::string &what) {
  if (told.insert(what).second)
    hooks.log().warning("the history {}: {}", file, what);
}

void HistoryWriter::write() noexcept try {
  const std::lock_guard<std::mutex> lock(writing);
  std::vector<std::string> lines;
  {
    std::lock_guard<std::mutex> noting(mutex);
    lines.swap(pending);
  }
  if (lines.empty())
    return;
  const HistoryAppend outcome = appendHistory(FileOps::system(), file, lines);
  if (outcome.leftOut > 0)
    tell(fmt::format("it has {} lines, and takes no more", kMostHistoryLines));
  if (!outcome.failure.empty())
    tell(outcome.failure);
  if (!outcome.isBusy && outcome.failure.empty())
    return;
  // A disk may have room again, and a lock is freed by its holder.
  std::lock_guard<std::mutex> noting(mutex);
  llvm::append_range(lines, pending);
  pending = std::move(lines);
} catch (...) { // no memory, or a hook: the lines of this time are lost
}

} // namespace kiln
