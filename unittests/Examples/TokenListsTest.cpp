#include "llama/TokenLists.h"

#include "llama/Error.h"

#include <doctest/doctest.h>

using namespace llama;

TEST_CASE("lists of token ids, and nothing else") {
  CHECK(parseTokenLists("[[1, 2], [99]]", "tokens", 100) ==
        TokenLists{{1, 2}, {99}});
  const auto refuse = [](const char *json, const char *message) {
    CAPTURE(json);
    CHECK_THROWS_WITH_AS(parseTokenLists(json, "tokens", 100),
                         doctest::Contains(message), Error);
  };
  refuse("", "tokens: ");
  for (const char *json : {"[]", "{}", "7", "null"})
    refuse(json, "expected a list of lists of token ids");
  refuse("[[], [5]]", "list 0 is [], expected token ids");
  refuse("[[5], 5]", "list 1 is 5, expected token ids");
  refuse("[[5], null]", "list 1 is missing");
  for (const char *json :
       {"[[4294967297]]", "[[1.9]]", "[[true]]", "[[-1]]", "[[100]]",
        "[[\"1\"]]", "[[[1]]]", "[[18446744073709551615]]"})
    refuse(json, "expected token ids of 0 to 99");
}
