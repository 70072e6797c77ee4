//===- BenchSetting.cpp ---------------------------------------------------===//
#include "compare/BenchSetting.h"

#include "cli/Finish.h"
#include "compare/CublasLt.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

llvm::Expected<BenchSetting> BenchSetting::of(std::string what,
                                              const ParsedOptions &options,
                                              const LiveSession &session) {
  auto commit = commitOf(options);
  if (!commit)
    return commit.takeError();
  BenchSetting setting;
  setting.what = std::move(what);
  setting.commit = std::move(*commit);
  setting.gpu = marketingNameOf(session.model());
  setting.driver = driverVersionText(session.driver());
  setting.hot = options.has("--hot");
  return setting;
}

bool hasCopyBaseline(const Case &which) {
  return which.named.family->peer(which.named.problem) == Peer::Stream;
}

bool hasLibraryPeer(const Case &which) {
  return which.named.family->peer(which.named.problem) == Peer::Blas;
}

void BenchSetting::namePeers(llvm::ArrayRef<Case> cases,
                             const CublasLt *library, bool wantsBaseline) {
  peer = library ? "cuBLASLt " + library->versionText()
         : wantsBaseline && llvm::any_of(cases, hasCopyBaseline)
             ? "copy baseline"
             : "no peer";
}

static std::string libraryProtocol(llvm::ArrayRef<Case> cases) {
  bool hasFp8 = false, hasIntegers = false;
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    const auto product = family->matrixProduct(problem);
    hasFp8 |= product && isFp8(product->type);
    hasIntegers |= product && product->type == DType::INT8;
  }
  return fmt::format(
      "; cuBLASLt runs its heuristic's first choice with 64 MiB of "
      "workspace{}{}",
      hasFp8 ? "; of fp8 it accumulates fast where the problem does, and "
               "nowhere else"
             : "",
      hasIntegers ? "; of int8 it computes int32 sums alone, without scales, "
                    "into memory of its own, so that results are not compared"
                  : "");
}

std::string BenchSetting::peerProtocol(llvm::ArrayRef<Case> cases,
                                       const CublasLt *library,
                                       bool wantsBaseline) {
  std::string text = library ? libraryProtocol(cases) : "";
  if (wantsBaseline && llvm::any_of(cases, hasCopyBaseline))
    text += "; the copy baseline is the fastest of the driver's copy, where "
            "as much is read as written, and of plain kernels that read and "
            "write as many bytes in buffers of their own";
  return text;
}

void BenchSetting::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}; {}, driver {}{}{}\n", what, gpu, driver,
                    peer.empty() ? "" : ", ", peer)
     << wrapText(protocol);
}

llvm::json::Object BenchSetting::toJson() const {
  llvm::json::Object object{{"what", what}, {"commit", commit},
                            {"gpu", gpu},   {"driver", driver},
                            {"cuda", cuda}, {"protocol", protocol}};
  if (!peer.empty())
    object["peer"] = peer;
  return object;
}

std::string subjectOf(const ParsedOptions &options) {
  return options.value("--suite").value_or("problems");
}

std::string cudaVersionOf(llvm::StringRef toolchain) {
  return toolchain.split(' ').second.split(' ').first.str();
}

} // namespace kiln::cli
