#include "Families/Conformance/Draw.h"

#include "Support/Format.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/STLFunctionalExtras.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace kiln::conformance {

//===----------------------------------------------------------------------===//
// Typed problems
//===----------------------------------------------------------------------===//

std::string TypedProblem::text() const {
  std::string text = family.str();
  for (const auto &[key, value] : values)
    text += " " + key + "=" + value;
  return text;
}

bool TypedProblem::has(llvm::StringRef key) const {
  return llvm::any_of(values,
                      [&](const auto &entry) { return entry.first == key; });
}

TypedProblem TypedProblem::with(llvm::StringRef key,
                                llvm::StringRef value) const {
  TypedProblem changed = *this;
  for (auto &entry : changed.values)
    if (entry.first == key) {
      entry.second = value.str();
      return changed;
    }
  changed.values.emplace_back(key.str(), value.str());
  return changed;
}

TypedProblem TypedProblem::without(llvm::StringRef key) const {
  TypedProblem changed = *this;
  llvm::erase_if(changed.values,
                 [&](const auto &entry) { return entry.first == key; });
  return changed;
}

std::string textOf(const KernelFamily &family, const TypedProblem &typed) {
  auto problem = family.parseProblem(typed.text());
  return problem ? problem->text() : summarize(problem.takeError()).message;
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static int64_t drawExtent(Sizes sizes, Random &random) {
  static const int64_t small[] = {1, 2, 3, 5, 8, 16, 24, 33, 48};
  static const int64_t usual[] = {1,   7,    16,   31,   64,   128,
                                  300, 1000, 4096, 4097, 8192, 8190};
  static const int64_t extreme[] = {
      0, 1, 2, 7, 4096, 33554432, 268435456, 2147483646, 8388608, 2147483647};
  static const int64_t wide[] = {1,      2,      7,      8,      16,    17,
                                 31,     64,     65,     128,    300,   1000,
                                 4065,   4096,   4097,   20480,  32768, 65536,
                                 131077, 262153, 524289, 1000003};
  switch (sizes) {
  case Sizes::Small:
    return pick<int64_t>(random, small);
  case Sizes::Usual:
    return pick<int64_t>(random, usual);
  case Sizes::Wide:
    return pick<int64_t>(random, wide);
  case Sizes::Extreme:
    return pick<int64_t>(random, extreme);
  }
  return 1;
}

/// A number above the rows of nearly all problems of these sizes.
static int64_t drawLeadingDimension(Sizes sizes, Random &random) {
  static const int64_t beyond[] = {0, 1, 4, 8, 24};
  int64_t longest = sizes == Sizes::Small   ? 64
                    : sizes == Sizes::Usual ? 8192
                    : sizes == Sizes::Wide  ? 1000003
                                            : 2147483647;
  return longest + pick<int64_t>(random, beyond);
}

/// A switch, or a size for which kernels are compiled. Rows of a single element
/// are avoided: they are as long as any leading dimension.
static int64_t drawFixed(const Field &field, Random &random) {
  static const int64_t fixedSizes[] = {3, 8, 24, 40, 64, 128, 256};
  static const int64_t switches[] = {0, 1, 2};
  constexpr int64_t kMostSwitches = 16;
  if (field.maximum > kMostSwitches)
    return pick<int64_t>(random, fixedSizes);
  return pick<int64_t>(random, switches);
}

static int64_t drawInteger(const Field &field, Sizes sizes, Random &random) {
  static const int64_t aligns[] = {1, 2, 4, 8, 16};
  static const int64_t counts[] = {1, 2, 3};
  static const int64_t steps[] = {1, 8, 64};
  // An optional extent counts equal things, as a batch does.
  const bool isCount =
      field.role == FieldRole::Batch ||
      (field.role == FieldRole::DynamicExtent && !field.required);
  if (isCount && sizes != Sizes::Extreme)
    return pick<int64_t>(random, counts);
  switch (field.role) {
  case FieldRole::Extent:
  case FieldRole::DynamicExtent:
  case FieldRole::Batch:
  case FieldRole::Hint:
    return drawExtent(sizes, random);
  case FieldRole::LeadingDimension:
    return drawLeadingDimension(sizes, random);
  case FieldRole::Stride:
    return drawLeadingDimension(sizes, random) * pick<int64_t>(random, steps);
  case FieldRole::Capacity:
    return drawExtent(sizes, random) * pick<int64_t>(random, steps);
  case FieldRole::Alignment:
    return pick<int64_t>(random, aligns);
  default:
    return drawFixed(field, random);
  }
}

static std::string drawChain(const Field &field, Random &random) {
  std::string text;
  for (size_t links = random() % 4; links > 0; --links)
    text += fmt::format("{}{}", text.empty() ? "" : ",",
                        pick(random, field.names).name.str());
  return text.empty() ? "none" : text;
}

static std::string drawValue(const Field &field, Sizes sizes, Random &random) {
  static const llvm::StringRef reals[] = {"1", "0.5", "0", "-2", "1e-06", "3"};
  switch (field.kind) {
  case FieldKind::Integer:
    return std::to_string(std::clamp(drawInteger(field, sizes, random),
                                     field.minimum, field.maximum));
  case FieldKind::Enum:
    return pick(random, field.names).name.str();
  case FieldKind::Real:
    return pick<llvm::StringRef>(random, reals).str();
  case FieldKind::Chain:
    return drawChain(field, random);
  }
  return {};
}

/// One in this many problems gives an optional field.
static unsigned periodOf(const Field &field) {
  if (field.role == FieldRole::LeadingDimension ||
      field.role == FieldRole::Stride || field.role == FieldRole::Capacity)
    return 6;
  return field.kind == FieldKind::Chain || field.kind == FieldKind::Enum ? 2
                                                                         : 3;
}

TypedProblem drawTyped(const Schema &schema, Sizes sizes, Random &random) {
  TypedProblem typed{schema.name(), {}};
  for (const Field &field : schema.fields()) {
    // Both numbers are drawn in any case, so that the presence of one field
    // does not move another's value.
    bool isGiven = oneIn(random, periodOf(field)) || field.required;
    std::string value = drawValue(field, sizes, random);
    if (isGiven)
      typed.values.emplace_back(field.key.str(), std::move(value));
  }
  return typed;
}

/// \p typed with the fields of \p combination replacing its own.
static TypedProblem withAll(TypedProblem typed, llvm::StringRef combination) {
  llvm::SmallVector<llvm::StringRef> parts;
  combination.split(parts, ' ');
  for (llvm::StringRef part : parts) {
    auto [key, value] = part.split('=');
    typed = typed.with(key, value);
  }
  return typed;
}

/// The first \p count problems that \p family and \p isWanted accept.
static std::vector<DrawnProblem>
drawWanted(const KernelFamily &family, Sizes sizes, size_t count,
           llvm::function_ref<bool(const Problem &)> isWanted) {
  constexpr size_t kAttempts = 200;
  Random random(7);
  std::vector<DrawnProblem> drawn;
  for (size_t i = 0; i < kAttempts * count && drawn.size() < count; ++i) {
    TypedProblem typed = drawTyped(family.problemSchema(), sizes, random);
    if (!family.combinations().empty() && oneIn(random, 3))
      typed = withAll(std::move(typed), pick(random, family.combinations()));
    auto problem = family.parseProblem(typed.text());
    if (!problem)
      llvm::consumeError(problem.takeError());
    else if (isWanted(*problem))
      drawn.push_back({std::move(typed), std::move(*problem)});
  }
  REQUIRE_MESSAGE(drawn.size() == count, family.name().str(),
                  " refuses nearly every problem that its schema has words "
                  "for: its fields have wrong kinds, roles or bounds");
  return drawn;
}

std::vector<DrawnProblem> drawProblems(const KernelFamily &family, Sizes sizes,
                                       size_t count) {
  return drawWanted(family, sizes, count, [](const Problem &) { return true; });
}

std::vector<Problem> drawWork(const KernelFamily &family, Sizes sizes,
                              size_t count) {
  std::vector<Problem> problems;
  for (DrawnProblem &drawn :
       drawWanted(family, sizes, count, [&](const Problem &problem) {
         return !family.isEmpty(problem);
       }))
    problems.push_back(std::move(drawn.problem));
  return problems;
}

/// The values of \p field for which problems are drawn one by one.
static std::vector<std::string> eachValueOf(const Field &field) {
  std::vector<std::string> values;
  if (field.kind == FieldKind::Enum || field.kind == FieldKind::Chain)
    for (const FieldName &name : field.names)
      values.push_back(name.name.str());
  else if (field.role == FieldRole::Alignment)
    values = {"1", "2", "4", "8", "16"};
  return values;
}

std::vector<DrawnProblem> drawEachValue(const KernelFamily &family,
                                        size_t count, uint32_t seed) {
  constexpr size_t kAttempts = 60;
  Random random(seed);
  std::vector<DrawnProblem> drawn;
  for (const Field &field : family.problemSchema().fields())
    for (const std::string &value : eachValueOf(field)) {
      size_t found = 0;
      for (size_t i = 0; i < kAttempts * count && found < count; ++i) {
        TypedProblem typed =
            drawTyped(family.problemSchema(), Sizes::Wide, random);
        if (!family.combinations().empty() && oneIn(random, 3))
          typed =
              withAll(std::move(typed), pick(random, family.combinations()));
        typed = typed.with(field.key, value);
        auto problem = family.parseProblem(typed.text());
        if (!problem) {
          llvm::consumeError(problem.takeError());
        } else if (!family.isEmpty(*problem)) {
          drawn.push_back({std::move(typed), std::move(*problem)});
          ++found;
        }
      }
    }
  return drawn;
}

std::vector<Problem> suiteProblems(const KernelFamily &family) {
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(
           KILN_SOURCE_DIR "/benchmarks/suites"))
    if (entry.path().extension() == ".json")
      files.push_back(entry.path().string());
  llvm::sort(files);
  std::vector<Problem> problems;
  std::set<std::string> seen;
  for (const std::string &file : files) {
    auto json = llvm::cantFail(readJsonFile(file));
    const llvm::json::Array *cases = json.getAsObject()->getArray("cases");
    if (!cases)
      continue; // the cases are layers, without dynamic extents
    for (const llvm::json::Value &value : *cases) {
      const llvm::json::Object &object = *value.getAsObject();
      if (object.getString("family").value_or("gemm") != family.name())
        continue;
      Values values = llvm::cantFail(
          Values::fromJson(family.problemSchema(), object, {"name", "family"}));
      Problem problem = llvm::cantFail(family.canonicalise(std::move(values)));
      if (seen.insert(problem.text()).second)
        problems.push_back(std::move(problem));
    }
  }
  return problems;
}

//===----------------------------------------------------------------------===//
// Configs
//===----------------------------------------------------------------------===//

static int64_t drawKnob(const Field &knob, Random &random) {
  static const int64_t values[] = {0,  1,  2,  3,   4,   8,   16,
                                   31, 32, 64, 128, 256, 1024};
  return std::clamp(pick<int64_t>(random, values), knob.minimum, knob.maximum);
}

Values drawConfig(const Schema &schema, Random &random) {
  Values config(schema);
  for (auto [i, knob] : llvm::enumerate(schema.fields()))
    config.set(static_cast<int>(i), drawKnob(knob, random));
  return config;
}

Values disturb(const Values &config, Random &random) {
  Values disturbed = config;
  llvm::ArrayRef<Field> knobs = config.schema().fields();
  for (size_t changes = 1 + random() % 2; changes > 0; --changes) {
    size_t knob = random() % knobs.size();
    disturbed.set(static_cast<int>(knob), drawKnob(knobs[knob], random));
  }
  return disturbed;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

std::string faultOfLine(llvm::StringRef message, llvm::StringRef family) {
  auto fault = [&](llvm::StringRef what) {
    return fmt::format("{}: \"{}\"", what, message);
  };
  if (message.contains('\n'))
    return fault("more than one line");
  if (message.ends_with("."))
    return fault("ends with a full stop");
  if (!message.consume_front(family) || !message.consume_front(": "))
    return fault(("does not begin with \"" + family + ": \"").str());
  if (message.empty() || (message[0] >= 'A' && message[0] <= 'Z'))
    return fault("does not begin in lower case");
  return "";
}

} // namespace kiln::conformance
