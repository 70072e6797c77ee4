// Whatever the type, layout, alignment and scales, products of least and odd
// sizes have a kernel that is not generic, from sm_80 on.
#include "Device/Catalog.h"
#include "Families/Gemm/Sm90Testing.h"
#include "Kernel/EngineLimits.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr llvm::StringLiteral kDevices[] = {"h200-sxm", "a100-sxm4-80gb",
                                            "l40s"};
constexpr llvm::StringLiteral kSizes[] = {
    "m=1 n=1 k=1",      "m=1 n=4096 k=4093",  "m=16 n=33 k=4096",
    "m=17 n=8 k=31",    "m=3 n=4095 k=130",   "m=4097 n=1 k=512",
    "m=513 n=5 k=2047", "m=130 n=1023 k=999",
};

/// The reason why the first choice for a launch of \p problem is not good;
/// empty if it is. For products that take no longer than a launch any kernel is
/// good.
std::string faultOf(const Problem &problem, const DeviceModel &device) {
  constexpr double kLaunchesNs = 20e3;
  const Space space = llvm::cantFail(exploreSpace(
      gemm(), problem, device, {.allowance = {kEngineWorkspaceBytes}}));
  if (space.ranked.empty())
    return "no config runs";
  const Candidate &first = space.ranked[0];
  if (!first.tmpl->isGeneric())
    return "";
  const bool hasSpecial = llvm::any_of(
      space.ranked, [](const Candidate &c) { return !c.tmpl->isGeneric(); });
  if (hasSpecial && first.estimate.totalNs < kLaunchesNs)
    return "";
  return fmt::format("{}, {:.0f} ns", first.config.text(),
                     first.estimate.totalNs);
}

void checkAll(const std::vector<std::string> &kinds,
              llvm::ArrayRef<llvm::StringLiteral> alignments) {
  for (llvm::StringRef name : kDevices) {
    const DeviceModel device = llvm::cantFail(findDevice(name));
    for (const std::string &kind : kinds)
      for (llvm::StringRef align : alignments)
        for (llvm::StringRef size : kSizes) {
          const std::string text =
              fmt::format("gemm {} {}{}", size.str(), kind, align.str());
          auto problem = gemm().parseProblem(text);
          CAPTURE(text);
          CAPTURE(name.str());
          REQUIRE(problem);
          CHECK(faultOf(*problem, device) == "");
        }
  }
}

} // namespace

TEST_CASE("products of least and odd sizes are no generic kernel's") {
  std::vector<std::string> kinds;
  for (llvm::StringRef type :
       {"bf16", "fp16 out=fp32", "fp32", "fp32 compute=tf32", "e4m3",
        "e5m2 b=e4m3 scale_a=row scale_b=tensor",
        "e4m3 scale_a=1x128 scale_b=128x128", "int8 scale_a=row scale_b=row",
        "int8 scale_a=row scale_b=row zero_a=row", "e4m3 out=e4m3 scale_d=row",
        "bf16 out=e4m3 scale_d=1x128"})
    for (llvm::StringRef layout : {"NT", "NN", "TN", "TT"})
      kinds.push_back(
          fmt::format("dtype={} layout={}", type.str(), layout.str()));
  checkAll(kinds, {"", " align=4"});
}

TEST_CASE("groups and packed weights of odd sizes are no generic kernel's") {
  const std::string packed =
      " layout=NT b=int4 scale_b=1x128 order_b=k64r16 zero_b=1";
  std::vector<std::string> kinds = {
      "dtype=bf16" + packed, "dtype=fp16" + packed + " out=e4m3 scale_d=row",
      "dtype=bf16" + packed + " batch=5 groups=ends",
      "dtype=fp16" + packed + " batch=5 groups=ends gather=1"};
  for (llvm::StringRef type :
       {"bf16", "fp32", "e4m3", "e4m3 scale_a=1x128 scale_b=128x128",
        "int8 scale_a=row scale_b=row", "bf16 out=e4m3 scale_d=1x128"})
    for (llvm::StringRef layout : {"NT", "NN"})
      for (llvm::StringRef groups :
           {"groups=ends", "groups=ends gather=1", "groups=masked"})
        if (!(type.contains("scale_d") && groups.contains("masked")))
          kinds.push_back(fmt::format("dtype={} layout={} batch=5 {}",
                                      type.str(), layout.str(), groups.str()));
  checkAll(kinds, {""});
}
