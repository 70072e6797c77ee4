//===- HttpSession.h - one connection of a client -------------------------===//
//
// A connection reads a request, answers it, and reads the next one. While the
// answer is under way it goes on reading: that is how it sees a client leave.
// These bytes belong to the next request, and have a bound: beyond it, a client
// is seen to leave by a reset or the next write alone.
//
// A handler that throws, as for want of memory, costs its connection alone.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_HTTPSESSION_H
#define KILN_EXAMPLES_LLAMA_HTTPSESSION_H

#include "CompletionReply.h"
#include "HttpRefusals.h"
#include "HttpServer.h"

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility> // first: Asio of Boost 1.74 uses it in C++20

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace llama {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

class HttpSession;

/// The connections of a server share it. For the thread that serves them.
struct HttpShared {
  HttpShared(HttpOptions options, EngineLoop &loop, ServeMetrics &metrics,
             asio::io_context &io)
      : options(std::move(options)), loop(loop), metrics(metrics), io(io) {}

  /// See faultOf().
  bool wantsLocalHost() const { return !options.allowsAnyHost; }

  const HttpOptions options;
  EngineLoop &loop;
  ServeMetrics &metrics;
  asio::io_context &io;
  std::set<HttpSession *> sessions;
  std::function<void()> onEmpty; ///< called when the last session has closed
  int64_t completions = 0;       ///< the number of the last one
  /// Draws the seeds of requests that have none.
  std::mt19937_64 seeds{std::random_device{}()};
  bool isFinishing = false; ///< connections close behind their answer
};

/// Lives as long as an operation on its socket.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
public:
  HttpSession(Tcp::socket socket, HttpShared &shared);
  ~HttpSession();
  HttpSession(const HttpSession &) = delete;
  HttpSession &operator=(const HttpSession &) = delete;

  void start();
  /// Closes a connection that waits for a request.
  void closeIfIdle() {
    if (!isBusy && !isDiscarding)
      close();
  }

private:
  using Request = http::request<http::string_body>;
  using Parser = http::request_parser<http::string_body>;
  using Response = http::response<http::string_body>;
  using ErrorCode = beast::error_code;

  template <class Handle> auto guarded(Handle handle);

  // Reading a request.
  void readHeader();
  void gotHeader(ErrorCode error);
  void readBody();
  void refuseBytes(ErrorCode error);
  void refuse(const ApiError &error);

  // Answers.
  void route();
  void refuseMethod(const char *allowed);
  void answer(const ApiError &error);
  Response responseOf(int status, std::string body,
                      const char *type = kJson) const;
  void send(Response response);
  void ended();
  void discard();
  void close();

  // Completions.
  void complete();
  void watch();
  void update();
  void updateWhole(CompletionStream::News news);
  void updateEvents(CompletionStream::News news);
  void beginEvents(CompletionStream::News news);
  void writeEvents(std::string events, bool isLast);
  void leave(Outcome reason);

  static constexpr const char *kJson = "application/json";

  HttpShared &shared;
  beast::tcp_stream stream;
  beast::flat_buffer buffer{HttpLimits::kUnparsed};
  std::optional<Parser> parser;
  Request request;
  Response response;
  bool isBusy = false;     ///< a request has been read and is not answered
  bool isWatching = false; ///< reads while it is busy
  bool keepsAlive = true;
  bool isDiscarding = false;
  size_t discarded = 0; ///< bytes behind the last answer

  // The completion under way.
  std::shared_ptr<CompletionStream> completion; ///< null: none
  std::optional<CompletionReply> reply;
  std::vector<int32_t> tokens; ///< of a whole answer
  int64_t tokenCount = 0;
  bool streams = false, hasBegun = false, isWriting = false;
  std::string events; ///< being written
  std::optional<http::response<http::empty_body>> head;
  std::optional<http::response_serializer<http::empty_body>> serializer;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_HTTPSESSION_H
