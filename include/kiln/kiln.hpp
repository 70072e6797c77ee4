//===- kiln.hpp - C++17 over kiln.h ---------------------------------------===//
//
// Header-only: owners for handles, a Status that cannot be dropped, and, in
// problems.hpp, builders for problems. Adds no state and no rule to kiln.h,
// whose head tells about threads, streams, graphs and lifetime. Each function
// waits as the function of kiln.h that it calls does. Works with
// -fno-exceptions (then orThrow() does not exist) and -fno-rtti. Anything that
// is not wrapped is reached through get().
//
// All names are in kiln::v1, an inline namespace, so that kiln:: suffices and
// the symbols are never those of another version of this header.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include "kiln/allreduce.hpp"
#include "kiln/attention.hpp"
#include "kiln/gather.hpp"
#include "kiln/kiln.h"
#include "kiln/moe.hpp"
#include "kiln/problems.hpp"
#include "kiln/rope.hpp"
#include "kiln/sample.hpp"

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <exception>
#include <stdexcept>
#endif

namespace kiln {
inline namespace v1 {

using EngineOptions = Sized<kiln_engine_options>;
using ModelOptions = Sized<kiln_model_options>;
using PrepareOptions = Sized<kiln_prepare_options>;
using Workspace = Sized<kiln_workspace>;
using WorkspaceInfo = Sized<kiln_workspace_info>;
using Progress = Sized<kiln_progress>;
using QueryResult = Sized<kiln_query_result>;
using OperandInfo = Sized<kiln_operand_info>;
using Statistics = Sized<kiln_statistics>;
using Wait = Sized<kiln_wait>;
using Candidate = Sized<kiln_candidate>;
using ExplainOptions = Sized<kiln_explain_options>;
using TimingOptions = Sized<kiln_timing_options>;
using Timing = Sized<kiln_timing>;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

#if defined(__cpp_exceptions)
/// The exception that orThrow() throws.
class Error : public std::runtime_error {
public:
  Error(kiln_status code, const std::string &message)
      : std::runtime_error(message), status(code) {}
  kiln_status code() const noexcept { return status; }

private:
  kiln_status status;
};
#endif

/// The outcome of a call; a failure keeps its message.
class [[nodiscard]] Status {
public:
  Status() noexcept = default;

  /// Takes the calling thread's last error along if \p code is a failure.
  explicit Status(kiln_status code) : status(code) {
    if (code != KILN_SUCCESS) {
      text = kiln_last_error_message();
      driver = kiln_last_driver_error();
    }
  }

  bool ok() const noexcept { return status == KILN_SUCCESS; }
  explicit operator bool() const noexcept { return ok(); }
  kiln_status code() const noexcept { return status; }
  const char *name() const noexcept { return kiln_status_name(status); }
  const std::string &message() const noexcept { return text; }
  /// The CUresult or nvrtcResult behind the failure; 0: none.
  int64_t driverError() const noexcept { return driver; }

#if defined(__cpp_exceptions)
  void orThrow() const {
    if (!ok())
      throw Error(status, std::string(name()) + ": " + text);
  }
#endif

private:
  kiln_status status = KILN_SUCCESS;
  int64_t driver = 0;
  std::string text;
};

/// A value, or the Status of why there is none.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status failure) : failed(std::move(failure)) {
    assert(!failed.ok() && "a success has a value");
  }

  bool ok() const noexcept { return content.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status &status() const noexcept { return failed; }

  /// The value; only if ok().
  T &operator*() &noexcept { return *content; }
  const T &operator*() const &noexcept { return *content; }
  T &&operator*() &&noexcept { return *std::move(content); }
  T *operator->() noexcept { return &*content; }
  const T *operator->() const noexcept { return &*content; }

#if defined(__cpp_exceptions)
  T orThrow() && {
    failed.orThrow();
    return *std::move(content);
  }
#endif

private:
  Status failed;
  std::optional<T> content;
};

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

/// Owns a plan. Move-only; release it before its engine.
class Plan {
public:
  explicit Plan(kiln_plan *plan) noexcept : handle(plan) {}
  kiln_plan *get() const noexcept { return handle.get(); }

  Status launch(const Arguments &arguments, kiln_stream stream,
                const kiln_workspace *workspace = nullptr) const {
    kiln_arguments values = arguments.get();
    return Status(kiln_plan_launch(get(), &values, workspace, stream));
  }
  /// Launches with the addresses, scalars and dynamic extents of a Gemm,
  /// Softmax, ..., all other fields of which must be as in the plan's problem.
  template <class Call, class = EnableForCall<Call>>
  Status launch(const Call &call, kiln_stream stream,
                const kiln_workspace *workspace = nullptr) const {
    return Status(kiln_plan_launch_call(get(), Call::kFamily, &call.get(),
                                        workspace, stream));
  }
  Result<WorkspaceInfo> workspace() const {
    WorkspaceInfo info;
    Status status(kiln_plan_workspace(get(), &info));
    if (!status.ok())
      return status;
    return info;
  }
  /// One line: problem, config, source, times; empty on failure.
  std::string describe() const {
    size_t length = 0;
    if (kiln_plan_describe(get(), nullptr, 0, &length) != KILN_SUCCESS)
      return {};
    std::string text(length + 1, '\0');
    if (kiln_plan_describe(get(), text.data(), text.size(), nullptr) !=
        KILN_SUCCESS)
      return {};
    text.pop_back();
    return text;
  }

private:
  struct Release {
    void operator()(kiln_plan *plan) const noexcept { kiln_plan_release(plan); }
  };
  std::unique_ptr<kiln_plan, Release> handle;
};

/// Owns a running prepare; its destructor cancels and awaits it.
class Task {
public:
  explicit Task(kiln_task *task) noexcept : handle(task) {}
  kiln_task *get() const noexcept { return handle.get(); }

  /// Its code is KILN_IN_PROGRESS until the task has ended.
  Status poll(Progress *progress = nullptr) const {
    return Status(kiln_task_poll(get(), progress));
  }
  /// Waits for the end; a negative time-out waits for ever.
  Status wait(int64_t timeoutMs = -1) const {
    return Status(kiln_task_wait(get(), timeoutMs));
  }
  Status cancel() const { return Status(kiln_task_cancel(get())); }

private:
  struct Release {
    void operator()(kiln_task *task) const noexcept { kiln_task_release(task); }
  };
  std::unique_ptr<kiln_task, Release> handle;
};

/// Owns an engine. Move-only; outlives its plans, tasks and graphs.
class Engine {
public:
  static Result<Engine> create(const EngineOptions &options = {}) {
    kiln_engine *engine = nullptr;
    Status status(kiln_engine_create(&options, &engine));
    if (!status.ok())
      return status;
    return Engine(engine);
  }
  explicit Engine(kiln_engine *engine) noexcept : handle(engine) {}
  kiln_engine *get() const noexcept { return handle.get(); }

  /// Enqueues a Gemm, Softmax, ... on \p stream; the first call of a problem
  /// may tune.
  template <class Call, class = EnableForCall<Call>>
  Status run(const Call &call, kiln_stream stream,
             const kiln_workspace *workspace = nullptr) const {
    return Status(Call::kLaunch(get(), &call.get(), workspace, stream));
  }
  Status run(const Problem &problem, const Arguments &arguments,
             kiln_stream stream,
             const kiln_workspace *workspace = nullptr) const {
    kiln_problem described = problem.get();
    kiln_arguments values = arguments.get();
    return Status(kiln_run(get(), &described, &values, workspace, stream));
  }

  /// Makes problems ready and returns when they are.
  Status prepare(const std::vector<Problem> &problems,
                 const PrepareOptions &options = {}) const {
    std::vector<kiln_problem> views = viewsOf(problems);
    return Status(
        kiln_prepare(get(), views.data(), views.size(), &options, nullptr));
  }
  /// The same, but returns at once with a task that does it.
  Result<Task> prepareAsync(const std::vector<Problem> &problems,
                            const PrepareOptions &options = {}) const {
    std::vector<kiln_problem> views = viewsOf(problems);
    kiln_task *task = nullptr;
    Status status(
        kiln_prepare(get(), views.data(), views.size(), &options, &task));
    if (!status.ok())
      return status;
    return Task(task);
  }
  /// The same for what engines asked for before; an empty path: the history
  /// that this engine writes. See kiln_prepare_history.
  Status prepareHistory(const std::string &path = {},
                        const PrepareOptions &options = {}) const {
    return Status(kiln_prepare_history(
        get(), path.empty() ? nullptr : path.c_str(), &options, nullptr));
  }
  Result<QueryResult> query(const Problem &problem, kiln_stream stream) const {
    kiln_problem described = problem.get();
    QueryResult result;
    Status status(kiln_query(get(), &described, stream, &result));
    if (!status.ok())
      return status;
    return result;
  }
  Result<Plan> plan(const Problem &problem, kiln_stream stream) const {
    kiln_problem described = problem.get();
    kiln_plan *plan = nullptr;
    Status status(kiln_plan_acquire(get(), &described, stream, &plan));
    if (!status.ok())
      return status;
    return Plan(plan);
  }
  // For an engine of KILN_MODE_BACKGROUND; see background.h.
  /// Keeps the background from beginning anything, until resumeBackground() was
  /// called as often. Waits for nothing.
  Status pauseBackground() const {
    return Status(kiln_background_pause(get()));
  }
  Status resumeBackground() const {
    return Status(kiln_background_resume(get()));
  }
  /// Waits until nothing is left to be done, or, during a pause, until nothing
  /// is in progress; a negative time-out waits for ever.
  Status waitForBackground(int64_t timeoutMs = -1) const {
    return Status(kiln_background_wait(get(), timeoutMs));
  }
  Result<Statistics> statistics() const {
    Statistics result;
    Status status(kiln_get_statistics(get(), &result));
    if (!status.ok())
      return status;
    return result;
  }
  /// The counts as a text of OpenMetrics 1.0.
  Result<std::string> openMetrics() const {
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_openmetrics(get(), buffer, capacity, length);
    });
  }
  /// Makes the bytes that the engine holds now its peaks.
  Status resetPeaks() const { return Status(kiln_reset_peaks(get())); }

  /// The calls that waited since \p position, which is 0 at first and is moved
  /// behind them; see kiln_waits.
  Result<std::vector<Wait>> waits(uint64_t &position) const {
    constexpr size_t kMost = 1024;
    std::vector<Wait> list(kMost);
    size_t count = 0;
    Status status(
        kiln_waits(get(), &position, list.data(), list.size(), &count));
    if (!status.ok())
      return status;
    list.resize(count);
    return list;
  }

  /// Times what \p call enqueues on the stream that it is given, as
  /// kiln_time_calls does. \p call returns a Status, a kiln_status or nothing;
  /// an exception of it ends the timing and passes on.
  template <class Call>
  Result<Timing> time(kiln_stream stream, Call &&call,
                      const TimingOptions &options = {}) const {
    TimedCall<std::remove_reference_t<Call>> timed{call};
    Timing timing;
    Status status(
        kiln_time_calls(get(), &timed.run, &timed, stream, &options, &timing));
    timed.rethrow();
    if (!status.ok())
      return status;
    return timing;
  }

  /// The digest of all that was prepared: equal in ranks that choose alike.
  Result<std::string> plansDigest(kiln_stream stream) const {
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_plans_digest(get(), stream, buffer, capacity, length);
    });
  }

  // The functions of explain.h: kiln_explain, kiln_candidates and
  // kiln_problem_keys.
  /// The derivation of the first choice, or of the config of \p options.
  Result<std::string> explain(const Problem &problem, kiln_stream stream,
                              const ExplainOptions &options = {}) const {
    kiln_problem described = problem.get();
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_explain(get(), &described, stream, &options, buffer, capacity,
                          length);
    });
  }
  /// The first \p most of the ranking.
  Result<std::vector<Candidate>>
  candidates(const Problem &problem, kiln_stream stream, size_t most,
             const ExplainOptions &options = {}) const {
    kiln_problem described = problem.get();
    std::vector<Candidate> list(most);
    size_t count = 0;
    Status status(kiln_candidates(get(), &described, stream, &options,
                                  list.data(), most, &count));
    if (!status.ok())
      return status;
    list.resize(count < most ? count : most);
    return list;
  }
  Result<std::string> problemKeys(const Problem &problem, kiln_stream stream,
                                  const ExplainOptions &options = {}) const {
    kiln_problem described = problem.get();
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_problem_keys(get(), &described, stream, &options, buffer,
                               capacity, length);
    });
  }

private:
  /// A callable as kiln_time_calls wants it: no exception leaves run().
  template <class Call> struct TimedCall {
    Call &call;
#if defined(__cpp_exceptions)
    std::exception_ptr thrown = nullptr;

    void rethrow() const {
      if (thrown)
        std::rethrow_exception(thrown);
    }
    static kiln_status run(void *user, kiln_stream stream) noexcept {
      auto &self = *static_cast<TimedCall *>(user);
      try {
        return codeOf(self.call, stream);
      } catch (...) {
        self.thrown = std::current_exception();
        return KILN_CANCELLED;
      }
    }
#else
    void rethrow() const {}
    static kiln_status run(void *user, kiln_stream stream) noexcept {
      return codeOf(static_cast<TimedCall *>(user)->call, stream);
    }
#endif

  private:
    static kiln_status codeOf(Call &call, kiln_stream stream) {
      using Answer = decltype(call(stream));
      if constexpr (std::is_void_v<Answer>)
        return call(stream), KILN_SUCCESS;
      else if constexpr (std::is_convertible_v<Answer, kiln_status>)
        return call(stream);
      else
        return call(stream).code();
    }
  };

  /// The whole text that \p write writes in the way of kiln_problem_text.
  template <class Write>
  static Result<std::string> written(const Write &write) {
    constexpr size_t kUsualBytes = 16384; // most texts take one call
    std::string text(kUsualBytes, '\0');
    for (;;) {
      size_t length = 0;
      Status status(write(text.data(), text.size(), &length));
      if (!status.ok())
        return status;
      const bool fits = length < text.size();
      text.resize(fits ? length : length + 1);
      if (fits)
        return text;
    }
  }
  static std::vector<kiln_problem>
  viewsOf(const std::vector<Problem> &problems) {
    std::vector<kiln_problem> views;
    views.reserve(problems.size());
    for (const Problem &problem : problems)
      views.push_back(problem.get());
    return views;
  }

  struct Destroy {
    void operator()(kiln_engine *engine) const noexcept {
      kiln_engine_destroy(engine);
    }
  };
  std::unique_ptr<kiln_engine, Destroy> handle;
};

/// A range of the calling thread for its lifetime, in which profilers and
/// traces show what the thread does: see kiln_profile_begin. Made and destroyed
/// by one thread; ranges nest.
class ProfileRange {
public:
  ProfileRange(const Engine &engine, kiln_profile_kind kind,
               const char *name) noexcept
      : engine(engine.get()),
        isOpen(kiln_profile_begin(engine.get(), kind, name) == KILN_SUCCESS) {}
  ~ProfileRange() {
    if (isOpen)
      (void)kiln_profile_end(engine);
  }
  ProfileRange(const ProfileRange &) = delete;
  ProfileRange &operator=(const ProfileRange &) = delete;

private:
  kiln_engine *engine;
  bool isOpen;
};

/// Which kernel a name in a profile means.
struct KernelName {
  kiln_family family; ///< KILN_FAMILY_FROM_TEXT: no struct describes it
  std::string text;   ///< "gemm sm90.bm128.bn256.bk64.st4"
};

/// Tells which kernel of Kiln \p name is, as profilers show it; see
/// kiln_kernel_name_parse.
inline Result<KernelName> parseKernelName(const std::string &name) {
  KernelName kernel{};
  size_t length = 0;
  Status status(kiln_kernel_name_parse(name.c_str(), &kernel.family, nullptr, 0,
                                       &length));
  if (!status.ok())
    return status;
  kernel.text.resize(length + 1);
  status = Status(kiln_kernel_name_parse(
      name.c_str(), nullptr, kernel.text.data(), kernel.text.size(), nullptr));
  if (!status.ok())
    return status;
  kernel.text.pop_back();
  return kernel;
}

/// A problem of a model, with a name for people: "gate and up".
struct ModelProblem {
  std::string name;
  Problem problem;
};

/// The problems that an engine prepares which serves the model with that
/// config.json; see kiln_model_problems.
inline Result<std::vector<ModelProblem>>
modelProblems(const std::string &configJson, const ModelOptions &options = {}) {
  std::vector<ModelProblem> list;
  const auto take = [](void *user, const char *name,
                       const kiln_problem *given) -> int32_t {
    Problem problem(std::string(given->text));
    for (uint32_t i = 0; i < given->range_count; ++i) {
      const kiln_range &range = given->ranges[i];
      problem.range(std::string(range.name), range.first, range.last,
                    range.hint);
    }
    static_cast<std::vector<ModelProblem> *>(user)->push_back(
        {name, std::move(problem)});
    return 0;
  };
  Status status(kiln_model_problems(configJson.c_str(), &options, take, &list));
  if (!status.ok())
    return status;
  return list;
}

// ABI 1 on 64-bit targets. Growth takes reserved space or goes to the end of a
// struct that is not embedded in another; these never change.
static_assert(sizeof(kiln_operand) == 56 && sizeof(kiln_scale) == 72 &&
                  sizeof(kiln_heads_operand) == 136 &&
                  sizeof(kiln_workspace_info) == 40,
              "an embedded struct changed its size");

} // namespace v1
} // namespace kiln

#endif // KILN_KILN_HPP
