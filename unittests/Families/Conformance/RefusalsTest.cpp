// Texts that families of Families.def refuse: each gets one clear line.
#include "Families/Conformance/Draw.h"

#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <limits>
#include <map>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// The fault of the message by which \p family refuses \p text; it has to name
/// \p part.
std::string faultOfRefusal(const KernelFamily &family, const std::string &text,
                           llvm::StringRef part) {
  auto problem = family.parseProblem(text);
  if (problem)
    return "is accepted as " + problem->text();
  ErrorSummary error = summarize(problem.takeError());
  if (error.code != ErrorCode::InvalidArgument &&
      error.code != ErrorCode::Unsupported)
    return "another code than InvalidArgument: " + error.message;
  if (!llvm::StringRef(error.message).contains(part))
    return fmt::format("\"{}\" does not name {}", error.message, part);
  return faultOfLine(error.message, family.name());
}

/// Texts that are no value of \p field.
std::vector<std::string> badTexts(const Field &field) {
  switch (field.kind) {
  case FieldKind::Integer: {
    std::vector<std::string> texts = {"", "x", "1.5", "99999999999999999999",
                                      std::to_string(field.minimum - 1)};
    if (field.maximum < std::numeric_limits<int64_t>::max())
      texts.push_back(std::to_string(field.maximum + 1));
    if (field.role == FieldRole::Alignment)
      texts.insert(texts.end(), {"3", "12"});
    return texts;
  }
  case FieldKind::Enum:
    return {"", "nonsense", "1"};
  case FieldKind::Real:
    return {"", "nonsense", "inf", "nan"};
  case FieldKind::Chain:
    return {"nonsense", "1"};
  }
  return {};
}

} // namespace

TEST_CASE("conformance: what is no problem gets one clear line") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (const DrawnProblem &drawn : drawProblems(*family, Sizes::Usual, 20)) {
      const TypedProblem &typed = drawn.typed;
      auto check = [&](const std::string &text, const std::string &part) {
        CAPTURE(text);
        CHECK(faultOfRefusal(*family, text, part) == "");
      };
      for (const auto &[key, value] : typed.values)
        check(typed.text() + " " + key + "=" + value, key + " is given twice");
      check(typed.text() + " nonsense=1", "'nonsense'");
      check(typed.text() + " nonsense", "'nonsense'");
      check("nonsense " + typed.text(), "'nonsense'");
      for (const Field &field : family->problemSchema().fields()) {
        std::string key = field.key.str();
        if (field.required)
          check(typed.without(key).text(), key + " is missing");
        for (const std::string &value : badTexts(field))
          check(typed.with(key, value).text(), key + "=" + value);
      }
    }
  }
}

// Kernels take scalars as fp32: these would be infinite there, or 0.
TEST_CASE("conformance: a scalar that fp32 does not hold is refused") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (const DrawnProblem &drawn : drawProblems(*family, Sizes::Usual, 20))
      for (const Field &field : family->problemSchema().fields())
        for (const char *value : {"1e+39", "1e-60"})
          if (field.role == FieldRole::Scalar) {
            const std::string key = field.key.str();
            const std::string text = drawn.typed.with(key, value).text();
            CAPTURE(text);
            // Some problems lack this scalar, and the message says so.
            CHECK(faultOfRefusal(*family, text, key) == "");
          }
  }
}

TEST_CASE("conformance: JSON of the wrong kind gets one clear line") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    const Schema &schema = family->problemSchema();
    Problem problem = drawProblems(*family, Sizes::Usual, 1)[0].problem;
    for (const Field &field : schema.fields()) {
      CAPTURE(field.key.str());
      llvm::json::Object object = problem.values.toJson();
      object[field.key] = llvm::json::Array{1};
      auto values = Values::fromJson(schema, object);
      REQUIRE(!values);
      std::string message = summarize(values.takeError()).message;
      CHECK(faultOfLine(message, family->name()) == "");
      CHECK(llvm::StringRef(message).contains(field.key));
    }
  }
}

// If a problem does not read an operand, its leading dimension is neither an
// error nor a part of the text; each one must be read by some problem.
TEST_CASE("conformance: a row longer than its leading dimension is refused") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::map<std::string, int> refusals;
    for (const Field &field : family->problemSchema().fields())
      if (field.role == FieldRole::LeadingDimension)
        refusals[field.key.str()] = 0;
    for (const DrawnProblem &drawn : drawProblems(*family, Sizes::Usual, 200))
      for (auto &[key, count] : refusals) {
        TypedProblem typed = drawn.typed.with(key, "1");
        CAPTURE(typed.text());
        if (auto problem = family->parseProblem(typed.text())) {
          // One element a row is as long as the rows of one column.
          CHECK(problem->text() == textOf(*family, drawn.typed.without(key)));
          continue;
        } else {
          llvm::consumeError(problem.takeError());
        }
        ++count;
        CHECK(faultOfRefusal(*family, typed.text(), key + "=1") == "");
      }
    for (const auto &[key, count] : refusals) {
      CAPTURE(key);
      CHECK(count > 0);
    }
  }
}

TEST_CASE("conformance: what a family itself refuses gets one clear line") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    Random random(13);
    for (int i = 0; i < 500; ++i) {
      TypedProblem typed =
          drawTyped(family->problemSchema(),
                    i % 2 ? Sizes::Usual : Sizes::Extreme, random);
      CAPTURE(typed.text());
      auto problem = family->parseProblem(typed.text());
      if (problem)
        continue;
      std::string message = summarize(problem.takeError()).message;
      CHECK(faultOfLine(message, family->name()) == "");
      CHECK(llvm::any_of(family->problemSchema().fields(),
                         [&](const Field &field) {
                           return llvm::StringRef(message).contains(field.key);
                         }));
    }
  }
}
