//===- MergedText.h - the text of entries that processes merge ------------===//
//
// An entry of this form has a head line, which names its kind and format, and
// then one line of JSON for each item. Other versions of Kiln may have written
// any of it: unknown fields are carried along, unreadable parts are skipped and
// kept. A field with its default is left out.
//
// Private to lib/Store.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The format of all entries of this form. A later one is not read.
inline constexpr int64_t kMergedFormat = 2;

/// Now, in milliseconds of Unix time.
int64_t unixTimeMs();
/// Returns \p atMs, or 0 if it cannot be true at \p nowMs: more than a day
/// ahead of it, or negative.
int64_t believedMs(int64_t atMs, int64_t nowMs);

/// Whether \p ns can be a measured time.
bool isTime(double ns);

/// Whether \p value can be written: JSON has no infinity, but the parser makes
/// one of 1e999.
bool isWritable(const llvm::json::Value &value);

/// Adds the fields of \p from that \p into does not have.
void addMissing(llvm::json::Object &into, const llvm::json::Object &from);

/// Returns \p object as a line.
std::string jsonLine(llvm::json::Object object);

/// Reads known fields of an object. A field of the wrong type makes the object
/// damaged; an absent one keeps its default.
class FieldReader {
public:
  explicit FieldReader(const llvm::json::Object &object) : object(object) {}

  void read(llvm::StringRef key, double &value);
  void read(llvm::StringRef key, int64_t &value);
  void read(llvm::StringRef key, uint64_t &value);
  void read(llvm::StringRef key, bool &value);
  void read(llvm::StringRef key, std::string &value);
  /// Reads a number, or an array of numbers.
  void read(llvm::StringRef key, llvm::SmallVectorImpl<int64_t> &values);
  void read(llvm::StringRef key, std::vector<int64_t> &values);
  void read(llvm::StringRef key, llvm::json::Object &value);
  /// Gives the items of an array to \p take, which returns whether it could
  /// read one. Unreadable items are added to \p unread if they can be written.
  /// Returns the number of unreadable ones.
  uint64_t readItems(llvm::StringRef key, llvm::json::Array &unread,
                     llvm::function_ref<bool(const llvm::json::Object &)> take);
  /// Like read(), but without the field the object is damaged.
  template <class Value> void require(llvm::StringRef key, Value &value) {
    isDamaged |= !object.get(key);
    read(key, value);
  }

  /// The fields that were not read, except the ones that cannot be written.
  llvm::json::Object unknown() const;

  bool isDamaged = false;

private:
  const llvm::json::Value *find(llvm::StringRef key);
  template <class Source, class Target>
  void store(const std::optional<Source> &source, Target &value);
  template <class Values> void readList(llvm::StringRef key, Values &values);

  const llvm::json::Object &object;
  llvm::SmallVector<llvm::StringRef, 20> known;
};

/// The contents of an entry besides the items that this version reads.
struct OtherText {
  llvm::json::Object head;         ///< unknown fields of the head line
  std::vector<std::string> unread; ///< unreadable lines

  friend bool operator==(const OtherText &, const OtherText &) = default;
};

/// Takes the head line off \p text, an entry that holds \p kind. Error
/// (InvalidArgument): it is missing, or of another kind or a later
/// format.
llvm::Error takeHead(llvm::StringRef &text, llvm::StringRef kind,
                     OtherText &other);
std::string headLine(llvm::StringRef kind, const OtherText &other);

/// Reads a whole entry: \p take gets each item and returns whether it could
/// read it. Error: that of takeHead().
llvm::Error
readLines(llvm::StringRef text, llvm::StringRef kind, OtherText &other,
          llvm::function_ref<bool(const llvm::json::Object &)> take);

/// The text of an entry with \p items, which \p write turns into objects.
template <class Items, class Write>
std::string textOfItems(llvm::StringRef kind, const OtherText &other,
                        const Items &items, Write write) {
  std::string text = headLine(kind, other);
  for (const auto &item : items)
    text += jsonLine(write(item));
  for (const std::string &line : other.unread)
    text += line + "\n";
  return text;
}

/// Drops items with \p dropOne until at most \p most bytes of text are left or
/// it returns false. Returns the number of dropped ones.
size_t shrinkText(size_t most, llvm::function_ref<std::string()> text,
                  llvm::function_ref<bool()> dropOne);

} // namespace kiln
