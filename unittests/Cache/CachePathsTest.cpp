#include "Cache/CachePaths.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::cache;

TEST_CASE("the root comes from the first variable that names one") {
  Environment environment;
  environment.home = "/home/u";
  CHECK(chooseCacheRoot(environment, "/pw").path == "/home/u/.cache/kiln");
  environment.xdgCacheHome = "/xdg";
  CHECK(chooseCacheRoot(environment, "/pw").path == "/xdg/kiln");
  environment.kilnCacheDir = "/chosen";
  CacheRoot root = chooseCacheRoot(environment, "/pw");
  CHECK(root.path == "/chosen");
  CHECK(root.notes.empty());
}

TEST_CASE("fault 31: HOME unset, no row in the user database") {
  Environment environment;
  CHECK(chooseCacheRoot(environment, "/pw").path == "/pw/.cache/kiln");
  CacheRoot none = chooseCacheRoot(environment, std::nullopt);
  CHECK_FALSE(none.path);
  REQUIRE(none.notes.size() == 1);
  CHECK(none.notes[0].find("HOME") != std::string::npos);
  CHECK(none.notes[0].find("memory only") != std::string::npos);
}

TEST_CASE("fault 31: a bad KILN_CACHE_DIR means memory, not another place") {
  for (const std::string &bad :
       {std::string("relative/path"), std::string(5000, '/'),
        std::string("/with\0nul", 9)}) {
    Environment environment;
    environment.home = "/home/u";
    environment.kilnCacheDir = bad;
    CacheRoot root = chooseCacheRoot(environment, std::nullopt);
    CHECK_FALSE(root.path);
    REQUIRE(root.notes.size() == 1);
    CHECK(root.notes[0].find("KILN_CACHE_DIR") != std::string::npos);
    CHECK(root.notes[0].size() < 400);
  }
}

TEST_CASE("fault 31: a relative XDG_CACHE_HOME or HOME") {
  Environment environment;
  environment.home = "/home/u";
  environment.xdgCacheHome = "cache";
  CacheRoot root = chooseCacheRoot(environment, std::nullopt);
  CHECK(root.path == "/home/u/.cache/kiln");
  REQUIRE(root.notes.size() == 1);
  CHECK(root.notes[0].find("\"cache/kiln\"") != std::string::npos);

  environment.xdgCacheHome.reset();
  environment.home = "user";
  root = chooseCacheRoot(environment, std::nullopt);
  CHECK_FALSE(root.path);
  CHECK(root.notes.size() == 1);
}

TEST_CASE("the user database stands in for HOME") {
  CacheRoot root = findCacheRoot(Environment());
  CHECK((root.path || !root.notes.empty()));
}

TEST_CASE("read tiers are named between colons") {
  Environment environment;
  CHECK(chooseReadDirs(environment).empty());
  environment.kilnCacheReadDirs = "/opt/kiln::relative:/srv/kiln:";
  CHECK(chooseReadDirs(environment) ==
        std::vector<std::string>{"/opt/kiln", "relative", "/srv/kiln"});
}
