#include "Observe/Trace.h"
#include "Observe/CallScope.h"
#include "Observe/Observe.h"
#include "Support/Error.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>
#include <llvm/Support/JSON.h>

#include <map>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace kiln::observe;
using namespace kiln::testing;

namespace {

/// The events of a trace; fails if it is not what Trace.h describes.
std::vector<llvm::json::Object> eventsOf(const std::string &text) {
  auto parsed = llvm::json::parse(text);
  if (!parsed)
    FAIL(llvm::toString(parsed.takeError()));
  std::vector<llvm::json::Object> events;
  const llvm::json::Object *whole = parsed->getAsObject();
  REQUIRE(whole);
  REQUIRE(whole->getArray("traceEvents"));
  for (const llvm::json::Value &event : *whole->getArray("traceEvents"))
    events.push_back(*event.getAsObject());
  return events;
}

/// As the head of Trace.h says how a cut copy is closed.
std::string closed(llvm::StringRef cut) {
  if (cut.ends_with("\n]}") || cut.ends_with("\n]}\n"))
    return cut.str();
  const size_t end = cut.rfind('\n');
  if (end == llvm::StringRef::npos)
    return "";
  return cut.take_front(end).str() + "\n]}";
}

/// A trace for its lifetime.
struct Traced {
  explicit Traced(const std::string &name = "trace.json") {
    auto started = startTrace(folder / name);
    REQUIRE(static_cast<bool>(started));
    path = *started;
  }
  ~Traced() { stopTrace(); }
  std::vector<llvm::json::Object> finish() {
    stopTrace();
    return eventsOf(readBytes(path));
  }

  TemporaryFolder folder;
  std::string path;
};

std::string text(const llvm::json::Object &event, const char *key) {
  return event.getString(key).value_or("").str();
}

} // namespace

TEST_CASE("a trace has the intervals of all threads, which nest") {
  Traced trace;
  auto work = [] {
    const Span outer(Phase::Lookup, [] { return std::string("gemm \"m\"=1"); });
    for (int i = 0; i < 20; ++i)
      const Span inner(Phase::Plan, "configs are ranked");
  };
  std::thread other([&] {
    nameThread("kiln-test");
    work();
  });
  work();
  other.join();
  std::map<int64_t, std::vector<std::pair<double, double>>> intervals;
  bool isNamed = false;
  for (const llvm::json::Object &event : trace.finish()) {
    isNamed |= text(event, "name") == "thread_name" &&
               text(*event.getObject("args"), "name") == "kiln-test";
    if (text(event, "ph") != "X")
      continue;
    const double start = *event.getNumber("ts"), us = *event.getNumber("dur");
    intervals[*event.getInteger("tid")].emplace_back(start, start + us);
    if (text(event, "cat") == "lookup")
      CHECK(text(*event.getObject("args"), "what") == "gemm \"m\"=1");
    else
      CHECK(text(*event.getObject("args"), "reason") == "configs are ranked");
  }
  CHECK(isNamed);
  REQUIRE(intervals.size() == 2);
  for (const auto &[thread, list] : intervals) {
    REQUIRE(list.size() == 21);
    for (size_t a = 0; a < list.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        const auto [from, to] = list[a];
        const auto [begin, end] = list[b];
        const bool isApart = to <= begin || end <= from;
        const bool isNested =
            (from <= begin && end <= to) || (begin <= from && to <= end);
        CHECK((isApart || isNested));
      }
  }
}

TEST_CASE("a trace is complete JSON at any time, and a cut one can be closed") {
  Traced trace;
  for (int i = 0; i < 50; ++i) {
    const Span span(Phase::Compile, [] { return std::string("kiln_gemm"); });
    if (i % 10 == 0)
      eventsOf(readBytes(trace.path));
  }
  Flow flow = Flow::here();
  {
    const Span span(Phase::Compile);
    flow.arrive("compile");
  }
  const auto whole = trace.finish();
  const std::string bytes = readBytes(trace.path);
  size_t most = 0;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string copy = closed(llvm::StringRef(bytes).take_front(cut));
    if (copy.empty())
      continue; // not even the head
    const size_t count = eventsOf(copy).size();
    CHECK(count >= most);
    most = count;
  }
  CHECK(most == whole.size());
}

TEST_CASE("each flow has both ends, in intervals") {
  Traced trace;
  Flow flow, second;
  {
    const Span span(Phase::Lookup);
    flow = Flow::here();
    second = Flow::here();
  }
  std::thread([&] {
    const Span span(Phase::Compile);
    flow.arrive("compile");
    flow.arrive("compile"); // no more than once
  }).join();
  std::map<int64_t, std::string> ends;
  for (const llvm::json::Object &event : trace.finish())
    if (text(event, "cat") == "flow")
      ends[*event.getInteger("id")] += text(event, "ph");
  REQUIRE(ends.size() == 1);
  CHECK(ends.begin()->second == "sf");
  second.arrive("late"); // the trace has ended
}

TEST_CASE("a call is an interval with its function's name") {
  Traced trace;
  {
    CallScope call("kiln_gemm", nullptr);
    const std::string problem = "gemm m=16";
    auto tell = [&] { return problem; };
    const CallScope::Subject subject(call, tell);
  }
  const auto events = trace.finish();
  CHECK(text(events.back(), "name") == "kiln_gemm");
  CHECK(text(events.back(), "cat") == "call");
  CHECK(text(*events.back().getObject("args"), "what") == "gemm m=16");
}

TEST_CASE("two processes with one name have two files") {
  Traced trace("ranks.json");
  const pid_t child = ::fork();
  if (child == 0) {
    forgetTrace();
    auto started = startTrace(trace.path);
    const bool isOther = started && *started != trace.path;
    { const Span span(Phase::Load); }
    stopTrace();
    ::_exit(isOther ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const std::string other =
      trace.folder / ("ranks." + std::to_string(child) + ".json");
  CHECK(text(eventsOf(readBytes(other)).back(), "cat") == "load");
  { const Span span(Phase::Plan); }
  CHECK(text(trace.finish().back(), "cat") == "plan");
}

TEST_CASE("%p is the number of the process") {
  Traced trace("trace-%p.json");
  CHECK(trace.path ==
        trace.folder / ("trace-" + std::to_string(::getpid()) + ".json"));
}

TEST_CASE("a trace that cannot be written is refused by name") {
  auto started = startTrace("/no/such/folder/trace.json");
  REQUIRE_FALSE(started);
  const std::string why = summarize(started.takeError()).message;
  CHECK(llvm::StringRef(why).contains("/no/such/folder/trace.json"));
  CHECK_FALSE((watching() & kTrace));
  Traced trace;
  auto second = startTrace(trace.folder / "second.json");
  REQUIRE_FALSE(second);
  CHECK(summarize(second.takeError()).code == ErrorCode::InProgress);
}

TEST_CASE("a full disk leaves complete JSON, and tells how much is missing") {
  const pid_t child = ::fork();
  if (child == 0) {
    TemporaryFolder folder;
    auto started = startTrace(folder / "trace.json");
    constexpr rlim_t kRoom = 8192;
    const rlimit limit{kRoom, RLIM_INFINITY};
    bool isGood = started && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    for (int i = 0; i < 200; ++i)
      const Span span(Phase::Compile, [] { return std::string("kiln_gemm"); });
    const rlimit more{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &more);
    stopTrace();
    const auto events = eventsOf(readBytes(folder / "trace.json"));
    const llvm::json::Object &last = events.back();
    isGood &=
        text(last, "name") == "events lost" &&
        events.size() + static_cast<size_t>(
                            *last.getObject("args")->getInteger("count")) ==
            200 + 3; // two names, and this one
    ::_exit(isGood ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("threads may work while a trace starts and ends") {
  std::atomic<bool> isOver{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!isOver) {
        CallScope call("kiln_gemm", nullptr);
        const Span span(Phase::Plan, [] { return std::string("text"); });
        Flow::here().arrive("flow");
      }
    });
  for (int i = 0; i < 20; ++i) {
    Traced trace;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    trace.finish();
  }
  isOver = true;
  for (std::thread &thread : threads)
    thread.join();
}
