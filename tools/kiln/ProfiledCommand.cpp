//===- ProfiledCommand.cpp ------------------------------------------------===//
#include "kiln/ProfiledCommand.h"

#include "Support/Error.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace kiln::cli {

llvm::Expected<std::string>
findHelper(const std::optional<std::string> &given) {
  namespace path = llvm::sys::path;
  constexpr llvm::StringLiteral kName = "libkiln_profiler.so";
  if (given) {
    llvm::SmallString<256> absolute(*given);
    if (llvm::sys::fs::is_regular_file(absolute) &&
        !llvm::sys::fs::make_absolute(absolute))
      return absolute.str().str();
    return makeError(ErrorCode::InvalidArgument, "--helper={} is no file",
                     *given);
  }
  static int here; // an address of this program
  const std::string program = llvm::sys::fs::getMainExecutable("kiln", &here);
  const std::string folder =
      path::parent_path(path::parent_path(program)).str();
  std::string searched;
  for (const char *library : {KILN_LIBRARY_FOLDER, "lib", "lib64"}) {
    const std::string file = folder + "/" + library + "/" + kName.str();
    if (llvm::sys::fs::is_regular_file(file))
      return file;
    if (searched.find(file) == std::string::npos)
      searched += (searched.empty() ? "" : ", ") + file;
  }
  return makeError(ErrorCode::Unsupported,
                   "the profiler's helper is not there (searched: {}); install "
                   "it beside the tool, or name it with --helper",
                   searched);
}

namespace {

/// A folder that goes with its files.
class OutputFolder {
public:
  OutputFolder() = default;
  OutputFolder(const OutputFolder &) = delete;
  OutputFolder &operator=(const OutputFolder &) = delete;
  ~OutputFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  llvm::Error make() {
    if (std::error_code failure =
            llvm::sys::fs::createUniqueDirectory("kiln-profile", path))
      return makeError(ErrorCode::Io, "no folder for the profile: {}",
                       failure.message());
    return llvm::Error::success();
  }
  std::string text() const { return path.str().str(); }

private:
  llvm::SmallString<128> path;
};

/// A terminal sends its signals to the command as well, which decides; this
/// process lives to tell what there is.
class SignalsIgnored {
public:
  SignalsIgnored() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], &ignore, &before[i]);
  }
  ~SignalsIgnored() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], &before[i], nullptr);
  }
  /// Adds the signals that the command gets back. Signals that were ignored
  /// when this program began stay ignored.
  void addUsual(sigset_t &signals) const {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      if (before[i].sa_handler != SIG_IGN)
        sigaddset(&signals, kSignals[i]);
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT};
  struct sigaction before[std::size(kSignals)] = {};
};

} // namespace

/// This environment with \p changes ("NAME=value") in place of its own.
static std::vector<std::string>
environmentWith(llvm::ArrayRef<std::string> changes) {
  std::vector<std::string> pairs(changes.begin(), changes.end());
  for (char **each = environ; each && *each; ++each) {
    llvm::StringRef name = llvm::StringRef(*each).split('=').first;
    if (llvm::none_of(changes, [&](llvm::StringRef change) {
          return change.split('=').first == name;
        }))
      pairs.push_back(*each);
  }
  return pairs;
}

static std::vector<char *> pointersTo(std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (std::string &text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

static llvm::Expected<pid_t> start(const ProfiledCommand &command,
                                   std::vector<std::string> environment,
                                   const SignalsIgnored &signals) {
  std::vector<std::string> words = command.words;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // prepareStreams() ignores the last two, which a command would inherit.
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGXFSZ);
  signals.addUsual(usual);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (command.hidesOutput)
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, words.front().c_str(), &actions, &attributes,
                     pointersTo(words).data(), pointersTo(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failure)
    return makeError(ErrorCode::InvalidArgument,
                     "{} cannot be started: {} (and no family of problems is "
                     "called so)",
                     command.words.front(), std::strerror(failure));
  return child;
}

llvm::Expected<ProfiledRun> runProfiled(const ProfiledCommand &command) {
  OutputFolder folder;
  if (llvm::Error error = folder.make())
    return error;
  const SignalsIgnored signals;
  auto child = start(command,
                     environmentWith({"CUDA_INJECTION64_PATH=" + command.helper,
                                      "NVTX_INJECTION64_PATH=" + command.helper,
                                      "KILN_PROFILER_OUT=" + folder.text(),
                                      std::string("KILN_PROFILER_FROM_START=") +
                                          (command.fromStart ? "1" : "0")}),
                     signals);
  if (!child)
    return child.takeError();
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0)
    if (errno != EINTR)
      return makeErrnoError(errno, command.words.front());
  auto data = ProfileData::read(folder.text());
  if (!data)
    return data.takeError();
  constexpr int kSignalled = 128;
  return ProfiledRun{std::move(*data), WIFEXITED(status)
                                           ? WEXITSTATUS(status)
                                           : kSignalled + WTERMSIG(status)};
}

} // namespace kiln::cli
