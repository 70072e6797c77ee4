#include "Compile/ResourceLimits.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kiln;
namespace fs = std::filesystem;

TEST_CASE("cpu quotas of both generations") {
  CHECK(parseCpuMax("200000 100000\n") == 2.0);
  CHECK(parseCpuMax("50000 100000") == 0.5);
  for (const char *text : {"max 100000\n", "", "100000", "-1 100000", "x y",
                           "100000 0", "1Q 100000"})
    CHECK_FALSE(parseCpuMax(text));
  CHECK(parseCfsQuota("150000\n", "100000\n") == 1.5);
  CHECK_FALSE(parseCfsQuota("-1\n", "100000\n"));
}

TEST_CASE("memory figures of both generations") {
  CHECK(parseMemoryBytes("1073741824\n") == 1073741824u);
  for (const char *text : {"max\n", "9223372036854771712\n", "", "1Q", "-1"})
    CHECK_FALSE(parseMemoryBytes(text));
  const char stat[] = "anon 1\ninactive_file 4096\nfile 2\n";
  CHECK(parseStat(stat, "inactive_file") == 4096u);
  CHECK_FALSE(parseStat(stat, "inactive"));
  CHECK(parseMemAvailable("MemTotal:  8 kB\nMemAvailable:   1024 kB\n") ==
        1024u * 1024);
  CHECK_FALSE(parseMemAvailable("MemTotal: 8 kB\n"));
}

TEST_CASE("a controller's group is found") {
  const char v1[] = "5:memory:/m\n4:cpu,cpuacct:/c\n1:name=systemd:/s\n";
  CHECK(parseCgroupPath(v1, "memory") == "/m");
  CHECK(parseCgroupPath(v1, "cpu") == "/c");
  CHECK_FALSE(parseCgroupPath(v1, ""));
  CHECK(parseCgroupPath("0::/user.slice/x:y\n", "") == "/user.slice/x:y");
}

namespace {
/// A directory with the files of a control group hierarchy.
class Tree {
public:
  Tree()
      : root(fs::temp_directory_path() /
             ("kiln-cgroup-" + std::to_string(getpid()))) {
    fs::remove_all(root);
  }
  ~Tree() { fs::remove_all(root); }
  void write(const std::string &path, const std::string &text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  CgroupLimits read() const { return readCgroupLimits(root.string()); }

private:
  fs::path root;
};
} // namespace

TEST_CASE("every ancestor of a group limits") {
  Tree tree;
  tree.write("proc/self/cgroup", "0::/a/b\n");
  tree.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  tree.write("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  tree.write("sys/fs/cgroup/a/b/memory.max", "1000000\n");
  tree.write("sys/fs/cgroup/a/b/memory.current", "600000\n");
  tree.write("sys/fs/cgroup/a/b/memory.stat", "inactive_file 200000\n");
  tree.write("sys/fs/cgroup/a/memory.max", "700000\n");
  tree.write("sys/fs/cgroup/a/memory.current", "650000\n");
  CgroupLimits limits = tree.read();
  CHECK(limits.cpus == 3.0);
  CHECK(limits.memoryBytes == 50000u);
}

TEST_CASE("version 1, seen from inside a container") {
  Tree tree;
  tree.write("proc/self/cgroup",
             "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  CgroupLimits limits = tree.read();
  CHECK(limits.cpus == 2.5);
  CHECK(limits.memoryBytes == 0u);
}

TEST_CASE("no control groups are no limit") {
  Tree tree;
  CHECK_FALSE(tree.read().cpus);
  CHECK_FALSE(tree.read().memoryBytes);
}

TEST_CASE("this machine has something") {
  CHECK(availableCpus() >= 1);
  REQUIRE(availableMemoryBytes());
  CHECK(*availableMemoryBytes() > 0);
}
