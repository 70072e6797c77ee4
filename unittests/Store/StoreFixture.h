//===- StoreFixture.h - a cache folder and stand-ins for tests ------------===//
#pragma once

#include "Cache/Store.h"
#include "Device/Catalog.h"
#include "Fakes/FakeNvrtc.h"
#include "Store/ArtifactStore.h"
#include "Store/FakeFamily.h"

#include <doctest/doctest.h>
#include <llvm/Support/FormatVariadic.h>

#include <filesystem>
#include <memory>
#include <stdlib.h>
#include <string>

namespace kiln::fake {

/// A temporary folder, deleted with the object.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "kiln-store-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(folder); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// \p text, an entry of lines, after \p change of the item on line \p number.
inline std::string
changedLine(llvm::StringRef text, size_t number,
            llvm::function_ref<void(llvm::json::Object &)> change) {
  std::string changed;
  for (size_t i = 0; !text.empty(); ++i) {
    auto [line, rest] = text.split('\n');
    text = rest;
    llvm::json::Value item = must(llvm::json::parse(line));
    if (i == number)
      change(*item.getAsObject());
    changed += llvm::formatv("{0}\n", item).str();
  }
  return changed;
}

/// An artifact store on a cache folder, compiling with the stand-in NVRTC.
struct StoreFixture {
  StoreFixture() : nvrtc(FakeNvrtc::open(KILN_BINARY_DIR)) {
    REQUIRE(static_cast<bool>(nvrtc.reset));
    reopen();
  }

  /// Opens the cache like a new process; \p options keep their search.
  void reopen(ArtifactStoreOptions options = {}) {
    artifacts.reset();
    cache::StoreOptions cacheOptions;
    cacheOptions.writeDir = folder.path();
    cacheOptions.gauge = gauge;
    cache = cache::Store::open(cacheOptions);
    options.nvrtc = NvrtcSearch();
    options.nvrtc.explicitPath = FakeNvrtc::path(KILN_BINARY_DIR);
    artifacts = std::make_unique<ArtifactStore>(*cache, std::move(options));
  }

  /// The one kernel of a config's plan.
  TranslationUnit unit(llvm::StringRef config) const {
    return makePlan(family, problem, config, device).kernels.front();
  }

  TemporaryFolder folder;
  ByteGaugePtr gauge = std::make_shared<ByteGauge>(); ///< of the host
  FakeNvrtc nvrtc;
  FakeFamily family;
  Problem problem = makeProblem(family, "fake m=64 n=64");
  DeviceModel device = must(findDevice("h200-sxm"));
  std::unique_ptr<cache::Store> cache;
  std::unique_ptr<ArtifactStore> artifacts;
};

} // namespace kiln::fake
