//===- Main.cpp - the kiln command: a table of contents -------------------===//
#include "Compile/CompilePool.h"
#include "Families/Families.h"
#include "kiln/Commands.h"
#include "kiln/Console.h"

#include <llvm/ADT/SmallVector.h>

#include <atomic>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace kiln;
using namespace kiln::cli;

static constexpr const CommandSpec *kCommands[] = {
    &kInfoCommand,   &kPlanCommand,  &kExplainCommand,
    &kWarmupCommand, &kTuneCommand,  &kBenchCommand,
    &kSweepCommand,  &kModelCommand, &kCacheCommand,
};

static std::string overview() {
  std::string text = "usage: kiln COMMAND [options] [operands]\n\n"
                     "Plans, compiles and measures GPU kernels.\n\ncommands\n";
  for (const CommandSpec *command : kCommands)
    text += fmt::format("  {:<8} {}\n", command->name, command->summary);
  return text + "\nkiln COMMAND --help tells more, kiln --version which this "
                "is.\n\nexit codes: 0 done, 1 some work failed, 2 bad input, "
                "3 no GPU, driver or NVRTC\n";
}

static llvm::Expected<int> runCommand(const CommandSpec &command,
                                      llvm::ArrayRef<llvm::StringRef> words) {
  auto options = ParsedOptions::parse(command, words);
  if (!options)
    return options.takeError();
  if (options->has("--help")) {
    std::string problem = makeBuiltinRegistry().example();
    if (llvm::Error error = writeOutput(helpText(command, problem)))
      return error;
    return kExitDone;
  }
  return command.run(*options);
}

static llvm::Expected<int> dispatch(llvm::ArrayRef<llvm::StringRef> words) {
  if (words.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "no command given, see kiln --help");
  llvm::StringRef name = words.front();
  std::string answer;
  if (name == "--help" || name == "-h" || name == "help")
    answer = overview();
  else if (name == "--version")
    answer = "kiln " KILN_VERSION "\n";
  if (!answer.empty()) {
    if (llvm::Error error = writeOutput(answer))
      return error;
    return kExitDone;
  }
  std::vector<llvm::StringRef> known;
  for (const CommandSpec *command : kCommands) {
    if (name == command->name)
      return runCommand(*command, words.drop_front());
    known.push_back(command->name);
  }
  llvm::StringRef meant = nearest(name, known);
  return makeError(ErrorCode::InvalidArgument, "unknown command '{}'{}", name,
                   meant.empty() ? std::string(", see kiln --help")
                                 : fmt::format(", did you mean {}?", meant));
}

/// Has malloc keep what NVRTC frees. It would hand memory back to the system
/// after each compilation and ask for it again, 3600 page faults a kernel, and
/// threads that compile take turns at those.
static void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

/// Whether main() is at its end.
static std::atomic<bool> hasEnded{false};

/// Runs where a library calls exit() in the midst of a command, which must not
/// look as if all were done.
static void failUnlessEnded() {
  if (hasEnded.load())
    return;
  printError("a library ended the program before its work was done");
  ::_exit(kExitSomeFailed);
}

static int runTool(llvm::ArrayRef<llvm::StringRef> words) {
  auto code = dispatch(words);
  if (code)
    return *code;
  ErrorSummary error = summarize(code.takeError());
  printError(error.message);
  return exitCodeOf(error.code);
}

int main(int argc, char **argv) {
  keepFreedMemory();
  prepareStreams();
  std::atexit(failUnlessEnded);
  llvm::SmallVector<llvm::StringRef, 32> words(argv + (argc > 0), argv + argc);
  int code = runTool(words);
  // A compilation that hangs may hold what exit handlers wait for.
  if (CompilePool::lostInProcess() > 0)
    ::_exit(code);
  hasEnded.store(true);
  return code;
}
