#include "llama/PagePool.h"

#include "llama/Error.h"

#include <doctest/doctest.h>
#include <set>

using namespace llama;

namespace {

const std::vector<int32_t> kFirst = {1, 2}, kSecond = {3, 4};

} // namespace

TEST_CASE("each page is given out once, and the padding page never") {
  PagePool pool(5, 2);
  CHECK(pool.capacity() == 4);
  std::set<PageId> given;
  for (int i = 0; i < 4; ++i)
    given.insert(pool.allocate().value());
  CHECK(given == std::set<PageId>{1, 2, 3, 4});
  CHECK(!pool.allocate());
  pool.check();
  pool.release(3);
  CHECK(pool.available() == 1);
  CHECK(pool.allocate() == 3);
  pool.check();
}

TEST_CASE(
    "content is found behind equal content alone, if hashes collide too") {
  for (const uint64_t hashMask : {UINT64_MAX, uint64_t(0)}) {
    CAPTURE(hashMask);
    PagePool pool(8, 2, hashMask);
    const PageId first = pool.allocate().value();
    const PageId second = pool.allocate().value();
    const PageId other = pool.allocate().value();
    const ContentId one = pool.publish(first, kNoContent, kFirst);
    const ContentId two = pool.publish(second, one, kSecond);
    const ContentId three = pool.publish(other, two, kSecond);
    CHECK(std::set<ContentId>{one, two, three}.size() == 3);

    CHECK(!pool.share(kNoContent, kSecond));
    CHECK(!pool.share(one, kFirst));
    const auto found = pool.share(one, kSecond);
    REQUIRE(found);
    CHECK(found->page == second);
    CHECK(found->content == two);
    CHECK(pool.share(two, kSecond)->page == other);
    CHECK(pool.users(second) == 2);
    pool.check();
  }
}

TEST_CASE("the second page with a content stays private") {
  PagePool pool(8, 2);
  const PageId first = pool.allocate().value();
  const PageId again = pool.allocate().value();
  const ContentId content = pool.publish(first, kNoContent, kFirst);
  CHECK(pool.publish(again, kNoContent, kFirst) == content);
  CHECK(pool.share(kNoContent, kFirst)->page == first);
  pool.release(again);
  CHECK(pool.unused() == 0); // It has no content that could be found.
  pool.check();
}

TEST_CASE("unused content is found until its page is needed, oldest first") {
  PagePool pool(4, 2);
  const PageId first = pool.allocate().value();
  const PageId second = pool.allocate().value();
  const ContentId one = pool.publish(first, kNoContent, kFirst);
  pool.publish(second, one, kSecond);
  // As a sequence does: the end of the prefix first, so it is forgotten first.
  pool.release(second);
  pool.release(first);
  CHECK(pool.available() == 3);
  CHECK(pool.unused() == 2);

  CHECK(pool.allocate() == 3); // The page without content.
  CHECK(pool.allocate() == second);
  CHECK(!pool.share(one, kSecond));
  const auto found = pool.share(kNoContent, kFirst);
  REQUIRE(found);
  CHECK(found->page == first);
  CHECK(!pool.allocate());
  pool.check();

  // Forgotten and published again, it has another id: a page that followed
  // the old one is not found behind the new one.
  pool.release(first);
  CHECK(pool.allocate() == first);
  CHECK(pool.publish(first, kNoContent, kFirst) != one);
  pool.check();
}

TEST_CASE("pools without a page to give are refused") {
  CHECK_THROWS_AS(PagePool(1, 16), Error);
  CHECK_THROWS_AS(PagePool(8, 0), Error);
  CHECK_THROWS_AS(PagePool(int64_t(1) << 31, 16), Error);
}
