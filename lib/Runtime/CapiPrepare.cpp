//===- CapiPrepare.cpp - kiln_prepare and its tasks -----------------------===//
#include "Runtime/Capi.h"

#include "Runtime/StructAccess.h"

using namespace kiln;

/// The result of a task that has ended, InProgress before.
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
      (*made)->run();
      return (*made)->result();
    }
    auto handle =
        std::make_unique<kiln_task>(kiln_task{*made, engine->engine.get()});
    (*made)->start();
    *task = handle.release();
    return llvm::Error::success();
  });
}

kiln_status kiln_task_poll(kiln_task *task,
                           kiln_progress *progress) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!task)
      return nullArgument("task");
    if (progress) {
      if (auto error = checkOutput(progress, "progress"))
        return error;
      fillOutput(progress, task->task->progress());
    }
    return outcomeOf(*task, 0);
  });
}

kiln_status kiln_task_wait(kiln_task *task, int64_t timeout_ms) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!task)
      return nullArgument("task");
    return outcomeOf(*task, timeout_ms);
  });
}

kiln_status kiln_task_cancel(kiln_task *task) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!task)
      return nullArgument("task");
    task->task->cancel();
    return llvm::Error::success();
  });
}

void kiln_task_release(kiln_task *task) KILN_NOEXCEPT {
  if (!task)
    return;
  task->task->cancel();
  task->task->wait(-1);
  task->engine->removeTask(task->task.get());
  delete task;
}

} // extern "C"
