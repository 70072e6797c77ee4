#include "Support/Hash.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("digests are those of SHA-256 and BLAKE3") {
  CHECK(strongHash("abc").hex() ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(contentHash({}).hex() ==
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  CHECK(contentHash({"abc"}).hex() ==
        "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
  CHECK(contentHash({"a", "", "bc"}) == contentHash({"abc"}));
}
