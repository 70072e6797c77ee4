//===- ToolRunner.h - runs a command and keeps its output -----------------===//
#pragma once

#include "Support/TemporaryFolder.h"

#include <llvm/Support/JSON.h>

#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace kiln::testing {

/// The result of one run of the command.
struct ToolResult {
  int code = -1; ///< exit code; minus the signal that killed it
  std::string out, err;
  std::string tool;      ///< the program's name
  double cpuSeconds = 0; ///< user and system

  /// The one JSON document on stdout; fails the test without one.
  llvm::json::Object json() const;
  /// True if stderr is exactly one line, of an error of the program that ran.
  bool hasOneErrorLine() const;
};

/// An environment without GPU, driver and cache of its own, with the stand-in
/// NVRTC.
class Tool {
public:
  Tool();

  /// \p meanwhile, if given, is called with the running process.
  ToolResult run(const std::vector<std::string> &arguments,
                 const std::function<void(pid_t)> &meanwhile = nullptr) const;
  /// As above; splits the arguments at spaces.
  ToolResult run(const std::string &line) const;

  /// Writes a suite and answers its path.
  std::string suite(const std::string &json,
                    const std::string &name = "suite.json") const;

  TemporaryFolder folder;
  /// The whole environment of the child.
  std::map<std::string, std::string> environment;
  std::string stdoutPath; ///< where stdout goes instead of a file of ours
  std::string program;    ///< runs instead of the built tool; empty: none

protected:
  std::string name = "kiln", built; ///< of the tool
};

#ifdef KILN_BENCH_TOOL
/// As above for kiln-bench.
class BenchTool : public Tool {
public:
  BenchTool() {
    name = "kiln-bench";
    built = KILN_BENCH_TOOL;
  }
};
#endif

/// A problem that every command handles in no time.
inline const std::string kSmallProblem = "gemm m=64 n=64 k=64 dtype=bf16";

/// The path of a library of the build folder.
std::string builtLibrary(const std::string &name);

} // namespace kiln::testing
