//===- TraceSamples.h - traces for tests ----------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace kiln::testing {

/// The first line of a trace.
inline const std::string kTraceHead =
    R"({"displayTimeUnit":"ns","otherData":{"kiln":"0.1.0","pid":"12",)"
    R"("unix_ns":"1764000000000000000","device":"H200"},"traceEvents":[)";

/// A trace with \p events in the form that an engine writes.
inline std::string traceOf(const std::vector<std::string> &events) {
  std::string text = kTraceHead;
  for (const std::string &event : events)
    text += (&event == &events.front() ? "\n" : "\n,") + event;
  return text + "\n]}\n";
}

/// An interval; \p what may be empty.
inline std::string intervalOf(const std::string &name, const std::string &phase,
                              const std::string &ts, const std::string &dur,
                              int tid = 77, const std::string &what = "") {
  return R"({"ph":"X","name":")" + name + R"(","cat":")" + phase +
         R"(","ts":)" + ts + R"(,"dur":)" + dur + R"(,"pid":12,"tid":)" +
         std::to_string(tid) +
         (what.empty() ? "" : R"(,"args":{"what":")" + what + R"("})") + "}";
}

/// Two calls of one thread, the first of which compiles on another one.
inline std::vector<std::string> sampleEvents() {
  return {
      R"({"ph":"M","name":"process_name","pid":12,"tid":0,"args":{"name":"server"}})",
      R"({"ph":"M","name":"thread_name","pid":12,"tid":77,"args":{"name":"main"}})",
      R"({"ph":"M","name":"thread_name","pid":12,"tid":78,"args":{"name":"pool"}})",
      intervalOf("plan", "plan", "1010.000", "40.500", 77, "gemm m=16"),
      R"({"ph":"s","id":5,"name":"compile","cat":"flow","ts":1060,"pid":12,"tid":77})",
      R"({"ph":"f","bp":"e","id":5,"name":"compile","cat":"flow","ts":1560,"pid":12,"tid":78})",
      intervalOf("compile", "compile", "1560", "3000", 78, "kiln_gemm_a"),
      intervalOf("wait", "wait", "1065", "3500"),
      intervalOf("load", "load", "4600", "100"),
      intervalOf("lookup", "lookup", "1005", "3900"),
      intervalOf("kiln_gemm", "call", "1000", "4000", 77, "gemm m=16 n=4096"),
      R"({"ph":"i","s":"t","name":"hit","cat":"launch","ts":5001,"pid":12,"tid":77})",
      R"({"ph":"C","name":"arena bytes","ts":5001,"pid":12,"tid":0,"args":{"bytes":512}})",
      R"({"ph":"C","name":"arena bytes","ts":5002,"pid":12,"tid":0,"args":{"bytes":256}})",
      intervalOf("kiln_gemm", "call", "5005", "12.250", 77, "gemm m=32"),
      intervalOf("step", "range", "900", "4200"),
  };
}

} // namespace kiln::testing
