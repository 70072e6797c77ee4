//===- TemporaryFolder.h - a private folder that a test may fill ----------===//
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace kiln::testing {

/// Where temporary folders are made: in memory where that exists, because the
/// tests of the cache wait for thousands of fsyncs.
inline std::string temporaryRoot() {
  const char *chosen = std::getenv("TMPDIR");
  if (!chosen && ::access("/dev/shm", W_OK | X_OK) == 0)
    return "/dev/shm";
  return std::filesystem::temp_directory_path().string();
}

/// Exists, empty and 0700, until it goes out of scope.
class TemporaryFolder {
public:
  explicit TemporaryFolder(const std::string &root = temporaryRoot()) {
    std::string name = root + "/kiln-test-XXXXXX";
    path = ::mkdtemp(name.data()) ? name : "";
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;
};

inline std::string readBytes(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void writeBytes(const std::string &path, const std::string &bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Every file below \p folder with a name that starts with \p prefix.
inline std::vector<std::string> filesIn(const std::string &folder,
                                        const std::string &prefix = "") {
  std::vector<std::string> found;
  if (std::filesystem::exists(folder))
    for (const auto &item :
         std::filesystem::recursive_directory_iterator(folder))
      if (!item.is_directory() &&
          item.path().filename().string().starts_with(prefix))
        found.push_back(item.path().string());
  return found;
}

} // namespace kiln::testing
