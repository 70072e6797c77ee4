// The effect of an edit of kernel_src on the keys of the kernels of all
// families: keys of kernels that include the file change, and the others stay
// valid in every cache. An edit of comments changes no key.
#include "Families/Conformance/Draw.h"
#include "Families/FamilyTesting.h"
#include "Kernel/KernelName.h"
#include "Kernel/Sources.h"
#include "Kernel/Space.h"
#include "Support/TemporaryFolder.h"

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

/// A kernel of each template, reference and step.
using Units = std::map<std::string, TranslationUnit>;
using Names = std::set<std::string>;

/// "gemm sm90", "gemm reference", "gemm step gather".
std::string shortName(const TranslationUnit &unit) {
  KernelName name = llvm::cantFail(parseKernelName(registry(), unit.name()));
  return (name.family->name() + " " +
          (name.tmpl ? name.tmpl->name().str() : name.role))
      .str();
}

/// Collects the units, and the families and templates whose plans were seen.
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
      planned.units.emplace(shortName(unit), unit);
  }
}

/// Draws problems until each template of every family was planned.
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
      planned.units.emplace(shortName(reference), reference);
    }
  }
  // Plans of two kernels.
  const KernelFamily &gemm = *registry().find("gemm");
  addPlans(gemm,
           parse(gemm, "m=300 n=512 k=512 dtype=fp32 compute=tf32 layout=TN"),
           planned);
  addPlans(gemm, parse(gemm, "m=300 n=512 k=511 dtype=bf16 layout=NT lda=512"),
           planned);
  // Problems of one row, and of rows elsewhere.
  for (llvm::StringRef text :
       {"m=1 n=512 k=512 dtype=bf16 layout=NT",
        "m=64 n=512 k=512 dtype=bf16 layout=NT batch=4 groups=ends gather=1"})
    addPlans(gemm, parse(gemm, text), planned);
  const Problem quantized = parse(
      gemm, "m=300 n=512 k=512 dtype=bf16 layout=NT out=e4m3 scale_d=1x128");
  addPlans(gemm, quantized, planned);
  TranslationUnit reference =
      gemm.reference(quantized, h200())->translationUnit();
  planned.units.emplace(shortName(reference), reference);
  // Rows that are longer than the chip holds are not drawn.
  for (const char *text : {"softmax rows=1 cols=30000000 dtype=bf16",
                           "rmsnorm rows=1 cols=30000000 dtype=bf16",
                           "layernorm rows=1 cols=30000000 dtype=bf16",
                           "rowquant rows=1 cols=30000000 dtype=bf16",
                           "elementwise rows=1 cols=30000000 dtype=bf16 "
                           "out=int8 scale_y=row"}) {
    const auto named = llvm::cantFail(registry().parseProblem(text));
    addPlans(*named.family, named.problem, planned);
    TranslationUnit reference =
        named.family->reference(named.problem, h200())->translationUnit();
    planned.units.emplace(shortName(reference), reference);
  }
  // MLA is not drawn: few problems are MLA.
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

/// \p text of the tree with other comments: an essay at its head, other words
/// in the existing comments, further comments behind lines and between them.
std::string reworded(llvm::StringRef text) {
  std::string result = "/* An essay\n * of two lines. */\n// And one.\n\n";
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    auto [code, comment] = line.split("//");
    // Lines of a macro end with a backslash.
    const bool isLast = !line.ends_with("\\");
    result += code;
    if (!comment.empty())
      result += "// Other words." + (isLast ? "" : comment).str();
    else if (isLast)
      result += "  /* behind */ // it";
    else
      result.insert(result.size() - 1, "/* within */ ");
    result += isLast ? "\n\n  // between\n" : "\n";
  }
  return result;
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

/// Sets that differ are printed in this form.
std::string textOf(const Names &names) { return llvm::join(names, ", "); }

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
  CHECK(textOf(unitsOf({"elementwise ", "gemm ", "softmax ", "reduce ",
                        "transpose2d "})) ==
        "elementwise flat, elementwise reference, "
        "elementwise reference quantized, elementwise reload, "
        "elementwise resident, elementwise spread, gemm ffma, gemm gemv, "
        "gemm mma, gemm naive, gemm packed, gemm packed90, gemm packedgemv, "
        "gemm reference, "
        "gemm reference quantized, gemm simt, gemm skinny, gemm sm90, "
        "gemm step gather, gemm step quantize, gemm step repack, "
        "gemm step repack_transposed, reduce reference, reduce reload, "
        "reduce resident, reduce split, softmax reference, softmax reload, "
        "softmax resident, softmax spread, transpose2d line, transpose2d "
        "reference, "
        "transpose2d shifted, transpose2d tiled");
}

TEST_CASE("an edit of comments in any kernel source recompiles nothing") {
  std::vector<SourceFile> files;
  for (const SourceFile &file : kernelSources()->files()) {
    const std::string tree =
        kiln::testing::readBytes(KILN_SOURCE_DIR "/kernel_src/" + file.name);
    files.push_back({file.name, reworded(tree)});
    CAPTURE(file.name);
    CHECK(files.back().contents != tree);
  }
  CHECK(textOf(changedBy(
            llvm::cantFail(SourceSet::create(std::move(files))))) == "");
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
  // Chains with a quantised result are a quantisation of rows, and an
  // all-reduce ends with a norm.
  const Names ofRows = unitsOf(
      {"allreduce push", "layernorm ", "reduce ", "rmsnorm ", "rowquant ",
       "softmax ", "elementwise reference quantized", "elementwise reload",
       "elementwise resident", "elementwise spread"});
  Names rowMath;
  for (const std::string &name : ofRows)
    if (!llvm::StringRef(name).contains("reference"))
      rowMath.insert(name);
  for (const SourceFile &file : kernelSources()->files())
    if (llvm::StringRef(file.name).starts_with("rows/")) {
      CAPTURE(file.name);
      const Names included = unitsWith(file.name);
      CHECK_FALSE(included.empty());
      for (const std::string &name : included)
        CHECK(ofRows.contains(name));
    }
  CHECK(textOf(unitsWith("rows/RowMath.cuh")) == textOf(rowMath));
  CHECK(textOf(unitsWith("common/Types.h")) == textOf(unitsOf({""})));
  CHECK(textOf(unitsWith("common/Wgmma.cuh")) ==
        "attention sm90, attention sm90mla, gemm packed90, gemm sm90");
  const Names vectors = unitsWith("common/Access.cuh");
  Names looked = unitsOf({"elementwise ", "gather ", "gemm ", "transpose2d "});
  looked.insert(ofRows.begin(), ofRows.end());
  for (const std::string &name : looked) {
    CAPTURE(name);
    const bool loadsVectors =
        name == "elementwise flat" || name == "gather lanes" ||
        name == "transpose2d tiled" || name == "transpose2d shifted" ||
        name == "transpose2d line" || rowMath.contains(name);
    CHECK(vectors.contains(name) == loadsVectors);
    CHECK(unitsWith("common/Ptx.cuh").contains(name));
  }
  // Only references are never launched behind a running kernel.
  for (const std::string &name : unitsOf({""})) {
    CAPTURE(name);
    CHECK(unitsWith("common/Dependent.cuh").contains(name) !=
          llvm::StringRef(name).contains(" reference"));
  }
}

TEST_CASE("a kernel sees a part of the sources") {
  for (const auto &[name, unit] : units()) {
    CAPTURE(name);
    CHECK(unit.headers().names.size() > 1);
    CHECK(unit.headers().names.size() < kernelSources()->files().size() / 2);
  }
}
