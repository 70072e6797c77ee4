// Problems of every family of Families.def have one text each, which parses
// back.
#include "Families/Conformance/Draw.h"

#include "Support/Error.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <map>

using namespace kiln;
using namespace kiln::conformance;

namespace {

bool isSame(const Problem &a, const Problem &b) {
  return a.values == b.values && a.signature == b.signature;
}

/// The fault of the ways in which \p problem is written and read again.
std::string faultOfRoundTrip(const KernelFamily &family,
                             const Problem &problem) {
  if (llvm::Error error = problem.values.check())
    return "a value that no text has: " + llvm::toString(std::move(error));
  auto parsed = family.parseProblem(problem.text());
  if (!parsed)
    return "its text is refused: " + llvm::toString(parsed.takeError());
  if (!isSame(*parsed, problem))
    return "its text parses into " + parsed->text();
  auto canonical = family.canonicalise(problem.values);
  if (!canonical)
    return "is refused once more: " + llvm::toString(canonical.takeError());
  if (!isSame(*canonical, problem))
    return "becomes another once more: " + canonical->text();
  auto json = Values::fromJson(family.problemSchema(), problem.values.toJson());
  if (!json)
    return "its JSON is refused: " + llvm::toString(json.takeError());
  if (!(*json == problem.values))
    return "its JSON reads as " + json->text();
  const Values &signature = problem.signature;
  if (llvm::Error error = signature.check())
    return "its signature: " + llvm::toString(std::move(error));
  auto reread = Values::parse(signature.schema(), signature.text());
  if (!reread)
    return "its signature is refused: " + llvm::toString(reread.takeError());
  if (!(*reread == signature))
    return "its signature reads as " + reread->text();
  return "";
}

/// The text of \p field's default; empty where it has no name.
std::string defaultText(const Schema &schema, int field) {
  return Values(schema).valueText(field);
}

/// Whether rows may have \p field elements, alone or times another size.
bool isSize(const Field &field) {
  return field.role == FieldRole::Extent || field.role == FieldRole::Signature;
}

/// Values to which a field may be derived if it is not given: another field's,
/// half of it, a product of two, or a name of its own.
std::vector<std::string> derivableTexts(const Problem &problem, int index) {
  llvm::ArrayRef<Field> fields = problem.values.schema().fields();
  std::vector<std::string> texts;
  if (fields[index].kind == FieldKind::Enum)
    for (const FieldName &name : fields[index].names)
      texts.push_back(name.name.str());
  if (fields[index].role != FieldRole::LeadingDimension)
    return texts;
  std::vector<int64_t> sizes;
  for (int i = 0; i < int(fields.size()); ++i)
    if (fields[i].kind == FieldKind::Integer) {
      for (int64_t divisor : {1, 2})
        texts.push_back(std::to_string(problem.values[i] / divisor));
      if (isSize(fields[i]))
        sizes.push_back(problem.values[i]);
    }
  for (int64_t a : sizes)
    for (int64_t b : sizes)
      if (b > 0 && a < (int64_t(1) << 40) / b)
        texts.push_back(std::to_string(a * b));
  return texts;
}

/// The fault of the texts that are equivalent to \p drawn.
std::string faultOfEquals(const KernelFamily &family, const DrawnProblem &drawn,
                          Random &random) {
  const std::string text = drawn.problem.text();
  TypedProblem shuffled = drawn.typed;
  for (size_t i = shuffled.values.size(); i > 1; --i)
    std::swap(shuffled.values[i - 1], shuffled.values[random() % i]);
  if (textOf(family, shuffled) != text)
    return "in another order it is " + textOf(family, shuffled);
  const Schema &schema = family.problemSchema();
  for (auto [i, field] : llvm::enumerate(schema.fields())) {
    int index = static_cast<int>(i);
    if (field.required || drawn.typed.has(field.key) ||
        drawn.problem.values[index] != field.defaultValue)
      continue;
    if (std::string value = defaultText(schema, index); !value.empty()) {
      std::string given = textOf(family, drawn.typed.with(field.key, value));
      if (given != text)
        return fmt::format("with {}={}, its default, it is {}", field.key,
                           value, given);
    }
    std::vector<std::string> texts = derivableTexts(drawn.problem, index);
    if (!texts.empty() && llvm::none_of(texts, [&](const std::string &value) {
          return textOf(family, drawn.typed.with(field.key, value)) == text;
        }))
      return fmt::format("no {} is the default that it has without", field.key);
  }
  return "";
}

} // namespace

/// The fault of a field of problems.
static std::string faultOfField(const Field &field) {
  bool isReal = field.kind == FieldKind::Real;
  if (field.key.empty() || (field.role == FieldRole::Scalar) != isReal)
    return "a scalar is a real number, and nothing else is";
  bool hasNames =
      field.kind == FieldKind::Enum || field.kind == FieldKind::Chain;
  if (hasNames == field.names.empty())
    return "enums and chains have names, and nothing else has";
  if (field.kind == FieldKind::Integer && !field.required &&
      (field.defaultValue < field.minimum ||
       field.defaultValue > field.maximum))
    return "a default beyond its bounds";
  if (field.role == FieldRole::Knob || field.role == FieldRole::RuntimeKnob)
    return "a knob";
  return "";
}

TEST_CASE("conformance: the fields of a problem are of their roles") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    const Schema &schema = family->problemSchema();
    CHECK(schema.name() == family->name());
    CHECK(schema.style() == TextStyle::Spaced);
    std::map<FieldRole, int> counts;
    for (const Field &field : schema.fields()) {
      CAPTURE(field.key.str());
      CHECK(faultOfField(field) == "");
      ++counts[field.role];
    }
    CHECK(counts[FieldRole::DynamicExtent] >= 1);
    CHECK(counts[FieldRole::Hint] <= counts[FieldRole::DynamicExtent]);
    CHECK(counts[FieldRole::Alignment] <= 1);
    CHECK(counts[FieldRole::Batch] <= 1);
    CHECK(counts[FieldRole::Scalar] <= Arguments::kMaxScalars);
  }
}

TEST_CASE("conformance: a problem has one text, which parses back") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    Random random(11);
    for (Sizes sizes : {Sizes::Usual, Sizes::Small, Sizes::Extreme})
      for (const DrawnProblem &drawn : drawProblems(*family, sizes, 100)) {
        CAPTURE(drawn.typed.text());
        CHECK(faultOfRoundTrip(*family, drawn.problem) == "");
        CHECK(faultOfEquals(*family, drawn, random) == "");
      }
    for (const Problem &problem : suiteProblems(*family))
      CHECK(faultOfRoundTrip(*family, problem) == "");
  }
}

TEST_CASE("conformance: a family's example is a problem to compute") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    auto problem = family->parseProblem(family->example());
    if (!problem)
      FAIL_CHECK(llvm::toString(problem.takeError()));
    else
      CHECK_FALSE(family->isEmpty(*problem));
  }
  auto shown = registry().parseProblem(registry().example());
  CHECK(llvm::toString(shown.takeError()) == "");
}

TEST_CASE("conformance: a signature repeats with its period") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    const Schema &schema = family->problemSchema();
    for (const DrawnProblem &drawn : drawProblems(*family, Sizes::Usual, 100))
      for (auto [i, field] : llvm::enumerate(schema.fields())) {
        if (!field.mayVary())
          continue;
        int64_t value = drawn.problem.values[static_cast<int>(i)] +
                        3 * family->signaturePeriod();
        TypedProblem moved = drawn.typed.with(field.key, std::to_string(value));
        auto problem = family->parseProblem(moved.text());
        if (!problem) { // a leading dimension that is too short now
          llvm::consumeError(problem.takeError());
          continue;
        }
        CAPTURE(moved.text());
        CHECK(problem->signature.text() == drawn.problem.signature.text());
      }
  }
}
