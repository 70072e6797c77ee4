//===- MergedStore.h - entries that several processes add to --------------===//
//
// Records, portfolios and verdicts are entries that any number of
// processes update at once. This is all of them that is common: an entry is
// kept parsed and looked at again once an interval; an update reads, merges and
// writes under the cache's lock; text that cannot be read is kept aside under a
// key of its own before it is replaced; an entry has a largest size; and one
// that is as it was seen is not read again.
//
// A kind of entry says the rest with its document type:
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

/// How old what a question answers may be, where another process has stored.
enum class RecordAge {
  Recent, ///< MergedOptions::recheckInterval: for calls that are many
  Now,    ///< it asks the file system whether the entry has changed
};

/// Properties that all entries of a kind share.
struct MergedKind {
  cache::Kind kind;
  llvm::StringLiteral name; ///< "record"
  size_t maxBytes;          ///< of the text of an entry
  /// MergedOptions::maxKeptBytes, unless that is given.
  uint64_t maxKeptBytes = 8u << 20;
  /// Updates often change nothing: whether one would is looked at first, which
  /// costs a read instead of two fsyncs.
  bool isOftenEqual = false;
};

struct MergedOptions {
  /// How long what was read counts as RecordAge::Recent.
  std::chrono::milliseconds recheckInterval{1000};
  /// Text of the entries that are kept parsed, which takes some times that; the
  /// one used least recently goes first.
  std::optional<uint64_t> maxKeptBytes = std::nullopt;
};

/// A MergedStore without its document type. Thread-safe. The cache store, whose
/// log is told of what cannot be read or kept, must outlive it.
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
    /// Never null; empty where there is no entry. The same while nothing has
    /// changed. Where something is there that cannot be read, what was read
    /// before.
    Ptr document;
    uint64_t version = 0;   ///< grows with each change of the document
    bool isReadable = true; ///< what is there could be read
  };
  /// The entry of \p key. Cost: microseconds once it is kept; once an interval
  /// it asks the file system whether it has changed, and then reads it.
  Loaded load(const std::string &key, RecordAge age) const {
    MergedEntries::Loaded loaded = entries.load(key, age);
    return {std::static_pointer_cast<const D>(std::move(loaded.document)),
            loaded.version, loaded.isReadable};
  }

  struct Updated {
    /// Dropped, with a reason, also where the entry would be too large or what
    /// is there cannot be read and not be kept aside.
    cache::PublishResult publish;
    Ptr document;          ///< as it now is; null: the change was not made
    uint64_t version = 0;  ///< as Loaded::version; 0 where it is not kept
    bool wasThere = false; ///< on disk; nothing had to be written
  };
  /// Makes \p change, which may run several times and must not call the cache.
  /// Cost: milliseconds.
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

  /// Whether some layer of the cache on disk has a file for \p key. Cost: some
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
