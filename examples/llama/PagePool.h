//===- PagePool.h - the pages of the KV cache, by number ------------------===//
//
// A page holds the keys and values of pageTokens tokens in all layers. The pool
// counts the users of each page and finds pages whose content another request
// can share. It handles numbers alone; the memory belongs to the engine.
//
// Shared prefixes. The keys of a token depend on all tokens before it, so a
// page's content is known by its own tokens and the content before it. Each
// published content has a ContentId, given once and never again, and is found
// by (the id before it, its tokens). Both are compared and not only hashed: two
// equal ids are equal prefixes, whatever hashes collide.
//
// Only full pages are published. A sequence writes behind its full pages alone,
// so a shared page is never written again and copy-on-write is not needed. The
// price: up to pageTokens - 1 tokens of a common prefix are computed again.
//
// A published page that no sequence uses stays findable until its memory is
// needed; the page that was unused for longest goes first. Two sequences may
// compute the same content at the same time. The first to publish it is found;
// the other keeps its own page and goes on with the first one's id.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_PAGEPOOL_H
#define KILN_EXAMPLES_LLAMA_PAGEPOOL_H

#include "View.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace llama {

using PageId = int32_t;

/// The page that is never given out: padding of a batch points at it.
constexpr PageId kPaddingPage = 0;

/// A prefix of tokens up to the end of a page.
using ContentId = uint64_t;

/// The empty prefix.
constexpr ContentId kNoContent = 0;

/// Not thread-safe.
class PagePool {
public:
  /// \p pages pages, the padding page among them, of \p pageTokens tokens each.
  /// Throws Error unless there are two pages and one token. \p hashMask has the
  /// bits of the hashes that count; tests make all contents collide.
  PagePool(int64_t pages, int64_t pageTokens, uint64_t hashMask = UINT64_MAX);

  int64_t pageTokens() const { return tokensOfPage; }
  /// Pages that can be given out in all.
  int64_t capacity() const { return static_cast<int64_t>(pages.size()) - 1; }
  /// Pages that allocate() can give out now: free ones and unused content.
  int64_t available() const {
    return static_cast<int64_t>(freePages.size()) + unusedPages;
  }
  /// Pages of content that no sequence uses.
  int64_t unused() const { return unusedPages; }

  /// A page with one user; nothing if none is available. May forget the
  /// content that was unused for longest.
  std::optional<PageId> allocate();

  /// Takes a user from \p page. Release the pages of a sequence last first, so
  /// that the ends of prefixes are forgotten before their beginnings.
  void release(PageId page);

  struct Shared {
    PageId page;
    ContentId content;
  };
  /// The page that has \p tokens (a full page of them) after \p before, and
  /// adds a user to it; nothing if there is no such page.
  std::optional<Shared> share(ContentId before, View<int32_t> tokens);

  /// Publishes that \p page, which is in use and not published, has \p tokens
  /// after \p before. Returns the id of that content.
  ContentId publish(PageId page, ContentId before, View<int32_t> tokens);

  int64_t users(PageId page) const { return at(page).users; }

  /// Throws std::logic_error if the lists, counts and contents disagree. For
  /// tests: takes time in proportion to the pool.
  void check() const;

private:
  struct Key {
    ContentId before;
    std::vector<int32_t> tokens;
    bool operator==(const Key &other) const {
      return before == other.before && tokens == other.tokens;
    }
  };
  struct KeyHash {
    uint64_t mask;
    size_t operator()(const Key &key) const;
  };
  using Contents = std::unordered_map<Key, Shared, KeyHash>;

  struct Page {
    int64_t users = 0;
    /// Its node in `contents`, whose address is stable; null: not published.
    const Contents::value_type *content = nullptr;
    /// Neighbours in the ring of unused pages, whose head is the padding page;
    /// both are the page itself while it is not in the ring.
    PageId previous = 0, next = 0;
  };

  Page &at(PageId page) { return pages[static_cast<size_t>(page)]; }
  const Page &at(PageId page) const { return pages[static_cast<size_t>(page)]; }
  void link(PageId page);
  void unlink(PageId page);

  int64_t tokensOfPage;
  std::vector<Page> pages;
  std::vector<PageId> freePages; ///< Without content; the last is next.
  Contents contents;
  int64_t unusedPages = 0; ///< Length of the ring, oldest first.
  ContentId lastContent = kNoContent;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_PAGEPOOL_H
