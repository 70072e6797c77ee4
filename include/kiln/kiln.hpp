//===- kiln.hpp - C++17 over kiln.h ---------------------------------------===//
//
// Header-only: owners for handles, a Status that cannot be dropped, and
// builders for problems. Adds no state and no rule to kiln.h, whose head tells
// about threads, streams, graphs and lifetime. Works with -fno-exceptions (then
// orThrow() does not exist) and -fno-rtti. Anything that is not wrapped is
// reached through get().
//
// All names are in kiln::v1, an inline namespace, so that kiln:: suffices and
// the symbols are never those of another version of this header.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

#include "kiln/kiln.h"

#include <array>
#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

namespace kiln {
inline namespace v1 {

/// A struct of kiln.h with its size set and all else zero.
template <class Struct> struct Sized : Struct {
  Sized() noexcept : Struct(KILN_INIT(Struct)) {}
};
using EngineOptions = Sized<kiln_engine_options>;
using PrepareOptions = Sized<kiln_prepare_options>;
using Workspace = Sized<kiln_workspace>;
using WorkspaceInfo = Sized<kiln_workspace_info>;
using Progress = Sized<kiln_progress>;
using QueryResult = Sized<kiln_query_result>;
using OperandInfo = Sized<kiln_operand_info>;
using Statistics = Sized<kiln_statistics>;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

#if defined(__cpp_exceptions)
/// What orThrow() throws.
class Error : public std::runtime_error {
public:
  Error(kiln_status code, const std::string &message)
      : std::runtime_error(message), status(code) {}
  kiln_status code() const noexcept { return status; }

private:
  kiln_status status;
};
#endif

/// What a call returned; a failure keeps its message.
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
  /// CUresult or nvrtcResult behind the failure, 0 if none was.
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
// Problems
//===----------------------------------------------------------------------===//

/// D = pointwise(alpha * op(A) op(B) + beta * C): a kiln_gemm_args with
/// setters. Leading dimensions of 0 are packed rows. The pointwise chain is
/// applied in the order in which it is added. Addresses may be left out where
/// the problem is only described.
class Gemm {
public:
  /// All operands have \p type; D is changed by outputType().
  Gemm(kiln_dtype type, int64_t m, int64_t n, int64_t k) noexcept {
    values.m = m;
    values.n = n;
    values.k = k;
    values.a.type = type;
    values.pointwise = links.data();
  }
  Gemm(const Gemm &other) noexcept : values(other.values), links(other.links) {
    values.pointwise = links.data();
  }
  Gemm &operator=(const Gemm &other) noexcept {
    values = other.values;
    links = other.links;
    values.pointwise = links.data();
    return *this;
  }

  Gemm &layout(kiln_layout value) noexcept { return set(values.layout, value); }
  Gemm &batch(int64_t count) noexcept { return set(values.batch, count); }
  Gemm &compute(kiln_compute mode) noexcept {
    return set(values.compute, mode);
  }
  Gemm &outputType(kiln_dtype type) noexcept {
    return set(values.d.type, type);
  }
  Gemm &determinism(kiln_determinism level) noexcept {
    return set(values.determinism, level);
  }
  Gemm &alpha(double value) noexcept { return set(values.alpha, value); }

  Gemm &a(const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.a, data, leadingDim, batchStride);
  }
  Gemm &b(const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.b, data, leadingDim, batchStride);
  }
  /// The same with the promise that the content never changes.
  Gemm &weights(const void *data, int64_t leadingDim = 0,
                int64_t batchStride = 0) noexcept {
    values.b.flags |= KILN_OPERAND_CONSTANT;
    return b(data, leadingDim, batchStride);
  }
  /// Adds beta * C.
  Gemm &c(double beta, const void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    values.beta = beta;
    return place(values.c, data, leadingDim, batchStride);
  }
  Gemm &d(void *data, int64_t leadingDim = 0,
          int64_t batchStride = 0) noexcept {
    return place(values.d, data, leadingDim, batchStride);
  }

  Gemm &bias(const void *data, int64_t batchStride = 0) noexcept {
    return link(KILN_POINTWISE_BIAS, data, 0, batchStride);
  }
  Gemm &residual(const void *data, int64_t leadingDim = 0,
                 int64_t batchStride = 0) noexcept {
    return link(KILN_POINTWISE_RESIDUAL, data, leadingDim, batchStride);
  }
  Gemm &relu() noexcept { return link(KILN_POINTWISE_RELU); }
  Gemm &geluErf() noexcept { return link(KILN_POINTWISE_GELU_ERF); }
  Gemm &geluTanh() noexcept { return link(KILN_POINTWISE_GELU_TANH); }
  Gemm &silu() noexcept { return link(KILN_POINTWISE_SILU); }

  /// Valid while this object lives and is not changed. A chain that is longer
  /// than KILN_MAX_POINTWISE is refused by the call that gets it.
  const kiln_gemm_args &get() const noexcept { return values; }
  kiln_gemm_args &get() noexcept { return values; }

private:
  template <class T> Gemm &set(T &field, T value) noexcept {
    field = value;
    return *this;
  }
  Gemm &place(kiln_operand &operand, const void *data, int64_t leadingDim,
              int64_t batchStride) noexcept {
    // The C struct has one pointer type for all roles; inputs are only read.
    operand.data = const_cast<void *>(data);
    operand.leading_dim = leadingDim;
    operand.batch_stride = batchStride;
    return *this;
  }
  Gemm &link(kiln_pointwise_op op, const void *data = nullptr,
             int64_t leadingDim = 0, int64_t batchStride = 0) noexcept {
    uint32_t index = values.pointwise_count++;
    if (index >= links.size())
      return *this;
    links[index].op = op;
    return place(links[index].operand, data, leadingDim, batchStride);
  }

  kiln_gemm_args values = kiln_gemm_args_init();
  std::array<Sized<kiln_pointwise>, KILN_MAX_POINTWISE> links;
};
static_assert(sizeof(Sized<kiln_pointwise>) == sizeof(kiln_pointwise),
              "an array of one is used as an array of the other");

/// A problem without its addresses, with the ranges of its dynamic extents.
class Problem {
public:
  Problem(const Gemm &described) : gemm(described) {}
  /// For any family: "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT".
  Problem(std::string described) : text(std::move(described)) {}
  Problem(const char *described) : text(described) {}

  /// The extent \p name, a string literal, takes values from \p first to
  /// \p last.
  Problem &range(const char *name, int64_t first, int64_t last,
                 int64_t hint = 0) {
    kiln_range added = KILN_INIT(kiln_range);
    added.name = name;
    added.first = first;
    added.last = last;
    added.hint = hint;
    ranges.push_back(added);
    return *this;
  }

  /// The problem for kiln.h, valid while this object lives and is not changed.
  kiln_problem get() const noexcept {
    kiln_problem problem = KILN_INIT(kiln_problem);
    if (gemm) {
      problem.family = KILN_FAMILY_GEMM;
      problem.args = &gemm->get();
    } else {
      problem.text = text.c_str();
    }
    problem.ranges = ranges.data();
    problem.range_count = static_cast<uint32_t>(ranges.size());
    return problem;
  }

private:
  std::optional<Gemm> gemm;
  std::string text;
  std::vector<kiln_range> ranges;
};

/// Addresses and scalars of one launch of a plan.
class Arguments {
public:
  Arguments() noexcept = default;
  /// Takes addresses, alpha and beta of \p gemm.
  explicit Arguments(const Gemm &gemm) noexcept {
    const kiln_gemm_args &from = gemm.get();
    operands[KILN_GEMM_A] = from.a.data;
    operands[KILN_GEMM_B] = from.b.data;
    operands[KILN_GEMM_C] = from.c.data;
    operands[KILN_GEMM_D] = from.d.data;
    for (uint32_t i = 0; i < from.pointwise_count && i < KILN_MAX_POINTWISE;
         ++i)
      operands[KILN_GEMM_POINTWISE + i] = from.pointwise[i].operand.data;
    scalars[0] = from.alpha;
    scalars[1] = from.beta;
    scalarCount = 2;
  }

  /// Sets the address of a slot (kiln_gemm_slot, kiln_operand_info.slot), which
  /// is less than kSlots.
  Arguments &operand(uint32_t slot, const void *data) noexcept {
    assert(slot < kSlots && "no such slot");
    operands[slot] = const_cast<void *>(data);
    return *this;
  }
  /// Sets the value of the problem's dynamic extent \p index.
  Arguments &extent(uint32_t index, int64_t value) noexcept {
    assert(index < kExtents && "no such extent");
    extents[index] = value;
    if (extentCount <= index)
      extentCount = index + 1;
    return *this;
  }

  /// Valid while this object lives and is not changed.
  kiln_arguments get() const noexcept {
    kiln_arguments arguments = KILN_INIT(kiln_arguments);
    arguments.operands = operands.data();
    arguments.operand_count = kSlots;
    arguments.scalars = scalarCount ? scalars.data() : nullptr;
    arguments.scalar_count = scalarCount;
    arguments.extents = extentCount ? extents.data() : nullptr;
    arguments.extent_count = extentCount;
    return arguments;
  }

  static constexpr uint32_t kSlots = KILN_GEMM_SLOT_COUNT, kExtents = 4;

private:
  std::array<void *, kSlots> operands{};
  std::array<double, 2> scalars{};
  std::array<int64_t, kExtents> extents{};
  uint32_t scalarCount = 0, extentCount = 0;
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
  Status launch(const Gemm &gemm, kiln_stream stream,
                const kiln_workspace *workspace = nullptr) const {
    return launch(Arguments(gemm), stream, workspace);
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
  /// Waits for the end; a negative time-out is none.
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

  /// Enqueues \p gemm on \p stream; the first call of a problem may tune.
  Status run(const Gemm &gemm, kiln_stream stream,
             const kiln_workspace *workspace = nullptr) const {
    return Status(kiln_gemm(get(), &gemm.get(), workspace, stream));
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
  /// The same, beside the caller.
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
  Result<Statistics> statistics() const {
    Statistics result;
    Status status(kiln_get_statistics(get(), &result));
    if (!status.ok())
      return status;
    return result;
  }

private:
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

// ABI 1 on 64-bit targets. Growth takes reserved space or goes to the end of a
// struct that is not embedded in another; these two never change.
static_assert(sizeof(kiln_operand) == 72 && sizeof(kiln_workspace_info) == 40,
              "an embedded struct changed its size");

} // namespace v1
} // namespace kiln

#endif // KILN_KILN_HPP
