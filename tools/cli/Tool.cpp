//===- Tool.cpp - a program of commands -----------------------------------===//
#include "cli/Tool.h"

#include "Compile/CompilePool.h"
#include "Families/Families.h"
#include "Support/OutOfMemory.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kiln::cli {

const char *version() { return KILN_VERSION; }

static std::string overview(const ToolSpec &tool) {
  std::string text = fmt::format("usage: {} COMMAND [options] [operands]\n\n"
                                 "{}\n\ncommands\n",
                                 tool.name, tool.summary);
  size_t width = 0;
  for (const CommandSpec *command : tool.commands)
    width = std::max(width, llvm::StringRef(command->name).size());
  for (const CommandSpec *command : tool.commands)
    text +=
        fmt::format("  {:<{}}  {}\n", command->name, width, command->summary);
  return text + fmt::format(
                    "\n{0} COMMAND --help tells more, {0} --version which this "
                    "is.\n\nexit codes: 0 done, 1 some work failed, 2 bad "
                    "input, 3 no GPU, driver or NVRTC\n",
                    tool.name);
}

static llvm::Expected<int> answer(llvm::StringRef text) {
  if (llvm::Error error = writeOutput(text))
    return error;
  return kExitDone;
}

static llvm::Expected<int> runCommand(const CommandSpec &command,
                                      llvm::ArrayRef<llvm::StringRef> words) {
  auto options = ParsedOptions::parse(command, words);
  if (!options)
    return options.takeError();
  if (options->has("--help"))
    return answer(helpText(command, makeBuiltinRegistry().example()));
  return command.run(*options);
}

static llvm::Error unknownCommand(const ToolSpec &tool, llvm::StringRef name) {
  if (llvm::is_contained(tool.siblingCommands, name))
    return makeError(ErrorCode::InvalidArgument,
                     "unknown command '{}', it is one of {}", name,
                     tool.sibling);
  std::vector<llvm::StringRef> known;
  for (const CommandSpec *command : tool.commands)
    known.push_back(command->name);
  llvm::StringRef meant = nearest(name, known);
  return makeError(ErrorCode::InvalidArgument, "unknown command '{}'{}", name,
                   meant.empty() ? fmt::format(", see {} --help", tool.name)
                                 : fmt::format(", did you mean {}?", meant));
}

static llvm::Expected<int> dispatch(const ToolSpec &tool,
                                    llvm::ArrayRef<llvm::StringRef> words) {
  if (words.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "no command given, see {} --help", tool.name);
  llvm::StringRef name = words.front();
  if (name == "--help" || name == "-h" || name == "help")
    return answer(overview(tool));
  if (name == "--version")
    return answer(fmt::format("{} {}\n", tool.name, version()));
  for (const CommandSpec *command : tool.commands)
    if (name == command->name)
      return runCommand(*command, words.drop_front());
  return unknownCommand(tool, name);
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

/// Ends the program where memory is out; allocates nothing.
[[noreturn]] static void endWithoutMemory() {
  static constexpr char kText[] = ": error: out of memory\n";
  (void)!::write(STDERR_FILENO, toolName(), std::strlen(toolName()));
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(kExitSomeFailed);
}

/// Memory may be out on any thread, and where no exception may leave.
static void onTerminate() {
  try {
    if (std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::bad_alloc &) {
    endWithoutMemory();
  } catch (...) {
  }
  std::abort();
}

static int exitCodeOf(llvm::Expected<int> code) {
  if (code)
    return *code;
  ErrorSummary error = summarize(code.takeError());
  printError(error.message);
  return exitCodeOf(error.code);
}

int runTool(const ToolSpec &tool, int argc, char **argv) {
  setToolName(tool.name);
  std::set_terminate(onTerminate);
  throwWhereMemoryIsOut();
  keepFreedMemory();
  prepareStreams();
  std::atexit(failUnlessEnded);
  llvm::SmallVector<llvm::StringRef, 32> words(argv + (argc > 0), argv + argc);
  int code = exitCodeOf(dispatch(tool, words));
  // A compilation that hangs may hold what exit handlers wait for.
  if (CompilePool::lostInProcess() > 0)
    ::_exit(code);
  hasEnded.store(true);
  return code;
}

} // namespace kiln::cli
