//===- HttpRefusals.cpp - bytes and headers that are no request -----------===//
#include "HttpRefusals.h"

#include "Json.h"

#include <string>

#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

namespace llama {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr int kBadRequest = 400, kTooLarge = 413, kMisdirected = 421,
              kHeaderTooLarge = 431;
constexpr unsigned kHttp11 = 11;

std::string bytes(uint64_t count) { return std::to_string(count) + " bytes"; }

ApiError badFraming(const std::string &message) {
  return {kBadRequest, "no HTTP request: " + message, "", "invalid_http"};
}

/// \p host without its port and the brackets of IPv6.
std::string nameOfHost(std::string_view host) {
  if (!host.empty() && host.front() == '[')
    return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

/// Whether no DNS of a stranger gives \p name.
bool isLocalName(const std::string &name) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error || beast::iequals(name, "localhost");
}

} // namespace

std::optional<ApiError> errorOfBytes(const beast::error_code &error,
                                     uint64_t maxBodyBytes) {
  static const beast::error_code ofHttp = http::error::bad_method;
  if (error.category() != ofHttp.category() ||
      error == http::error::end_of_stream ||
      error == http::error::partial_message)
    return std::nullopt;
  if (error == http::error::body_limit)
    return ApiError(kTooLarge, "the body is larger than " + bytes(maxBodyBytes),
                    "", "body_too_large");
  if (error == http::error::header_limit)
    return ApiError(kHeaderTooLarge,
                    "the header is larger than " + bytes(HttpLimits::kHeader),
                    "", "header_too_large");
  if (error == http::error::buffer_overflow)
    return ApiError(kHeaderTooLarge,
                    "an extension of a chunk or the trailer is larger than " +
                        bytes(HttpLimits::kUnparsed),
                    "", "trailer_too_large");
  return badFraming(error.message());
}

std::optional<ApiError> faultOf(const HttpHeader &header, bool isChunked,
                                bool isLocal) {
  // The parser ignores other codings: the body would be the next request (RFC
  // 9112, 6.1 and 6.3). HTTP/1.0 has none.
  if (header.count(http::field::transfer_encoding) != 0 &&
      (!isChunked || header.version() < kHttp11))
    return badFraming(
        "Transfer-Encoding is " +
        printable(std::string_view(header[http::field::transfer_encoding])) +
        ", expected chunked, in HTTP/1.1");
  const auto hosts = header.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && header.version() >= kHttp11))
    return badFraming(std::to_string(hosts) + " Host fields, expected one");
  const std::string_view host = header[http::field::host];
  if (isLocal && hosts == 1 && !isLocalName(nameOfHost(host)))
    return ApiError(kMisdirected,
                    "Host is " + printable(host) +
                        ", expected localhost or an IP address; a server with "
                        "--listen-anywhere takes others",
                    "", "wrong_host");
  return std::nullopt;
}

} // namespace llama
