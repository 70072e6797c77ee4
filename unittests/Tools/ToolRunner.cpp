//===- ToolRunner.cpp -----------------------------------------------------===//
#include "Tools/ToolRunner.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>

namespace kiln::testing {

std::string builtLibrary(const std::string &name) {
  return std::string(KILN_BINARY_DIR) + "/lib/" + name;
}

llvm::json::Object ToolResult::json() const {
  auto value = parseJson(out, "stdout");
  if (!value) {
    FAIL(summarize(value.takeError()).message << "\n" << out << err);
    return {};
  }
  REQUIRE(value->getAsObject());
  return std::move(*value->getAsObject());
}

bool ToolResult::hasOneErrorLine() const {
  const std::string start = tool + ": error: ";
  return err.size() > start.size() + 1 && err.rfind(start, 0) == 0 &&
         err.find('\n') == err.size() - 1;
}

Tool::Tool() {
  built = KILN_TOOL;
  environment["PATH"] = "/usr/bin:/bin";
  environment["HOME"] = folder.path;
  environment["KILN_CACHE_DIR"] = folder / "cache";
  environment["KILN_NVRTC"] = builtLibrary("libkiln_fake_nvrtc.so");
  environment["KILN_DRIVER"] = "/nonexistent/libcuda.so";
  environment["KILN_NVML"] = "/nonexistent/libnvml.so";
  environment["KILN_CUBLASLT"] = "/nonexistent/libcublasLt.so";
  for (const char *name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const char *value = std::getenv(name))
      environment[name] = value;
}

/// Runs and waits; the result has no output yet.
static ToolResult spawnAndWait(const char *program,
                               std::vector<char *> arguments,
                               std::vector<char *> environment,
                               const posix_spawn_file_actions_t &actions,
                               const std::function<void(pid_t)> &meanwhile) {
  ToolResult result;
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program, &actions, nullptr, arguments.data(),
                      environment.data()) == 0);
  if (meanwhile)
    meanwhile(child);
  int status = 0;
  rusage usage{};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  auto seconds = [](const timeval &time) {
    return double(time.tv_sec) + double(time.tv_usec) * 1e-6;
  };
  result.cpuSeconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  return result;
}

ToolResult Tool::run(const std::vector<std::string> &arguments,
                     const std::function<void(pid_t)> &meanwhile) const {
  std::string out = stdoutPath.empty() ? folder / "stdout" : stdoutPath;
  std::string err = folder / "stderr";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<std::string> words = {name}, pairs;
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const auto &[name, value] : environment)
    pairs.push_back(name + "=" + value);
  auto pointers = [](std::vector<std::string> &texts) {
    std::vector<char *> all;
    for (std::string &text : texts)
      all.push_back(text.data());
    return all;
  };
  ToolResult result =
      spawnAndWait(program.empty() ? built.c_str() : program.c_str(),
                   pointers(words), pointers(pairs), actions, meanwhile);
  posix_spawn_file_actions_destroy(&actions);
  result.tool = name;
  if (stdoutPath.empty())
    result.out = readBytes(out);
  result.err = readBytes(err);
  return result;
}

ToolResult Tool::run(const std::string &line) const {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return run(words);
}

std::string Tool::suite(const std::string &json,
                        const std::string &name) const {
  std::string path = folder / name;
  writeBytes(path, json);
  return path;
}

} // namespace kiln::testing
