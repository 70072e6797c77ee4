// Calls as profilers, traces and the ledger of waits see them.
#include "Observe/NvtxTesting.h"
#include "Observe/Trace.h"
#include "Runtime/Captures.h"
#include "Runtime/RuntimeFixture.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/JSON.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A compilation that takes so long is what a call waits for the most, also on
/// a busy machine.
constexpr int kCompilationMs = 300;

/// An environment variable for its lifetime.
class ScopedVariable {
public:
  ScopedVariable(const char *name, const std::string &value) : name(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { ::unsetenv(name); }

private:
  const char *name;
};

std::vector<kiln_wait> waitsOf(kiln_engine *engine, uint64_t &position) {
  std::vector<kiln_wait> waits(16);
  waits[0].struct_size = sizeof(kiln_wait);
  size_t count = 0;
  REQUIRE(kiln_waits(engine, &position, waits.data(), waits.size(), &count) ==
          KILN_SUCCESS);
  waits.resize(count);
  return waits;
}

/// The launches, by number from 1, between which the profiler records.
struct Recorded {
  static void note(KilnFakeLaunch *, void *user) {
    auto *self = static_cast<Recorded *>(user);
    ++self->launches;
    if (kilnFakeCallCount("cuProfilerStart") >
        kilnFakeCallCount("cuProfilerStop"))
      self->recorded.insert(self->launches);
  }
  Recorded() { kilnFakeOnLaunch("kiln_*", &Recorded::note, this, 0); }
  ~Recorded() {
    kilnFakeOnLaunch(
        "kiln_*", [](KilnFakeLaunch *, void *) {}, nullptr, 0);
  }
  uint64_t launches = 0;
  std::set<uint64_t> recorded;
};

} // namespace

TEST_CASE("a first call has a range for each phase, nested in the call's") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_TUNE));
  judgeTrials();
  NvtxTool tool;
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  const std::string outline = tool.outline(observe::threadId());
  CAPTURE(outline);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(outline).trim().split(lines, '\n');
  REQUIRE(lines.size() > 5);
  CHECK(lines[0] == "call kiln_gemm");
  CHECK(lines[1] == "  canonicalise canonicalise");
  kiln_problem described = problemOf(args);
  char text[512];
  REQUIRE(kiln_problem_text(&described, text, sizeof(text), nullptr) ==
          KILN_SUCCESS);
  CHECK(lines[2] == "  lookup " + std::string(text));
  CHECK(lines.back() == "  launch " + std::string(text));
  std::set<std::string> phases;
  for (llvm::StringRef line : lines)
    phases.insert(line.trim().split(' ').first.str());
  for (const char *phase : {"plan", "cache", "compile", "load", "trial"}) {
    CAPTURE(phase);
    CHECK(phases.count(phase) == 1);
  }
  // Compilations are on the threads of the pool, with the kernels' names.
  bool isCompiled = false;
  for (const KilnFakeNvtxEvent &event : tool.events())
    isCompiled |= event.thread != observe::threadId() &&
                  std::string(event.category) == "compile" &&
                  llvm::StringRef(event.name).starts_with("kiln_gemm_");
  CHECK(isCompiled);
}

TEST_CASE("launches that hit have ranges where that is asked for") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  auto launch = [&] {
    REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
            KILN_SUCCESS);
  };
  launch();
  NvtxTool tool;
  launch();
  CHECK(tool.events().empty());
  observe::watch(observe::kLaunchRanges);
  const size_t names = kilnFakeNvtxNames();
  for (int i = 0; i < 3; ++i)
    launch();
  CHECK(kilnFakeNvtxNames() == names + 1);
  const auto events = tool.events();
  REQUIRE(events.size() == 6);
  CHECK(std::string(events[0].category) == "launch");
  CHECK(llvm::StringRef(events[0].name).starts_with("gemm m="));
  CHECK(events[0].isRegistered);
}

TEST_CASE("steps and layers of an engine are ranges") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  NvtxTool tool;
  REQUIRE(kiln_profile_begin(engine, KILN_PROFILE_STEP, "step 3") ==
          KILN_SUCCESS);
  REQUIRE(kiln_profile_begin(engine, KILN_PROFILE_LAYER, "layer 0") ==
          KILN_SUCCESS);
  REQUIRE(kiln_profile_end(engine) == KILN_SUCCESS);
  REQUIRE(kiln_profile_end(engine) == KILN_SUCCESS);
  CHECK(tool.outline() == "step step 3\n  layer layer 0\n");
  CHECK(kiln_profile_end(engine) == KILN_INVALID_ARGUMENT);
  CHECK(lastError() == "this thread has no range that is open");
  CHECK(kiln_profile_begin(engine, 77, "x") == KILN_UNSUPPORTED);
  CHECK(kiln_profile_begin(engine, KILN_PROFILE_STEP, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_profile_begin(nullptr, KILN_PROFILE_STEP, "x") ==
        KILN_INVALID_ARGUMENT);
}

TEST_CASE("a first call that waited is in the ledger, with its reason") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options(KILN_MODE_PREDICT);
  std::vector<std::string> heard;
  options.event_user = &heard;
  options.event = [](void *user, const kiln_event *event) {
    if (event->kind == KILN_EVENT_WAIT)
      static_cast<std::vector<std::string> *>(user)->push_back(
          std::string(event->key) + "|" + event->problem + "|" +
          event->message);
  };
  fixture.nvrtc.delayWhen("kiln", kCompilationMs);
  kiln_engine *engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  uint64_t position = 0;
  const auto waits = waitsOf(engine, position);
  REQUIRE(waits.size() == 1);
  CHECK(std::string(waits[0].call) == "kiln_gemm");
  CHECK(std::string(waits[0].phase) == "compile");
  CHECK(std::string(waits[0].reason) == "a kernel is compiled");
  CHECK(llvm::StringRef(waits[0].problem).starts_with("gemm m="));
  // The compiler may begin ahead of the phase.
  CHECK(waits[0].phase_ns >= kCompilationMs * 500'000);
  CHECK(waits[0].elapsed_ns >= waits[0].phase_ns);
  CHECK(waits[0].thread == observe::threadId());
  REQUIRE(heard.size() == 1);
  CHECK(llvm::StringRef(heard[0]).starts_with("kiln_gemm|gemm m="));
  CHECK(llvm::StringRef(heard[0]).contains("a kernel is compiled"));
  // A hit is not.
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  CHECK(waitsOf(engine, position).empty());
  // A preparation is.
  kiln_problem problem = problemOf("gemm m=77 n=512 k=256 dtype=fp16");
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  const auto later = waitsOf(engine, position);
  REQUIRE(later.size() == 1);
  CHECK(std::string(later[0].call) == "kiln_prepare");
  CHECK(llvm::StringRef(later[0].problem).starts_with("gemm m=77"));
}

TEST_CASE("the ledger is read in parts") {
  RuntimeFixture fixture;
  fixture.nvrtc.delayWhen("kiln", 3);
  kiln_engine *engine = fixture.engine();
  for (const char *text : {"softmax rows=64 cols=512 dtype=bf16",
                           "softmax rows=64 cols=512 dtype=fp16",
                           "softmax rows=64 cols=512 dtype=fp32"}) {
    kiln_problem problem = problemOf(text);
    REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) ==
            KILN_SUCCESS);
  }
  uint64_t position = 0;
  kiln_wait waits[2] = {KILN_INIT(kiln_wait)};
  size_t count = 0;
  auto read = [&] { return kiln_waits(engine, &position, waits, 2, &count); };
  REQUIRE(read() == KILN_SUCCESS);
  CHECK(count == 2);
  CHECK(waits[1].struct_size == sizeof(kiln_wait));
  CHECK(llvm::StringRef(waits[1].problem).contains("fp16"));
  REQUIRE(read() == KILN_SUCCESS);
  CHECK(count == 1);
  CHECK(llvm::StringRef(waits[0].problem).contains("fp32"));
  REQUIRE(read() == KILN_SUCCESS);
  CHECK(count == 0);
  waits[0].struct_size = sizeof(kiln_wait) + 4;
  CHECK(read() == KILN_INVALID_ARGUMENT);
  CHECK(kiln_waits(engine, nullptr, waits, 2, &count) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_waits(engine, &position, nullptr, 2, &count) ==
        KILN_INVALID_ARGUMENT);
}

TEST_CASE("a trace of a first call: phases, threads, flows") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine(fixture.options(KILN_MODE_TUNE));
  judgeTrials();
  const std::string path = fixture.cache / "trace.json";
  REQUIRE(kiln_trace_start(path.c_str()) == KILN_SUCCESS);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  fixture.destroyAll();
  REQUIRE(kiln_trace_stop() == KILN_SUCCESS);
  REQUIRE(kiln_trace_stop() == KILN_SUCCESS);
  auto parsed = llvm::json::parse(readBytes(path));
  REQUIRE(static_cast<bool>(parsed));
  std::set<std::string> phases, threads;
  std::map<int64_t, int> flowEnds;
  for (const llvm::json::Value &value :
       *parsed->getAsObject()->getArray("traceEvents")) {
    const llvm::json::Object &event = *value.getAsObject();
    if (event.getString("ph") == "X")
      phases.insert(event.getString("cat")->str());
    if (event.getString("cat") == "flow")
      flowEnds[*event.getInteger("id")] +=
          event.getString("ph") == "s" ? 1 : 16;
    if (event.getString("name") == "thread_name")
      threads.insert(event.getObject("args")->getString("name")->str());
  }
  for (const char *phase : {"call", "canonicalise", "lookup", "plan", "compile",
                            "load", "trial", "launch"}) {
    CAPTURE(phase);
    CHECK(phases.count(phase) == 1);
  }
  CHECK(threads.count("kiln-compile") == 1);
  CHECK_FALSE(flowEnds.empty());
  for (const auto &[id, ends] : flowEnds)
    CHECK(ends == 17);
  CHECK(kiln_trace_start("/no/such/folder/x.json") == KILN_IO);
  CHECK(kiln_trace_start(nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("an engine keeps its counts and waits in a file") {
  RuntimeFixture fixture;
  const std::string path = fixture.cache / "stats-%p.json";
  const ScopedVariable variable("KILN_STATISTICS", path);
  kiln_engine_options options = fixture.options();
  options.flags = 0;
  fixture.nvrtc.delayWhen("kiln", kCompilationMs);
  kiln_engine *engine = fixture.engine(options);
  kiln_engine *second = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  kiln_statistics counts = KILN_INIT(kiln_statistics);
  REQUIRE(kiln_get_statistics(engine, &counts) == KILN_SUCCESS);
  CHECK(counts.waits == 1);
  CHECK(counts.wait_ns == counts.longest_wait_ns);
  CHECK(counts.wait_ns >= kCompilationMs * 1'000'000);
  fixture.destroy(second);
  fixture.destroy(engine);
  std::vector<llvm::json::Object> files;
  for (const auto &entry :
       std::filesystem::directory_iterator(fixture.cache.path))
    if (entry.path().filename().string().starts_with("stats-")) {
      auto parsed = llvm::json::parse(readBytes(entry.path()));
      REQUIRE(static_cast<bool>(parsed));
      files.push_back(*parsed->getAsObject());
    }
  REQUIRE(files.size() == 2);
  if (files[0].getArray("waits")->empty()) // the second engine's
    std::swap(files[0], files[1]);
  const llvm::json::Object *told = files[0].getObject("statistics");
  REQUIRE(told);
  CHECK(told->getInteger("launches") == 1);
  CHECK(told->getInteger("wait_ns") == int64_t(counts.wait_ns));
  CHECK(told->getInteger("compile_ns"));
  CHECK(told->getInteger("host_peak_bytes"));
  REQUIRE(files[0].getArray("waits")->size() == 1);
  const llvm::json::Object &wait =
      *files[0].getArray("waits")->front().getAsObject();
  CHECK(wait.getString("call") == "kiln_gemm");
  CHECK(wait.getString("phase") == "compile");
  CHECK(files[1].getArray("waits")->empty());
}

TEST_CASE("a file of counts replaces nothing but files of counts") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.flags = 0;
  std::string logged;
  options.log_user = &logged;
  options.log = [](void *user, kiln_log_level, const char *message) {
    *static_cast<std::string *>(user) += message;
  };
  const std::string pipe = fixture.cache / "pipe",
                    link = fixture.cache / "link",
                    folder = fixture.cache / "folder",
                    file = fixture.cache / "file";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink(file.c_str(), link.c_str()) == 0);
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  for (const std::string &path : {pipe, link, folder}) {
    CAPTURE(path);
    const ScopedVariable variable("KILN_STATISTICS", path);
    logged.clear();
    struct stat before = {}, after = {};
    REQUIRE(::lstat(path.c_str(), &before) == 0);
    fixture.destroy(fixture.engine(options));
    REQUIRE(::lstat(path.c_str(), &after) == 0);
    CHECK(before.st_ino == after.st_ino);
    CHECK(logged.find(path + " cannot be written") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(file));
  // Engines one after the other have one file, and leave nothing else.
  const ScopedVariable variable("KILN_STATISTICS", file);
  for (int i = 0; i < 3; ++i)
    fixture.destroy(fixture.engine(options));
  std::vector<std::string> files;
  for (const auto &entry :
       std::filesystem::directory_iterator(fixture.cache.path))
    if (std::filesystem::is_regular_file(entry.symlink_status()))
      files.push_back(entry.path().filename().string());
  CAPTURE(files.back());
  CHECK(files == std::vector<std::string>{"file"});
}

TEST_CASE("an event of a wait may call what waits") {
  RuntimeFixture fixture;
  struct Heard {
    kiln_engine *engine = nullptr;
    int events = 0;
  } heard;
  kiln_engine_options options = fixture.options();
  options.event_user = &heard;
  options.event = [](void *user, const kiln_event *event) {
    auto *self = static_cast<Heard *>(user);
    if (event->kind != KILN_EVENT_WAIT)
      return;
    ++self->events;
    for (const char *type : {"fp16", "fp32"}) { // compiles: a wait of its own
      const std::string text =
          std::string("softmax rows=64 cols=512 dtype=") + type;
      kiln_problem problem = problemOf(text.c_str());
      (void)kiln_prepare(self->engine, &problem, 1, nullptr, nullptr);
    }
  };
  fixture.nvrtc.delayWhen("kiln", 5);
  heard.engine = fixture.engine(options);
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(heard.engine, &args, nullptr, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  CHECK(heard.events == 1);
  uint64_t position = 0;
  CHECK(waitsOf(heard.engine, position).size() == 3);
}

TEST_CASE("a profiler may be started and stopped by calls") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  REQUIRE(kiln_profiler_start(engine) == KILN_SUCCESS);
  REQUIRE(kiln_profiler_stop(engine) == KILN_SUCCESS);
  CHECK(kilnFakeCallCount("cuProfilerStart") == 1);
  CHECK(kilnFakeCallCount("cuProfilerStop") == 1);
  CHECK(kiln_profiler_start(nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("KILN_PROFILE that cannot be read is refused") {
  RuntimeFixture fixture;
  kiln_engine_options options = fixture.options();
  options.flags = 0;
  for (const char *text :
       {"launch:1-2", "launches", "launches:", "launches:0-3", "launches:3-2",
        "steps:1-", "steps:-4", "steps:1-2x", "launches:1-2-3"}) {
    const ScopedVariable variable("KILN_PROFILE", text);
    CAPTURE(text);
    kiln_engine *engine = nullptr;
    CHECK(kiln_engine_create(&options, &engine) == KILN_INVALID_ARGUMENT);
    CHECK(lastError().find(text) != std::string::npos);
  }
}

// The window belongs to the process, so each is tried in a child.
static bool recordsInChild(const char *window,
                           const std::function<bool()> &check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("KILN_PROFILE", window, 1);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

TEST_CASE("a profiler records the launches of the window alone") {
  CHECK(recordsInChild("launches:3-5", [] {
    RuntimeFixture fixture;
    kiln_engine_options options = fixture.options();
    options.flags = 0;
    kiln_engine *engine = fixture.engine(options);
    Recorded recorded;
    kiln_gemm_args args = gemmArgs();
    bool isGood = true;
    for (int i = 0; i < 8; ++i)
      isGood &= kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
                KILN_SUCCESS;
    return isGood && recorded.recorded == std::set<uint64_t>{3, 4, 5} &&
           kilnFakeCallCount("cuProfilerStop") == 1;
  }));
}

TEST_CASE("a profiler records the steps of the window alone") {
  CHECK(recordsInChild("steps:2", [] {
    RuntimeFixture fixture;
    kiln_engine_options options = fixture.options();
    options.flags = 0;
    kiln_engine *engine = fixture.engine(options);
    Recorded recorded;
    kiln_gemm_args args = gemmArgs();
    bool isGood = true;
    for (int i = 0; i < 4; ++i) {
      kiln_profile_begin(engine, KILN_PROFILE_STEP, "step");
      kiln_profile_begin(engine, KILN_PROFILE_LAYER, "layer");
      for (int n = 0; n < 2; ++n)
        isGood &= kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
                  KILN_SUCCESS;
      kiln_profile_end(engine);
      kiln_profile_end(engine);
    }
    return isGood && recorded.recorded == std::set<uint64_t>{3, 4};
  }));
}

TEST_CASE("a child has a window of its own") {
  RuntimeFixture parents;
  {
    const ScopedVariable variable("KILN_PROFILE", "launches:1000");
    kiln_engine_options options = parents.options();
    options.flags = 0;
    parents.engine(options);
  }
  CHECK(recordsInChild("launches:1", [&] {
    kiln_engine_options options = parents.options();
    options.flags = 0;
    kiln_engine *engine = nullptr;
    kiln_gemm_args args = gemmArgs();
    return kiln_engine_create(&options, &engine) == KILN_SUCCESS &&
           kiln_gemm(engine, &args, nullptr, parents.gpu.stream()) ==
               KILN_SUCCESS &&
           kilnFakeCallCount("cuProfilerStop") == 1;
  }));
}

TEST_CASE("a child does not count its parent's steps") {
  CHECK(recordsInChild("steps:1-2", [] {
    RuntimeFixture parents;
    kiln_engine_options options = parents.options();
    options.flags = 0;
    kiln_engine *engine = parents.engine(options);
    auto begin = [&] {
      return kiln_profile_begin(engine, KILN_PROFILE_STEP, "step") ==
             KILN_SUCCESS;
    };
    auto end = [&] { return kiln_profile_end(engine) == KILN_SUCCESS; };
    auto stops = [] { return kilnFakeCallCount("cuProfilerStop"); };
    return begin() && recordsInChild("steps:1-2", [&] {
             return kiln_engine_create(&options, &engine) == KILN_SUCCESS &&
                    begin() && end() &&      // its first
                    end() && stops() == 0 && // the parent's
                    begin() && end() && stops() == 1;
           });
  }));
}

TEST_CASE("the end of a window spoils no capture") {
  CHECK(recordsInChild("launches:1-2", [] {
    RuntimeFixture fixture;
    kiln_engine_options options = fixture.options();
    options.flags = 0;
    kiln_engine *engine = fixture.engine(options);
    kiln_gemm_args args = gemmArgs();
    bool isGood =
        kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) == KILN_SUCCESS;
    isGood &= beginCapture(fixture, fixture.gpu.stream());
    isGood &=
        kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) == KILN_SUCCESS;
    return isGood && endCapture(fixture, fixture.gpu.stream()) > 0 &&
           kilnFakeCallCount("cuProfilerStop") == 1;
  }));
}
