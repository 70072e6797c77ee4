// Reading traces: cut, damaged, foreign.
#include "trace/TraceFile.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/TemporaryFolder.h"
#include "Tools/TraceSamples.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

namespace {

/// A trace with \p text, read; fails the test where that fails.
TraceFile readTrace(const std::string &text) {
  TemporaryFolder folder;
  writeBytes(folder / "t.json", text);
  return llvm::cantFail(TraceFile::read(folder / "t.json"));
}

std::string closedTrace(const std::string &text) {
  TemporaryFolder folder;
  writeBytes(folder / "t.json", text);
  return llvm::cantFail(TraceFile::close(folder / "t.json"));
}

std::string refusalOfTrace(const std::string &text) {
  TemporaryFolder folder;
  writeBytes(folder / "t.json", text);
  auto trace = TraceFile::read(folder / "t.json");
  return trace ? "" : summarize(trace.takeError()).message;
}

/// The contract's rule: all lines of events that a line end follows.
std::string closedByRule(const std::string &text) {
  if (text.size() < kTraceHead.size())
    return "{\"traceEvents\":[\n]}\n";
  const size_t last = text.rfind('\n');
  if (last == std::string::npos || last == kTraceHead.size())
    return kTraceHead + "\n]}\n";
  const size_t end = text.rfind("\n]}", last);
  return text.substr(0, std::min(last, end)) + "\n]}\n";
}

} // namespace

TEST_CASE("a whole trace is read and closed as it is") {
  const std::string text = traceOf(sampleEvents());
  TraceFile trace = readTrace(text);
  CHECK(trace.about("kiln") == "0.1.0");
  CHECK(trace.about("pid") == "12");
  CHECK(trace.about("process") == "server");
  CHECK(trace.isOurs());
  REQUIRE(trace.intervals().size() == 8);
  const TraceInterval &plan = trace.intervals()[0];
  CHECK(trace.text(plan.name) == "plan");
  CHECK(trace.text(plan.what) == "gemm m=16");
  CHECK(plan.startNs == 1010000);
  CHECK(plan.endNs == 1050500);
  CHECK(trace.threads()[plan.thread].title() == "main");
  REQUIRE(trace.flows().size() == 1);
  CHECK(trace.flows()[0].to.ns - trace.flows()[0].from.ns == 500000);
  CHECK(trace.counters().at("arena bytes").last == 256);
  CHECK(trace.counters().at("arena bytes").most == 512);
  CHECK(trace.instants().at("hit") == 1);
  CHECK_FALSE(trace.faults().isCut);
  CHECK(trace.faults().damaged == 0);
  CHECK(closedTrace(text) == text);
}

TEST_CASE("a trace that is cut at any byte has the events in front of it") {
  const std::string text = traceOf(sampleEvents());
  for (size_t bytes = 0; bytes <= text.size(); ++bytes) {
    CAPTURE(bytes);
    const std::string cut = text.substr(0, bytes);
    const std::string closed = closedTrace(cut);
    llvm::json::Value document =
        llvm::cantFail(parseJson(closed, "the closed trace"));
    CHECK(closed == closedByRule(cut));
    TraceFile half = readTrace(cut), whole = readTrace(closed);
    CHECK(half.intervals().size() == whole.intervals().size());
    CHECK(half.flows().size() == whole.flows().size());
    CHECK(half.faults().damaged == 0);
    CHECK(half.faults().isCut == (bytes < text.find("\n]}") + 3));
  }
}

TEST_CASE("damage costs the events that it meets") {
  const std::string text = traceOf(sampleEvents());
  const size_t whole = 8;
  for (size_t begin = kTraceHead.size(); begin < text.size(); begin += 7)
    for (std::string damage :
         {std::string(40, '\0'), std::string("}}}]]]"), std::string("\"{\n"),
          std::string("\\\xff[[{{")}) {
      CAPTURE(begin);
      std::string damaged = text;
      damage.resize(std::min(damage.size(), text.size() - begin), ' ');
      damaged.replace(begin, damage.size(), damage);
      TraceFile trace = readTrace(damaged);
      // 40 bytes touch three lines at most.
      CHECK(trace.intervals().size() >= whole - 3);
      CHECK(trace.intervals().size() <= whole);
      llvm::consumeError(parseJson(closedTrace(damaged), "").takeError());
    }
  std::string damaged = text;
  damaged.replace(text.find("\"wait\""), 1, "\0", 1);
  TraceFile trace = readTrace(damaged);
  CHECK(trace.intervals().size() == whole - 1);
  CHECK(trace.faults().damaged == 1);
  llvm::cantFail(parseJson(closedTrace(damaged), "closed"));
}

TEST_CASE("fields that are odd, missing or unknown") {
  auto faultsOf = [](const std::string &event) {
    return readTrace(traceOf({event, intervalOf("a", "b", "1", "2")}));
  };
  for (const char *ts :
       {"1e300", "-1e17", "2.", "01", "+5", ".5", "\"5\"", "null", "[]"}) {
    CAPTURE(ts);
    TraceFile trace = faultsOf(intervalOf("x", "y", ts, "1"));
    CHECK(trace.faults().damaged == 1);
    CHECK(trace.faults().first.find("line 2") != std::string::npos);
    CHECK(trace.intervals().size() == 1);
  }
  CHECK(faultsOf(R"({"name":"x"})").faults().damaged == 1);
  CHECK(faultsOf(R"({"ph":"Z","ts":3})").faults().unknown == 1);
  CHECK(faultsOf(R"({"ph":"E","ts":3,"tid":1})").faults().unpaired == 1);
  CHECK(
      faultsOf(R"({"ph":"C","name":"x","args":{"a":"b"}})").faults().damaged ==
      1);
  CHECK(faultsOf(R"({"ph":"i","name":"events lost","ts":1,"args":{"count":7}})")
            .faults()
            .unwritten == 7);
  // Unknown fields and a thread without number are no fault.
  TraceFile odd = faultsOf(R"({"ph":"X","new":[{}],"ts":1,"dur":1})");
  CHECK(odd.intervals().size() == 2);
  TraceFile negative = faultsOf(intervalOf("x", "y", "5", "-3"));
  CHECK(negative.faults().negative == 1);
  CHECK(negative.intervals()[0].startNs == negative.intervals()[0].endNs);
  // Bytes that are not UTF-8 are replaced.
  TraceFile latin = faultsOf(intervalOf("\xe4", "y", "5", "3"));
  CHECK(latin.text(latin.intervals()[0].name) == "\xef\xbf\xbd");
  TraceFile deep = faultsOf("{\"ph\":\"X\",\"a\":" + std::string(5000, '[') +
                            std::string(5000, ']') + "}");
  CHECK(deep.faults().damaged == 1);
}

TEST_CASE("an event that is too long is lost alone") {
  TraceFile trace = readTrace(
      traceOf({intervalOf("a", "b", "1", "2"),
               intervalOf("a", "b", "3", "2", 77, std::string(5 << 20, 'x')),
               intervalOf("a", "b", "7", "2")}));
  CHECK(trace.intervals().size() == 2);
  CHECK(trace.faults().damaged == 1);
}

TEST_CASE("flows have two ends, in either order") {
  auto end = [](const char *kind, int id, int ts) {
    return fmt::format(R"({{"ph":"{}","id":{},"name":"w","ts":{},"tid":{}}})",
                       kind, id, ts, ts);
  };
  TraceFile trace = readTrace(
      traceOf({end("f", 1, 9), end("s", 1, 4), end("s", 2, 5), end("f", 3, 6),
               end("s", 4, 1), end("s", 4, 2), end("f", 4, 8)}));
  REQUIRE(trace.flows().size() == 2);
  CHECK(trace.flows()[0].from.ns == 4000);
  CHECK(trace.flows()[0].to.ns == 9000);
  CHECK(trace.flows()[1].from.ns == 2000);
  CHECK(trace.faults().handedOver == 2);
  CHECK(trace.faults().received == 1);
}

TEST_CASE("traces of other programs are read") {
  const std::string events = R"([
  {
    "ph": "X", "cat": "cpu_op", "name": "mm", "pid": 1, "tid": 2,
    "ts": 100, "dur": 50, "args": {"Input Dims": [[1, 2], "}]"]}
  },
  {"ph":"B","cat":"c","name":"b","pid":1,"tid":"stream 7","ts":1},
  {"ph":"B","cat":"c","name":"open","pid":1,"tid":"stream 7","ts":2},
  {"ph":"E","pid":1,"tid":"stream 7","ts":9} ])";
  const std::string object =
      R"({"deviceProperties":[{"id":0}],"name":"traceEvents","traceEvents":)" +
      events + R"(,"more":[{"ph":"X"}]})";
  for (const std::string &text : {events, object}) {
    TraceFile trace = readTrace(text);
    CHECK_FALSE(trace.isOurs());
    CHECK(trace.faults().damaged == 0);
    REQUIRE(trace.intervals().size() == 3);
    CHECK(trace.text(trace.intervals()[1].name) == "open");
    CHECK(trace.faults().open == 1);
    CHECK(trace.intervals()[2].endNs == 150000);
    CHECK(readTrace(closedTrace(text)).intervals().size() == 3);
  }
}

TEST_CASE("other files are refused") {
  for (const char *text : {"hello", "{}", "{\"traceEvents\":3}", "]", "}{",
                           "\"traceEvents\":[", "12"}) {
    CAPTURE(text);
    CHECK(refusalOfTrace(text).find("is not a Chrome trace") !=
          std::string::npos);
  }
  CHECK(refusalOfTrace("") == "");
  CHECK(refusalOfTrace(" \n{\"displayTimeUnit\":") == "");
}
