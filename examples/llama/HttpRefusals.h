//===- HttpRefusals.h - bytes and headers that are no request -------------===//
//
// The parser lets requests pass that this server has to refuse: framings that a
// proxy may read in another way, and hosts that are not this machine.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_HTTPREFUSALS_H
#define KILN_EXAMPLES_LLAMA_HTTPREFUSALS_H

#include "ApiError.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility> // first: Asio of Boost 1.74 uses it in C++20

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

namespace llama {

/// Bounds of a connection, in bytes.
struct HttpLimits {
  static constexpr uint32_t kHeader = 16 << 10;
  /// Sent ahead of the answer.
  static constexpr size_t kAhead = 64 << 10;
  /// Held unparsed. The parser bounds neither the extensions of chunks nor
  /// trailers, which it takes as a whole.
  static constexpr size_t kUnparsed = 256 << 10;
};

/// The error of a parser for a client; nothing where the connection itself has
/// failed, so that there is nothing to answer.
std::optional<ApiError> errorOfBytes(const boost::beast::error_code &error,
                                     uint64_t maxBodyBytes);

using HttpHeader = boost::beast::http::request_header<>;

/// The fault of a header that has been parsed. \p isChunked tells how the
/// parser will read the body. \p isLocal: only names of the loopback address
/// are taken for the host, because a page of a browser can reach it under any
/// name that its site's DNS gives out (DNS rebinding).
std::optional<ApiError> faultOf(const HttpHeader &header, bool isChunked,
                                bool isLocal);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_HTTPREFUSALS_H
