//===- StructAccess.h - the rules of struct_size, written once ------------===//
#pragma once

#include "Support/Error.h"
#include "kiln/kiln.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kiln {

/// The size of a struct's first version: the least struct_size that is
/// accepted. A struct that grew has a specialisation, here or beside its
/// reader, which keeps it. Structs of calls and structs that the library fills
/// may grow; all others take new fields into their reserved space.
template <class Struct>
inline constexpr size_t kFirstVersionSize = sizeof(Struct);

template <> inline constexpr size_t kFirstVersionSize<kiln_statistics> = 264;

template <class Struct>
inline constexpr bool kHasGrown = kFirstVersionSize<Struct> < sizeof(Struct);

/// The greatest struct_size that is accepted: no version of a struct comes near
/// it, and a wrong size must not lead to reads beyond the struct.
inline constexpr uint32_t kMostStructBytes = 4096;

/// True when \p bytes bytes from \p from are zero.
inline bool isZero(const void *from, size_t bytes) {
  const char *begin = static_cast<const char *>(from);
  return std::all_of(begin, begin + bytes, [](char c) { return c == 0; });
}

/// True when \p given can be read as a Struct. A shorter one of an earlier
/// version cannot: see withFullSize().
template <class Struct> bool hasKnownSize(const Struct &given) {
  // Another size is rare.
  if (given.struct_size == sizeof(Struct)) [[likely]]
    return true;
  return given.struct_size > sizeof(Struct) &&
         given.struct_size <= kMostStructBytes &&
         isZero(&given + 1, given.struct_size - sizeof(Struct));
}

/// Whether \p given, a struct that others embed by value, may have its size.
template <class Struct> bool hasEmbeddedSize(const Struct &given) {
  return given.struct_size == 0 || given.struct_size == sizeof(Struct);
}

/// The error for the size of \p given, or for its bytes past those that this
/// library knows.
template <class Struct>
[[gnu::cold, gnu::noinline]] llvm::Error explainSize(const Struct &given,
                                                     const char *name) {
  if (given.struct_size < kFirstVersionSize<Struct>)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: struct_size is {}, at least {} is needed", name,
                     given.struct_size, kFirstVersionSize<Struct>);
  if (given.struct_size > kMostStructBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: struct_size is {}, at most {} is believed", name,
                     given.struct_size, kMostStructBytes);
  return makeError(ErrorCode::Unsupported,
                   "{}: a field past the {} bytes that this version knows is "
                   "set",
                   name, sizeof(Struct));
}

/// Succeeds if this library understands all of the caller's \p given.
template <class Struct>
llvm::Error checkStruct(const Struct &given, const char *name) {
  if (hasKnownSize(given)) [[likely]]
    return llvm::Error::success();
  return explainSize(given, name);
}

/// Succeeds if `reserved` of \p given is zero.
template <class Struct>
llvm::Error checkReserved(const Struct &given, const char *name) {
  if (isZero(given.reserved, sizeof(given.reserved)))
    return llvm::Error::success();
  return makeError(ErrorCode::Unsupported, "{}: a reserved field is set", name);
}

/// Calls \p use with a copy of \p given, which is shorter than a Struct: fields
/// that it lacks are zero.
template <class Struct, class Use>
[[gnu::cold, gnu::noinline]] auto withZeroes(const Struct &given,
                                             const Use &use) {
  Struct full{};
  std::memcpy(&full, &given, given.struct_size);
  full.struct_size = sizeof(Struct);
  return use(full);
}

/// Calls \p use with \p given, or with a copy of full size if an earlier
/// version of the struct was shorter and the caller has that one. Costs nothing
/// while no version was.
template <class Struct, class Use>
[[gnu::always_inline]] inline auto withFullSize(const Struct &given,
                                                const Use &use) {
  if constexpr (kHasGrown<Struct>)
    if (given.struct_size < sizeof(Struct) &&
        given.struct_size >= kFirstVersionSize<Struct>) [[unlikely]]
      return withZeroes(given, use);
  return use(given);
}

/// Both checks, for structs that are read off the dispatch path.
template <class Struct>
llvm::Error checkInput(const Struct &given, const char *name) {
  static_assert(!kHasGrown<Struct>, "this struct keeps its size");
  if (auto error = checkStruct(given, name))
    return error;
  return checkReserved(given, name);
}

/// The \p index-th element of a caller's array, whose stride is the
/// struct_size of its first element.
template <class Struct> const Struct &at(const Struct *array, size_t index) {
  return *reinterpret_cast<const Struct *>(
      reinterpret_cast<const char *>(array) + index * array->struct_size);
}

/// Checks an array: its first element is good, and the others have its size.
template <class Struct>
llvm::Error checkArray(const Struct *array, size_t count, const char *name) {
  if (count == 0)
    return llvm::Error::success();
  if (!array)
    return makeError(ErrorCode::InvalidArgument, "{}: null, with a count of {}",
                     name, count);
  if (array->struct_size % alignof(Struct) != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: struct_size {} is not a stride of an array", name,
                     array->struct_size);
  for (size_t i = 0; i < count; ++i) {
    // The first size is checked before it is used as a stride.
    if (at(array, i).struct_size != array->struct_size)
      return makeError(ErrorCode::InvalidArgument,
                       "{}: element {} has struct_size {}, the first has {}",
                       name, i, at(array, i).struct_size, array->struct_size);
    if (auto error = checkInput(at(array, i), name))
      return error;
  }
  return llvm::Error::success();
}

/// Succeeds when \p result is a struct that may be filled.
template <class Struct>
llvm::Error checkOutput(const Struct *result, const char *name) {
  if (!result)
    return makeError(ErrorCode::InvalidArgument, "{} is null", name);
  if (result->struct_size < kFirstVersionSize<Struct> ||
      result->struct_size > kMostStructBytes)
    return explainSize(*result, name);
  return llvm::Error::success();
}

/// Fills the caller's \p result, which passed checkOutput, with as much of
/// \p value as its version has; fields that only its version has become zero.
template <class Struct> void fillOutput(Struct *result, Struct value) {
  const size_t size = result->struct_size;
  const size_t known = std::min(size, sizeof(Struct));
  value.struct_size = result->struct_size;
  auto *bytes = reinterpret_cast<char *>(result);
  std::memcpy(bytes, &value, known);
  std::memset(bytes + known, 0, size - known);
}

/// Checks an array of \p capacity structs that the library fills, each as large
/// as the first one says. Errors: InvalidArgument, Unsupported.
template <class Struct>
llvm::Error checkOutputArray(const Struct *array, size_t capacity,
                             const char *name) {
  if (capacity == 0)
    return llvm::Error::success();
  if (auto error = checkOutput(array, name))
    return error;
  if (array->struct_size % alignof(Struct) != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: struct_size {} is not a stride of an array", name,
                     array->struct_size);
  return llvm::Error::success();
}

/// Writes one element of such an array.
template <class Struct>
void fillElement(Struct *array, size_t index, const Struct &value) {
  auto &element = const_cast<Struct &>(at(array, index));
  element.struct_size = array->struct_size;
  fillOutput(&element, value);
}

} // namespace kiln
