// What an edit of kernel_src does to the keys of the kernels of all families:
// those that include the file change, the others stay valid in every cache.
#include "Families/Conformance/Draw.h"
#include "Families/FamilyTesting.h"
#include "Kernel/Sources.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <map>
#include <set>

using namespace kiln;
using kiln::testing::h200;
using kiln::testing::parse;
using kiln::testing::registry;

namespace {

/// A kernel of each name that templates and references give theirs.
using Units = std::map<std::string, TranslationUnit>;
using Names = std::set<std::string>;

/// What is planned, and whose plans were seen.
struct Planned {
  Units units;
  std::set<const Template *> templates;
};

/// Adds the first choice of each template for \p problem.
void addPlans(const KernelFamily &family, const Problem &problem,
              Planned &planned) {
  Space space = llvm::cantFail(exploreSpace(family, problem, h200()));
  std::set<const Template *> here;
  for (const Candidate &candidate : space.ranked) {
    if (!here.insert(candidate.tmpl).second)
      continue;
    planned.templates.insert(candidate.tmpl);
    for (TranslationUnit &unit :
         candidate.tmpl->plan(problem, candidate.config, h200()).kernels)
      planned.units.emplace(unit.name(), unit);
  }
}

/// Problems are drawn, until each template of every family was planned.
Planned planAll() {
  Planned planned;
  for (const auto &family : registry().families()) {
    auto isPlanned = [&](const auto &tmpl) {
      return planned.templates.contains(tmpl.get());
    };
    for (const Problem &problem :
         conformance::drawWork(*family, conformance::Sizes::Usual, 600)) {
      if (llvm::all_of(family->templates(), isPlanned))
        break;
      addPlans(*family, problem, planned);
      TranslationUnit reference =
          family->reference(problem, h200())->translationUnit();
      planned.units.emplace(reference.name(), reference);
    }
  }
  // Plans of two kernels.
  const KernelFamily &gemm = *registry().find("gemm");
  addPlans(gemm,
           parse(gemm, "m=300 n=512 k=512 dtype=fp32 compute=tf32 layout=TN"),
           planned);
  addPlans(gemm, parse(gemm, "m=300 n=512 k=511 dtype=bf16 layout=NT lda=512"),
           planned);
  // Of one row, and of rows elsewhere.
  for (llvm::StringRef text :
       {"m=1 n=512 k=512 dtype=bf16 layout=NT",
        "m=64 n=512 k=512 dtype=bf16 layout=NT batch=4 groups=ends gather=1"})
    addPlans(gemm, parse(gemm, text), planned);
  const Problem quantized = parse(
      gemm, "m=300 n=512 k=512 dtype=bf16 layout=NT out=e4m3 scale_d=1x128");
  addPlans(gemm, quantized, planned);
  TranslationUnit reference =
      gemm.reference(quantized, h200())->translationUnit();
  planned.units.emplace(reference.name(), reference);
  // Latent attention is not drawn: few problems are.
  const KernelFamily &attention = *registry().find("attention");
  addPlans(attention,
           parse(attention, "sq=1 sk=4096 heads=128 kvheads=1 d=576 dv=512 "
                            "dtype=bf16 latent=1"),
           planned);
  return planned;
}

const Planned &planned() {
  static const Planned made = planAll();
  return made;
}
const Units &units() { return planned().units; }

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

/// Sets that are not equal are printed so.
std::string textOf(const Names &names) { return llvm::join(names, " "); }

/// The units that include \p file, directly or not.
Names unitsWith(llvm::StringRef file) {
  Names names;
  for (const auto &[name, unit] : units())
    if (llvm::is_contained(unit.headers().names, file))
      names.insert(name);
  return names;
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

constexpr llvm::StringLiteral kEdit = "struct Edited;\n";

} // namespace

TEST_CASE("every template and reference has a unit in this test") {
  for (const auto &family : registry().families())
    for (const auto &tmpl : family->templates()) {
      INFO(family->name().str(), ": ", tmpl->name().str());
      CHECK(planned().templates.contains(tmpl.get()));
    }
  CHECK(textOf(unitsOf({"kiln_elementwise_", "kiln_gemm_", "kiln_rows_",
                        "kiln_transpose2d_"})) ==
        "kiln_elementwise_flat kiln_elementwise_reference kiln_gemm_ffma "
        "kiln_gemm_gather kiln_gemm_gemv kiln_gemm_mma kiln_gemm_naive "
        "kiln_gemm_packed kiln_gemm_packed90 kiln_gemm_quantize "
        "kiln_gemm_quantized_reference kiln_gemm_reference "
        "kiln_gemm_repack kiln_gemm_repack_transposed kiln_gemm_simt "
        "kiln_gemm_skinny kiln_gemm_sm90 kiln_rows_reference "
        "kiln_rows_reload kiln_rows_resident kiln_rows_split "
        "kiln_transpose2d_line kiln_transpose2d_reference "
        "kiln_transpose2d_shifted kiln_transpose2d_tiled");
}

TEST_CASE("an edit changes the keys of the units that include the file") {
  for (const SourceFile &file : kernelSources()->files()) {
    CAPTURE(file.name);
    CHECK(textOf(changedBy(edited(file.name, kEdit))) ==
          textOf(unitsWith(file.name)));
  }
  CHECK(changedBy(edited("attention/NewFamily.cuh", kEdit)).empty());
  CHECK(changedBy(edited("gemm/NewTemplate.cuh", kEdit)).empty());
}

TEST_CASE("units include what their kernels need") {
  for (const SourceFile &file : kernelSources()->files())
    if (llvm::StringRef(file.name).starts_with("rows/")) {
      CAPTURE(file.name);
      const Names included = unitsWith(file.name);
      CHECK_FALSE(included.empty());
      for (const std::string &name : included)
        CHECK(name.rfind("kiln_rows_", 0) == 0);
    }
  CHECK(textOf(unitsWith("rows/RowMath.cuh")) ==
        "kiln_rows_reload kiln_rows_resident kiln_rows_split");
  CHECK(textOf(unitsWith("common/Types.h")) == textOf(unitsOf({"kiln_"})));
  CHECK(textOf(unitsWith("common/Wgmma.cuh")) ==
        "kiln_attention_sm90 kiln_attention_sm90mla kiln_gemm_packed90 "
        "kiln_gemm_sm90");
  const Names vectors = unitsWith("common/Access.cuh");
  for (const std::string &name : unitsOf({"kiln_elementwise_", "kiln_gemm_",
                                          "kiln_rows_", "kiln_transpose2d_"})) {
    CAPTURE(name);
    const bool loadsVectors =
        name == "kiln_elementwise_flat" || name == "kiln_transpose2d_tiled" ||
        name == "kiln_transpose2d_shifted" || name == "kiln_transpose2d_line" ||
        (name.rfind("kiln_rows_", 0) == 0 && name != "kiln_rows_reference");
    CHECK(vectors.contains(name) == loadsVectors);
    CHECK(unitsWith("common/Ptx.cuh").contains(name));
  }
  // Only references are never launched behind a kernel that still runs.
  for (const std::string &name : unitsOf({"kiln_"})) {
    CAPTURE(name);
    CHECK(unitsWith("common/Dependent.cuh").contains(name) !=
          llvm::StringRef(name).ends_with("reference"));
  }
}

TEST_CASE("a kernel sees a part of the sources") {
  for (const auto &[name, unit] : units()) {
    CAPTURE(name);
    CHECK(unit.headers().names.size() > 1);
    CHECK(unit.headers().names.size() < kernelSources()->files().size() / 2);
  }
}
