//===- CapiPrepare.cpp - kiln_prepare and its tasks -----------------------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Driver/Stream.h"

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

extern "C" {

kiln_status kiln_prepare(kiln_engine *engine, const kiln_problem *problems,
                         size_t count, const kiln_prepare_options *options,
                         kiln_task **task) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (task)
      *task = nullptr;
    if (!engine)
      return nullArgument("engine");
    auto made = PrepareTask::create(*engine->engine, problems, count, options);
    if (!made)
      return made.takeError();
    if (!task) {
      (*made)->run(&engine->engine->waits());
      return (*made)->result();
    }
    if (auto error = refusePerThread(options))
      return error;
    auto handle =
        std::make_unique<kiln_task>(kiln_task{*made, engine->engine.get()});
    (*made)->start();
    *task = handle.release();
    return llvm::Error::success();
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
