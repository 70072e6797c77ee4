// The command as a process: libraries that misbehave in it, signals, and the
// users that may choose which libraries it loads.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln::testing;
using Clock = std::chrono::steady_clock;

static const std::vector<std::string> kWarmup = {
    "warmup", "gemm m=64 n=64 k=64 dtype=bf16", "--device", "h200-sxm",
    "--no-cache"};

/// Runs a warm-up with a compiler that hangs; calls \p meanwhile once it does.
static ToolResult runHung(Tool &tool,
                          const std::function<void(pid_t)> &meanwhile) {
  const std::string mark = tool.folder / "hangs";
  tool.environment["KILN_FAKE_NVRTC"] = "hang";
  tool.environment["KILN_FAKE_NVRTC_MARK"] = mark;
  return tool.run(kWarmup, [&](pid_t process) {
    for (int i = 0; i < 60000 && !std::filesystem::exists(mark); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(std::filesystem::exists(mark));
    meanwhile(process);
  });
}

TEST_CASE("F11: a compiler that calls exit() is a failure") {
  Tool tool;
  tool.environment["KILN_FAKE_NVRTC"] = "exit";
  ToolResult result = tool.run(kWarmup);
  CHECK(result.code == 1);
  CHECK(result.hasOneErrorLine());
}

TEST_CASE("F12: an interrupt gives up a compilation that hangs, and says so") {
  for (int signal : {SIGINT, SIGTERM}) {
    Tool tool;
    Clock::time_point sent;
    ToolResult result = runHung(tool, [&](pid_t process) {
      sent = Clock::now();
      ::kill(process, signal);
    });
    // The grace is 2 s; a hung compilation would be given up after 120.
    CHECK(Clock::now() - sent < std::chrono::seconds(20));
    CHECK(result.code == 1);
    CHECK(result.out.find("abandoned after") != std::string::npos);
    CHECK(result.out.find("interrupted") != std::string::npos);
  }
}

TEST_CASE("F12: only a plain file is opened as a library") {
  Tool tool;
  const std::string fifo = tool.folder / "libnvrtc.so.13";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string &place : {fifo, tool.folder.path}) {
    std::vector<std::string> line = kWarmup;
    line.insert(line.end(), {"--nvrtc", place});
    ToolResult result = tool.run(line);
    CHECK(result.code == 3);
    CHECK(result.out.find("no plain file") != std::string::npos);
  }
}

/// Whether \p signal is ignored by \p process.
static bool isIgnored(pid_t process, int signal) {
  std::istringstream status(
      readBytes("/proc/" + std::to_string(process) + "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.rfind("SigIgn:", 0) == 0)
      return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
  return false;
}

TEST_CASE("F18: signals that were ignored at the start stay ignored") {
  Tool tool;
  auto interrupt = std::signal(SIGINT, SIG_IGN),
       hangUp = std::signal(SIGHUP, SIG_IGN);
  ToolResult result = runHung(tool, [&](pid_t process) {
    std::signal(SIGINT, interrupt);
    std::signal(SIGHUP, hangUp);
    CHECK(isIgnored(process, SIGINT));
    CHECK(isIgnored(process, SIGHUP));
    CHECK_FALSE(isIgnored(process, SIGTERM));
    ::kill(process, SIGINT);
    ::kill(process, SIGKILL);
  });
  CHECK(result.code == -SIGKILL);
}

TEST_CASE("F15: a setuid program takes no library from its caller") {
  const std::filesystem::path root = std::filesystem::temp_directory_path();
  struct statvfs mount = {};
  if (::geteuid() != 0 || ::statvfs(root.c_str(), &mount) != 0 ||
      (mount.f_flag & ST_NOSUID)) {
    MESSAGE("skipped: needs root and a folder where setuid counts");
    return;
  }
  Tool tool;
  std::string name = (root / "kiln-setuid-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()));
  REQUIRE(::chmod(name.c_str(), 0755) == 0);
  tool.program = name + "/kiln";
  std::filesystem::copy_file(KILN_TOOL, tool.program);
  tool.environment["KILN_NVRTC"] = "/nonexistent/of-the-caller.so";
  auto mentionsCaller = [&] {
    return tool.run("info --json --no-cache").out.find("of-the-caller") !=
           std::string::npos;
  };
  CHECK(mentionsCaller());
  // Setuid to another user, so that it has other rights than this test.
  REQUIRE(::chown(tool.program.c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(tool.program.c_str(), 04755) == 0);
  CHECK_FALSE(mentionsCaller());
  std::filesystem::remove_all(name);
}

TEST_CASE("a truncated NVRTC that the loader would find is told, not mapped") {
  Tool tool;
  const std::string whole = readBytes(builtLibrary("libkiln_fake_nvrtc.so"));
  const std::string cut = tool.folder / "cut/libnvrtc.so.13";
  writeBytes(cut, whole.substr(0, whole.size() / 2));
  tool.environment.erase("KILN_NVRTC");
  tool.environment["LD_LIBRARY_PATH"] = tool.folder / "cut";
  ToolResult result = tool.run("info --json --no-cache");
  REQUIRE(result.code == 0);
  // One that is found elsewhere serves.
  if (!result.json().getObject("nvrtc")->getBoolean("found").value_or(false))
    CHECK(result.out.find("truncated") != std::string::npos);
  // So does a whole one behind it.
  const std::string good = tool.folder / "good/libnvrtc.so.13";
  writeBytes(good, whole);
  tool.environment["LD_LIBRARY_PATH"] =
      (tool.folder / "cut") + ":" + (tool.folder / "good");
  result = tool.run("info --json --no-cache");
  REQUIRE(result.code == 0);
  CHECK(result.json().getObject("nvrtc")->getString("path") == good);
}

TEST_CASE("NVRTC without its builtins is one fault, which info tells") {
  Tool tool;
  const std::string library = tool.folder / "libnvrtc.so.13";
  // As the real one, it names what it opens.
  writeBytes(library, readBytes(builtLibrary("libkiln_fake_nvrtc.so")) +
                          "libnvrtc-builtins.so.13.0");
  tool.environment["KILN_NVRTC"] = library;
  // Wherever else the loader would find them, this comes first.
  writeBytes(tool.folder / "cut/libnvrtc-builtins.so.13.0", "cut");
  tool.environment["LD_LIBRARY_PATH"] = tool.folder / "cut";
  ToolResult info = tool.run("info --json --no-cache");
  REQUIRE(info.code == 0);
  const llvm::json::Object nvrtc = *info.json().getObject("nvrtc");
  CHECK(nvrtc.getBoolean("found") == false);
  CHECK(nvrtc.getString("error").value_or("").contains(
      "needs libnvrtc-builtins.so.13.0 beside it"));
  CHECK(tool.run(kWarmup).code == 3);
  writeBytes(tool.folder / "libnvrtc-builtins.so.13.0",
             readBytes(builtLibrary("libkiln_fake_nvrtc.so")));
  CHECK(tool.run(kWarmup).code == 0);
}

// The address sanitizer itself reserves terabytes.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("little memory is an error with a reason, not a signal") {
  Tool tool;
  for (int kilobytes : {45000, 50000, 55000, 60000, 80000, 100000, 150000}) {
    CAPTURE(kilobytes);
    tool.program = "/bin/sh";
    std::vector<std::string> line = {
        "-c", "ulimit -v " + std::to_string(kilobytes) + "; exec \"$0\" \"$@\"",
        KILN_TOOL};
    line.insert(line.end(), kWarmup.begin(), kWarmup.end());
    ToolResult result = tool.run(line);
    // 127: not even the loader has room.
    CHECK((result.code == 0 || result.code == 1 || result.code == 3 ||
           result.code == 127));
    CHECK(result.err.find("terminate called") == std::string::npos);
  }
}
#endif

TEST_CASE("a closed stdout is a failure") {
  Tool tool;
  tool.program = "/bin/sh";
  for (const char *command : {"info --no-cache", "--version", "plan --help"}) {
    CAPTURE(command);
    ToolResult result = tool.run(
        {"-c", std::string("exec ") + KILN_TOOL + " " + command + " >&-"});
    CHECK(result.code != 0);
    CHECK(result.err.find("standard output") != std::string::npos);
  }
}
