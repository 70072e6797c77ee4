//===- PagePool.cpp - the pages of the KV cache, by number ----------------===//
#include "PagePool.h"

#include "Error.h"
#include "Hash.h"

#include <cassert>
#include <string>

namespace llama {

namespace {

void expect(bool holds, const char *what, int64_t page) {
  if (!holds)
    throw std::logic_error("page " + std::to_string(page) + ": " + what);
}

} // namespace

size_t PagePool::KeyHash::operator()(const Key &key) const {
  uint64_t hash = mix64(key.before);
  for (const int32_t token : key.tokens)
    hash = mix64(hash + static_cast<uint32_t>(token) + kGolden);
  return static_cast<size_t>(hash & mask);
}

PagePool::PagePool(int64_t pageCount, int64_t pageTokens, uint64_t hashMask)
    : tokensOfPage(pageTokens), contents(0, KeyHash{hashMask}) {
  if (pageCount < 2 || pageCount > INT32_MAX || pageTokens < 1)
    throw Error("a pool of " + std::to_string(pageCount) + " pages of " +
                std::to_string(pageTokens) +
                " tokens, expected two pages and a token at least");
  pages.resize(static_cast<size_t>(pageCount));
  // Lower numbers are given out first.
  for (auto page = static_cast<PageId>(pageCount - 1); page > 0; --page) {
    at(page).previous = at(page).next = page;
    freePages.push_back(page);
  }
}

void PagePool::link(PageId page) {
  // Behind the youngest, which is in front of the head.
  at(page).previous = at(kPaddingPage).previous;
  at(page).next = kPaddingPage;
  at(at(page).previous).next = page;
  at(kPaddingPage).previous = page;
  ++unusedPages;
}

void PagePool::unlink(PageId page) {
  at(at(page).previous).next = at(page).next;
  at(at(page).next).previous = at(page).previous;
  at(page).previous = at(page).next = page;
  --unusedPages;
}

std::optional<PageId> PagePool::allocate() {
  PageId page = kPaddingPage;
  if (!freePages.empty()) {
    page = freePages.back();
    freePages.pop_back();
  } else if (unusedPages > 0) {
    page = at(kPaddingPage).next;
    unlink(page);
    contents.erase(contents.find(at(page).content->first));
    at(page).content = nullptr;
  } else {
    return std::nullopt;
  }
  at(page).users = 1;
  return page;
}

void PagePool::release(PageId page) {
  assert(page != kPaddingPage && at(page).users > 0 && "page is not in use");
  if (--at(page).users > 0)
    return;
  if (at(page).content)
    link(page);
  else
    freePages.push_back(page);
}

std::optional<PagePool::Shared> PagePool::share(ContentId before,
                                                View<int32_t> tokens) {
  assert(tokens.size() == tokensOfPage && "only full pages are shared");
  const auto found = contents.find({before, {tokens.begin(), tokens.end()}});
  if (found == contents.end())
    return std::nullopt;
  const Shared shared = found->second;
  if (at(shared.page).users++ == 0)
    unlink(shared.page);
  return shared;
}

ContentId PagePool::publish(PageId page, ContentId before,
                            View<int32_t> tokens) {
  assert(tokens.size() == tokensOfPage && "only full pages are published");
  assert(at(page).users > 0 && !at(page).content && "page is not private");
  const auto [place, added] = contents.insert(
      {{before, {tokens.begin(), tokens.end()}}, {page, lastContent + 1}});
  if (added) {
    ++lastContent;
    at(page).content = &*place;
  }
  return place->second.content;
}

void PagePool::check() const {
  std::vector<bool> isFree(pages.size()), isUnused(pages.size());
  for (const PageId page : freePages) {
    expect(page > 0 && static_cast<size_t>(page) < pages.size(),
           "a free page that does not exist", page);
    expect(!isFree[static_cast<size_t>(page)], "is free twice", page);
    isFree[static_cast<size_t>(page)] = true;
  }
  int64_t length = 0;
  for (PageId page = at(kPaddingPage).next; page != kPaddingPage;
       page = at(page).next) {
    expect(!isUnused[static_cast<size_t>(page)], "is in the ring twice", page);
    expect(at(at(page).next).previous == page, "the ring is broken", page);
    isUnused[static_cast<size_t>(page)] = true;
    ++length;
  }
  expect(length == unusedPages, "the ring has another length", kPaddingPage);
  expect(at(kPaddingPage).users == 0 && !at(kPaddingPage).content,
         "the padding page was given out", kPaddingPage);

  size_t published = 0;
  for (int64_t i = 1; i <= capacity(); ++i) {
    const Page &page = at(static_cast<PageId>(i));
    const bool free = isFree[static_cast<size_t>(i)];
    const bool unused = isUnused[static_cast<size_t>(i)];
    expect(page.users >= 0, "has fewer than no users", i);
    expect(free + unused + (page.users > 0) == 1,
           "is not exactly one of free, unused and in use", i);
    expect(!free || !page.content, "is free and has content", i);
    expect(!unused || page.content, "is unused and has no content", i);
    if (page.content) {
      ++published;
      expect(page.content->second.page == i, "its content is elsewhere", i);
      expect(contents.count(page.content->first) == 1, "cannot be found", i);
    }
  }
  expect(published == contents.size(), "a content has no page", kPaddingPage);
}

} // namespace llama
