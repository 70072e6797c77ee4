//===- ConfigKeys.h - checked members of a config.json --------------------===//
//
// A key that is absent or null has its default. Every value has to have the
// right type and lie within bounds, also a default that was computed from other
// keys. The first fault is kept, so that a
// reader need not look after each key; later keys give their least values.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/ADT/Twine.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

class ConfigKeys {
public:
  /// Both outlive it; \p source names the file in errors.
  ConfigKeys(const llvm::json::Object &object, llvm::StringRef source)
      : members(object), source(source) {}

  /// Null: absent, or JSON's null.
  const llvm::json::Value *find(llvm::StringRef key) const;
  /// Whether \p key is JSON's null. Some classes take that for another value
  /// than the default of an absent key.
  bool isNull(llvm::StringRef key) const;
  /// An integer in [\p least, \p most]; without \p otherwise it is required.
  int64_t integer(llvm::StringRef key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = std::nullopt);
  /// A number in the same way.
  double number(llvm::StringRef key, double least, double most,
                std::optional<double> otherwise = std::nullopt);
  bool boolean(llvm::StringRef key, bool otherwise);
  /// Empty if the key is absent.
  llvm::StringRef text(llvm::StringRef key);
  /// The one text of a list; empty if the key is absent.
  llvm::StringRef onlyText(llvm::StringRef key);
  /// Null if the key is absent.
  const llvm::json::Array *array(llvm::StringRef key);
  const llvm::json::Object *object(llvm::StringRef key);

  /// The value of \p key for a message, or its beginning; "missing".
  std::string shown(llvm::StringRef key) const;
  /// Notes a fault of \p key: "source: key is <value>, reason".
  void refuse(llvm::StringRef key, const llvm::Twine &reason);
  /// The first fault (InvalidArgument), if there was one.
  llvm::Error takeError() const;

private:
  template <class T>
  T within(llvm::StringRef key, const char *kind, T least, T most,
           std::optional<T> given, std::optional<T> otherwise);

  const llvm::json::Object &members;
  llvm::StringRef source;
  std::string fault;
};

} // namespace kiln
