// What an edit of kernel_src does to the keys of the kernels of all families:
// those that include the file change, the others stay valid in every cache.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Sources.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <map>
#include <set>

using namespace kiln;

namespace {

/// One kernel of each template and reference, by name.
using Units = std::map<std::string, TranslationUnit>;
using Names = std::set<std::string>;

Units makeUnits() {
  Registry registry = makeBuiltinRegistry();
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Units units;
  for (const char *text :
       {"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
        "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT",
        "gemm m=16 n=4096 k=4096 dtype=bf16 layout=NT",
        "gemm m=300 n=512 k=511 dtype=bf16 layout=NT lda=512",
        "gemm m=512 n=512 k=512 dtype=fp32",
        "softmax rows=512 cols=1024 dtype=bf16",
        "rmsnorm rows=1 cols=1000000 dtype=bf16",
        "reduce op=sum rows=1 cols=1000001 dtype=bf16",
        "elementwise op=relu rows=512 cols=1024 dtype=bf16",
        "transpose2d rows=512 cols=1024 dtype=bf16"}) {
    CAPTURE(text);
    auto named = llvm::cantFail(registry.parseProblem(text));
    Space space =
        llvm::cantFail(exploreSpace(*named.family, named.problem, device));
    std::set<const Template *> seen;
    for (const Candidate &candidate : space.ranked)
      if (seen.insert(candidate.tmpl).second)
        for (TranslationUnit &unit :
             candidate.tmpl->plan(named.problem, candidate.config, device)
                 .kernels)
          units.emplace(unit.name(), unit);
    TranslationUnit reference =
        named.family->reference(named.problem, device)->translationUnit();
    units.emplace(reference.name(), reference);
  }
  return units;
}

const Units &units() {
  static const Units made = makeUnits();
  return made;
}

/// The kernel sources with \p text at the end of \p file, which may be new.
std::shared_ptr<const SourceSet> edited(llvm::StringRef file,
                                        llvm::StringRef text) {
  std::vector<SourceFile> files = kernelSources()->files().vec();
  auto place = llvm::find_if(
      files, [&](const SourceFile &other) { return other.name == file; });
  if (place == files.end())
    files.push_back({file.str(), text.str()});
  else
    place->contents += text;
  return llvm::cantFail(SourceSet::create(std::move(files)));
}

/// The units that have another key with \p headers.
Names changedBy(std::shared_ptr<const SourceSet> headers) {
  Names changed;
  for (const auto &[name, unit] : units()) {
    UnitParts parts = unit.parts();
    parts.headers = headers;
    if (TranslationUnit(std::move(parts)).digest() != unit.digest())
      changed.insert(name);
  }
  return changed;
}

/// The units whose names begin with one of \p prefixes.
Names unitsOf(llvm::ArrayRef<llvm::StringRef> prefixes) {
  Names names;
  for (const auto &[name, unit] : units())
    if (llvm::any_of(prefixes, [&](llvm::StringRef prefix) {
          return llvm::StringRef(name).starts_with(prefix);
        }))
      names.insert(name);
  return names;
}

constexpr llvm::StringLiteral kEdit = "// edited\n";

} // namespace

TEST_CASE("every template and reference has a unit in this test") {
  CHECK(llvm::join(unitsOf({"kiln_"}), " ") ==
        "kiln_elementwise_flat kiln_elementwise_reference kiln_gemm_gemv "
        "kiln_gemm_mma kiln_gemm_naive kiln_gemm_reference kiln_gemm_repack "
        "kiln_gemm_simt kiln_gemm_skinny kiln_gemm_sm90 kiln_rows_reference "
        "kiln_rows_reload kiln_rows_resident kiln_rows_split "
        "kiln_transpose2d_reference kiln_transpose2d_tiled");
}

TEST_CASE("an edit in rows/ or a new file changes no gemm key") {
  for (const SourceFile &file : kernelSources()->files())
    if (llvm::StringRef(file.name).starts_with("rows/")) {
      CAPTURE(file.name);
      Names changed = changedBy(edited(file.name, kEdit));
      CHECK_FALSE(changed.empty());
      for (const std::string &name : changed)
        CHECK(name.rfind("kiln_rows_", 0) == 0);
    }
  CHECK(changedBy(edited("rows/RowMath.cuh", kEdit)) ==
        Names{"kiln_rows_reload", "kiln_rows_resident", "kiln_rows_split"});
  CHECK(changedBy(edited("attention/NewFamily.cuh", kEdit)).empty());
  CHECK(changedBy(edited("gemm/NewTemplate.cuh", kEdit)).empty());
}

TEST_CASE("an edit in common/ changes the keys of those that include it") {
  Names allButRepack = unitsOf({"kiln_"});
  allButRepack.erase("kiln_gemm_repack");
  CHECK(changedBy(edited("common/Ptx.cuh", kEdit)) == allButRepack);
  CHECK(changedBy(edited("common/Types.h", kEdit)) == unitsOf({"kiln_"}));
  CHECK(changedBy(edited("common/Wgmma.cuh", kEdit)) ==
        Names{"kiln_gemm_sm90"});
  CHECK(changedBy(edited("common/Access.cuh", kEdit)) ==
        unitsOf({"kiln_elementwise_flat", "kiln_rows_reload",
                 "kiln_rows_resident", "kiln_rows_split",
                 "kiln_transpose2d_tiled"}));
}

TEST_CASE("a kernel sees a part of the sources") {
  for (const auto &[name, unit] : units()) {
    CAPTURE(name);
    CHECK(unit.headers().names.size() > 1);
    CHECK(unit.headers().names.size() < kernelSources()->files().size() / 2);
  }
}
