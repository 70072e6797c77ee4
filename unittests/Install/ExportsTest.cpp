// The shared library as the dynamic linker sees it: its name, the C interface,
// and no symbols of its own parts.
#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <string>

namespace {

/// Standard output of a command; fails the test if it fails.
std::string outputOf(const std::string &command) {
  std::string output;
  FILE *pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (size_t bytes = fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, bytes);
  REQUIRE(pclose(pipe) == 0);
  return output;
}

/// The names in brackets of the lines with \p tag of the dynamic section.
std::set<std::string> dynamicEntries(const std::string &tag) {
  std::istringstream lines(
      outputOf(std::string(KILN_READELF) + " -dW '" KILN_LIBRARY "'"));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    size_t open = line.find('['), close = line.find(']');
    if (line.find("(" + tag + ")") != std::string::npos &&
        open != std::string::npos && close != std::string::npos)
      names.insert(line.substr(open + 1, close - open - 1));
  }
  return names;
}

} // namespace

TEST_CASE("libkiln exports kiln_ functions only") {
  std::istringstream symbols(outputOf(
      std::string(KILN_NM) + " -D --defined-only -P '" KILN_LIBRARY "'"));
  std::set<std::string> names;
  for (std::string line; std::getline(symbols, line);) {
    std::string name = line.substr(0, line.find(' '));
    INFO(line);
    CHECK(name.rfind("kiln_", 0) == 0);
    CHECK(line.substr(name.size(), 3) == " T ");
    names.insert(name);
  }
  CHECK(names.count("kiln_abi_version") == 1);
  CHECK(names.count("kiln_kernel_name_parse") == 1);
  for (const char *asked :
       {"kiln_explain", "kiln_candidates", "kiln_problem_keys"})
    CHECK(names.count(asked) == 1);
}

#ifdef KILN_PROFILER
TEST_CASE("the profiler's helper exports its entry points only") {
  std::istringstream symbols(outputOf(
      std::string(KILN_NM) + " -D --defined-only -P '" KILN_PROFILER "'"));
  std::set<std::string> names;
  for (std::string line; std::getline(symbols, line);)
    names.insert(line.substr(0, line.find(' ')));
  CHECK(names == std::set<std::string>{"InitializeInjection",
                                       "InitializeInjectionNvtx2"});
}
#endif

TEST_CASE("libkiln has its soname and needs the C library only") {
  CHECK(dynamicEntries("SONAME") == std::set<std::string>{"libkiln.so.0"});
  const std::set<std::string> allowed = {"libc.so.6", "libm.so.6", "libdl.so.2",
                                         "libpthread.so.0",
                                         "ld-linux-x86-64.so.2"};
  std::set<std::string> needed = dynamicEntries("NEEDED");
  CHECK(needed.count("libc.so.6") == 1);
  for (const std::string &name : needed) {
    INFO(name);
    CHECK(allowed.count(name) == 1);
  }
}

TEST_CASE("fault 28: neither libkiln nor the tool can start a shell") {
  for (const char *binary : {KILN_LIBRARY,
#ifdef KILN_TOOL
                             KILN_TOOL
#endif
       }) {
    INFO(binary);
    std::istringstream symbols(outputOf(
        std::string(KILN_NM) + " -D --undefined-only -P '" + binary + "'"));
    std::set<std::string> names;
    for (std::string line; std::getline(symbols, line);)
      names.insert(line.substr(0, line.find_first_of("@ ")));
    CHECK(names.count("open") + names.count("openat") + names.count("open64") +
              names.count("openat64") >
          0);
    for (const char *shell : {"system", "popen", "wordexp"}) {
      INFO(shell);
      CHECK(names.count(shell) == 0);
    }
  }
}

TEST_CASE("libkiln stays loaded, whoever closes it") {
  const std::string dynamic =
      outputOf(std::string(KILN_READELF) + " -dW '" KILN_LIBRARY "'");
  CHECK(dynamic.find("NODELETE") != std::string::npos);
}
