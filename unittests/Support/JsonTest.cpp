#include "Support/Json.h"

#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("deep and large JSON is refused before the parser recurses") {
  auto deep = parseJson(std::string(100000, '['), "deep");
  CHECK(summarize(deep.takeError()).code == ErrorCode::InvalidArgument);
  auto large = parseJson("[1,2,3]", "large", 4);
  CHECK(summarize(large.takeError()).code == ErrorCode::InvalidArgument);
}

TEST_CASE("brackets inside strings do not count as nesting") {
  std::string text = "[\"" + std::string(1000, '[') + "\\\"[\"]";
  auto value = parseJson(text, "text");
  REQUIRE(bool(value));
  CHECK(value->getAsArray()->size() == 1);
}

TEST_CASE("a syntax error names the text") {
  auto bad = parseJson("{", "suite.json");
  auto summary = summarize(bad.takeError());
  CHECK(summary.message.find("suite.json") == 0);
}
