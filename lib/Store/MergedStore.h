//===- MergedStore.h - entries that several processes add to --------------===//
//
// Records, portfolios and verdicts are entries that any number of processes
// update at once. This is their common part: an entry is kept parsed and
// checked again once an interval; an update reads, merges and writes under the
// cache's lock; unreadable text is kept aside under a key of its own before it
// is replaced; an entry has a largest size; and an unchanged entry is not read
// again.
//
// The document type of a kind of entry defines the rest:
//
//   static constexpr MergedKind kKind = {...};
//   Document();                         // of an entry that is not there
//   static llvm::Expected<Document> open(std::string text);
//   std::string text() const;
//   size_t shrink(size_t most);         // to at most so many bytes, if it can,
//                                       // in the order that the kind states;
//                                       // returns how many parts went
//
// Documents are copied for each update, and are immutable once they are kept.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kiln {

/// The age that an answer may have if another process has stored meanwhile.
enum class RecordAge {
  Recent, ///< MergedOptions::recheckInterval: for frequent calls
  Now,    ///< the file system is asked whether the entry has changed
};

/// Properties that all entries of a kind share.
struct MergedKind {
  cache::Kind kind;
  llvm::StringLiteral name; ///< "record"
  size_t maxBytes;          ///< of the text of an entry
  /// MergedOptions::maxKeptBytes, unless that is given.
  uint64_t maxKeptBytes = 8u << 20;
  /// Updates often change nothing, so that is checked first, which costs a read
  /// instead of two fsyncs.
  bool isOftenEqual = false;
};

struct MergedOptions {
  /// The time for which a reading counts as RecordAge::Recent.
  std::chrono::milliseconds recheckInterval{1000};
  /// The limit of the text of entries that are kept parsed, which take several
  /// times as much memory; the least recently used one goes first. There is
  /// none with readsOnce.
  std::optional<uint64_t> maxKeptBytes = std::nullopt;
  /// The first reading of an entry counts as RecordAge::Now, too, and is kept
  /// for good; updates change the cache alone.
  bool readsOnce = false;
};

/// A MergedStore without its document type. Thread-safe. The cache store, whose
/// log receives entries that cannot be read or kept, must outlive it.
class MergedEntries {
public:
  using Document = std::shared_ptr<void>;
  using DocumentPtr = std::shared_ptr<const void>;
  struct Type {
    MergedKind kind;
    llvm::Expected<Document> (*open)(std::string text);
    Document (*copy)(const void *document); ///< null: an empty one
    std::string (*text)(const void *document);
    size_t (*shrink)(void *document, size_t most);
  };
  struct Loaded {
    DocumentPtr document;
    uint64_t version = 0;
    bool isReadable = true;
  };
  struct Updated {
    cache::PublishResult publish;
    DocumentPtr document;
    uint64_t version = 0;
    bool wasThere = false;
  };
  using Change = llvm::function_ref<void(void *document)>;

  MergedEntries(cache::Store &cache, const Type &type, MergedOptions options);
  ~MergedEntries();
  Loaded load(const std::string &key, RecordAge age);
  Updated update(const std::string &key, llvm::json::Object attributes,
                 Change change);
  bool isOnDisk(llvm::StringRef key) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Entries of one kind, kept parsed. Thread-safe. The cache store must outlive
/// it.
template <class D> class MergedStore {
public:
  using Ptr = std::shared_ptr<const D>;

  explicit MergedStore(cache::Store &cache, MergedOptions options = {})
      : entries(cache, {D::kKind, open, copy, text, shrink}, options) {}

  struct Loaded {
    /// Never null; empty if there is no entry. The same pointer while nothing
    /// has changed. If the entry cannot be read, the document that was read
    /// before.
    Ptr document;
    uint64_t version = 0;   ///< grows with each change of the document
    bool isReadable = true; ///< the entry could be read, or there is none
  };
  /// Returns the entry of \p key. Takes microseconds once it is kept; once an
  /// interval it asks the file system whether it has changed, and then reads
  /// it.
  Loaded load(const std::string &key, RecordAge age) const {
    MergedEntries::Loaded loaded = entries.load(key, age);
    return {std::static_pointer_cast<const D>(std::move(loaded.document)),
            loaded.version, loaded.isReadable};
  }

  struct Updated {
    /// Dropped, with a reason, also if the entry would be too large, or if its
    /// text can neither be read nor kept aside.
    cache::PublishResult publish;
    Ptr document;          ///< as it now is; null: the change was not made
    uint64_t version = 0;  ///< like Loaded::version; 0 if it is not kept
    bool wasThere = false; ///< on disk; nothing had to be written
  };
  /// Applies \p change, which may run several times and must not call the
  /// cache. Takes milliseconds.
  Updated update(const std::string &key, llvm::json::Object attributes,
                 llvm::function_ref<void(D &)> change) {
    MergedEntries::Updated made =
        entries.update(key, std::move(attributes), [&](void *document) {
          change(*static_cast<D *>(document));
        });
    return {std::move(made.publish),
            std::static_pointer_cast<const D>(std::move(made.document)),
            made.version, made.wasThere};
  }

  /// Whether some tier of the cache on disk has a file for \p key. Takes some
  /// us.
  bool isOnDisk(llvm::StringRef key) const { return entries.isOnDisk(key); }

private:
  static llvm::Expected<MergedEntries::Document> open(std::string text) {
    auto opened = D::open(std::move(text));
    if (!opened)
      return opened.takeError();
    return std::make_shared<D>(std::move(*opened));
  }
  static MergedEntries::Document copy(const void *document) {
    return document ? std::make_shared<D>(*static_cast<const D *>(document))
                    : std::make_shared<D>();
  }
  static std::string text(const void *document) {
    return static_cast<const D *>(document)->text();
  }
  static size_t shrink(void *document, size_t most) {
    return static_cast<D *>(document)->shrink(most);
  }

  mutable MergedEntries entries;
};

} // namespace kiln
