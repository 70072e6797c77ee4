//===- CapiPrepare.cpp - kiln_prepare and its tasks -----------------------===//
#include "Runtime/Capi.h"

#include "Call/HistoryFile.h"
#include "Call/StructAccess.h"
#include "Driver/Stream.h"
#include "Runtime/HistoryWriter.h"

#include <llvm/Support/FileSystem.h>

#include <deque>

using namespace kiln;

/// Refuses CU_STREAM_PER_THREAD: a task has another thread than the one whose
/// stream is meant.
static llvm::Error refusePerThread(const kiln_prepare_options *options) {
  for (uint32_t i = 0; options && i < options->stream_count; ++i)
    if (isPerThreadStream(options->streams[i]))
      return makeError(ErrorCode::InvalidArgument,
                       "stream {} is CU_STREAM_PER_THREAD, another stream in "
                       "the thread of a task: prepare it without a task",
                       i);
  return llvm::Error::success();
}

/// The result of a task once it has ended, before that InProgress.
static llvm::Error outcomeOf(kiln_task &task, int64_t timeoutMs) {
  if (!task.task->wait(timeoutMs))
    return makeError(ErrorCode::InProgress, "the task goes on");
  return task.task->result();
}

/// Prepares \p problems at once, or as a task where \p task is not null.
static llvm::Error prepare(Engine &engine,
                           llvm::ArrayRef<kiln_problem> problems,
                           const kiln_prepare_options *options,
                           kiln_task **task) {
  auto made =
      PrepareTask::create(engine, problems.data(), problems.size(), options);
  if (!made)
    return made.takeError();
  if (!task) {
    (*made)->run(&engine.waits());
    return (*made)->result();
  }
  if (auto error = refusePerThread(options))
    return error;
  auto handle = std::make_unique<kiln_task>(kiln_task{*made, &engine});
  (*made)->start();
  *task = handle.release();
  return llvm::Error::success();
}

/// The history \p path, empty if there is no such file.
static llvm::Expected<History> namedHistory(const std::string &path) {
  // Other errors are told by the reader.
  if (llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Exist) ==
      std::errc::no_such_file_or_directory)
    return History();
  return History::read(path);
}

/// The requests in the history \p path, or the engine's own if it is null.
/// Lines that cannot be prepared here are left out with a warning.
static llvm::Expected<std::vector<ProblemLine>> requestsOf(Engine &engine,
                                                           const char *path) {
  if (!path && !engine.history())
    return makeError(ErrorCode::InvalidArgument,
                     "path is null, and the engine writes no history");
  const std::string file = path ? path : engine.history()->path();
  auto history = path ? namedHistory(file) : History::readShared(file);
  if (!history)
    return history.takeError();
  std::vector<ProblemLine> known;
  for (ProblemLine &line : history->requests)
    if (auto spec = line.read(engine.families()))
      known.push_back(std::move(line));
    else
      history->skipped.push_back(
          fmt::format("{}: {}", file, summarize(spec.takeError()).message));
  for (const std::string &line : history->skipped)
    engine.hooks().log().warning("a request of the history is skipped: {}",
                                 line);
  return known;
}

extern "C" {

kiln_status kiln_prepare(kiln_engine *engine, const kiln_problem *problems,
                         size_t count, const kiln_prepare_options *options,
                         kiln_task **task) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (task)
      *task = nullptr;
    if (!engine)
      return nullArgument("engine");
    return prepare(*engine->engine, {problems, count}, options, task);
  });
}

kiln_status kiln_prepare_history(kiln_engine *engine, const char *path,
                                 const kiln_prepare_options *options,
                                 kiln_task **task) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (task)
      *task = nullptr;
    if (!engine)
      return nullArgument("engine");
    auto requests = requestsOf(*engine->engine, path);
    if (!requests)
      return requests.takeError();
    std::deque<std::vector<kiln_range>> ranges; // which moves none
    std::vector<kiln_problem> problems;
    for (const ProblemLine &line : *requests)
      problems.push_back(line.given(ranges.emplace_back(line.givenRanges())));
    return prepare(*engine->engine, problems, options, task);
  });
}

kiln_status kiln_task_poll(kiln_task *task,
                           kiln_progress *progress) KILN_NOEXCEPT {
  return guardedOf(task, [&]() -> llvm::Error {
    if (progress) {
      if (auto error = checkOutput(progress, "progress"))
        return error;
      fillOutput(progress, task->task->progress());
    }
    return outcomeOf(*task, 0);
  });
}

kiln_status kiln_task_wait(kiln_task *task, int64_t timeout_ms) KILN_NOEXCEPT {
  return guardedOf(
      task, [&]() -> llvm::Error { return outcomeOf(*task, timeout_ms); });
}

kiln_status kiln_task_cancel(kiln_task *task) KILN_NOEXCEPT {
  return guardedOf(task, [&]() -> llvm::Error {
    task->task->cancel();
    return llvm::Error::success();
  });
}

void kiln_task_release(kiln_task *task) KILN_NOEXCEPT {
  if (!task)
    return;
  task->task->cancel();
  task->task->join();
  task->engine->removeTask(task->task.get());
  delete task;
}

} // extern "C"
