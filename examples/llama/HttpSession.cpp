//===- HttpSession.cpp - one connection of a client -----------------------===//
#include "HttpSession.h"

#include "StatusPages.h"

#include <cstdio>
#include <ctime>
#include <utility>

namespace llama {

namespace {

constexpr int kOk = 200, kNotFound = 404, kNoMethod = 405, kWrongType = 415,
              kTooMany = 429, kUnavailable = 503;
constexpr unsigned kHttp11 = 11;
/// The kernel's part of what a client does not read.
constexpr int kSendBufferBytes = 64 << 10;
constexpr const char *kRetrySeconds = "1";

} // namespace

HttpSession::HttpSession(Tcp::socket socket, HttpShared &shared)
    : shared(shared), stream(std::move(socket)) {
  shared.sessions.insert(this);
}

HttpSession::~HttpSession() {
  leave(Outcome::Cancelled);
  shared.sessions.erase(this);
  if (shared.sessions.empty() && shared.onEmpty)
    shared.onEmpty();
}

void HttpSession::start() {
  ErrorCode ignored;
  auto &socket = stream.socket();
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes),
                    ignored);
  readHeader();
}

/// The handler of an operation, which keeps the session. An exception of \p
/// handle closes the connection.
template <class Handle> auto HttpSession::guarded(Handle handle) {
  return [self = shared_from_this(),
          handle = std::move(handle)](ErrorCode error, size_t bytes) mutable {
    try {
      handle(*self, error, bytes);
    } catch (const std::exception &thrown) {
      std::fprintf(stderr, "serve: a connection is closed: %s\n",
                   thrown.what());
      self->close();
    }
  };
}

void HttpSession::close() {
  leave(Outcome::Cancelled);
  ErrorCode ignored;
  stream.socket().close(ignored);
}

//===----------------------------------------------------------------------===//
// Reading a request
//===----------------------------------------------------------------------===//

void HttpSession::readHeader() {
  parser.emplace();
  parser->body_limit(shared.options.maxBodyBytes);
  parser->header_limit(HttpLimits::kHeader);
  stream.expires_after(shared.options.headerTime);
  http::async_read_header(stream, buffer, *parser,
                          guarded([](HttpSession &self, ErrorCode error,
                                     size_t) { self.gotHeader(error); }));
}

void HttpSession::gotHeader(ErrorCode error) {
  if (error)
    return refuseBytes(error);
  if (const auto fault =
          faultOf(parser->get(), parser->chunked(), shared.wantsLocalHost()))
    return refuse(*fault);
  isBusy = true;
  if (!beast::iequals(parser->get()[http::field::expect], "100-continue"))
    return readBody();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream.expires_after(shared.options.writeTime);
  asio::async_write(stream, asio::buffer(kContinue),
                    guarded([](HttpSession &self, ErrorCode error, size_t) {
                      if (!error)
                        self.readBody();
                    }));
}

void HttpSession::readBody() {
  stream.expires_after(shared.options.bodyTime);
  http::async_read(stream, buffer, *parser,
                   guarded([](HttpSession &self, ErrorCode error, size_t) {
                     if (error)
                       return self.refuseBytes(error);
                     self.request = self.parser->release();
                     self.route();
                   }));
}

void HttpSession::refuseBytes(ErrorCode error) {
  if (const auto fault = errorOfBytes(error, shared.options.maxBodyBytes))
    return refuse(*fault);
  close();
}

/// Answers bytes that are no request, and closes: it is not known where the
/// next request begins.
void HttpSession::refuse(const ApiError &error) {
  isBusy = true;
  keepsAlive = false;
  request = {};
  request.version(kHttp11);
  answer(error);
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

void HttpSession::route() {
  // An answer to HEAD has no body, but this server has no such method.
  keepsAlive = request.keep_alive() && request.method() != http::verb::head;
  const std::string target(request.target());
  const std::string path = target.substr(0, target.find('?'));
  if (path == "/v1/completions") {
    if (request.method() == http::verb::post)
      return complete();
    return refuseMethod("POST");
  }
  auto page =
      statusPage(path, shared.options.model, shared.loop, shared.metrics,
                 static_cast<int64_t>(shared.sessions.size()));
  if (!page)
    return answer(
        ApiError(kNotFound,
                 "no such path; there are /v1/completions, /v1/models, /health "
                 "and /metrics",
                 "", "not_found"));
  if (request.method() != http::verb::get)
    return refuseMethod("GET");
  send(responseOf(page->status, std::move(page->body), page->type));
}

void HttpSession::refuseMethod(const char *allowed) {
  const ApiError error(kNoMethod,
                       std::string("this path has only the method ") + allowed,
                       "", "method_not_allowed");
  Response refusal = responseOf(error.status(), error.toJson());
  refusal.set(http::field::allow, allowed);
  send(std::move(refusal));
}

HttpSession::Response HttpSession::responseOf(int status, std::string body,
                                              const char *type) const {
  Response made(static_cast<http::status>(status), request.version());
  made.set(http::field::content_type, type);
  if (status == kTooMany || status == kUnavailable)
    made.set(http::field::retry_after, kRetrySeconds);
  made.body() = std::move(body);
  return made;
}

void HttpSession::answer(const ApiError &error) {
  send(responseOf(error.status(), error.toJson()));
}

void HttpSession::send(Response next) {
  keepsAlive = keepsAlive && !shared.isFinishing;
  response = std::move(next);
  response.keep_alive(keepsAlive);
  response.prepare_payload();
  stream.expires_after(shared.options.writeTime);
  http::async_write(stream, response,
                    guarded([](HttpSession &self, ErrorCode error, size_t) {
                      if (error)
                        return self.close();
                      self.ended();
                    }));
}

/// The answer is written.
void HttpSession::ended() {
  isBusy = false;
  if (isWatching)
    return stream.cancel(); // watch() calls this again
  if (keepsAlive && !shared.isFinishing)
    readHeader();
  else
    discard();
}

/// Ends the connection. The client may still send: to close before it has read
/// the answer would take the answer from it.
void HttpSession::discard() {
  constexpr size_t kMostDiscarded = size_t(64) << 20;
  constexpr std::chrono::seconds kTime{2};
  if (!std::exchange(isDiscarding, true)) {
    ErrorCode ignored;
    stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    stream.expires_after(kTime);
    buffer.clear();
  }
  stream.async_read_some(
      buffer.prepare(HttpLimits::kAhead),
      guarded([](HttpSession &self, ErrorCode error, size_t bytes) {
        self.discarded += bytes;
        if (error || self.discarded > kMostDiscarded)
          return self.close();
        self.discard();
      }));
}

//===----------------------------------------------------------------------===//
// Completions
//===----------------------------------------------------------------------===//

void HttpSession::complete() {
  std::string_view type = request[http::field::content_type];
  type = type.substr(0, type.find_first_of("; \t"));
  // A page of a browser cannot send this type to another site unasked.
  if (!beast::iequals(type, kJson))
    return answer(ApiError(kWrongType,
                           "expected the content type " + std::string(kJson)));
  const EngineState state = shared.loop.state();
  if (state != EngineState::Ready) {
    shared.metrics.ended(Outcome::Unavailable);
    return answer(errorOf(state));
  }
  CompletionRequest parsed;
  try {
    parsed = parseCompletion(request.body(), shared.loop.served().room);
  } catch (const ApiError &error) {
    shared.metrics.ended(Outcome::Refused);
    return answer(error);
  }
  if (!parsed.hasSeed)
    parsed.request.sampling.seed = shared.seeds();
  streams = parsed.streams;
  hasBegun = false;
  tokens.clear();
  tokenCount = 0;
  reply.emplace("cmpl-" + std::to_string(++shared.completions),
                shared.options.model, std::time(nullptr),
                static_cast<int64_t>(parsed.request.prompt.size()));
  const size_t room = streams
                          ? shared.options.maxStreamTokens
                          : static_cast<size_t>(parsed.request.maxNewTokens);
  completion = std::make_shared<CompletionStream>(
      room, [weak = weak_from_this(), &io = shared.io] {
        asio::post(io, [weak] {
          if (const auto self = weak.lock())
            self->guarded([](HttpSession &self, ErrorCode, size_t) {
              self.update();
            })({}, 0);
        });
      });
  const auto admission = shared.loop.offer(std::move(parsed), completion);
  if (admission == EngineLoop::Admission::Taken)
    return watch();
  completion = nullptr;
  answer(admission == EngineLoop::Admission::Full
             ? errorOfFullQueue()
             : errorOf(shared.loop.state()));
}

/// Reads while an answer is under way, to see whether the client leaves.
void HttpSession::watch() {
  auto seen = guarded([](HttpSession &self, ErrorCode error, size_t bytes) {
    self.isWatching = false;
    self.buffer.commit(bytes);
    if (error && error != asio::error::operation_aborted)
      return self.close();
    if (self.isBusy)
      return self.watch();
    self.ended();
  });
  isWatching = true;
  stream.expires_never();
  if (buffer.size() < HttpLimits::kAhead)
    return stream.async_read_some(
        buffer.prepare(HttpLimits::kAhead - buffer.size()), std::move(seen));
  // The rest waits in the kernel, and with it the end. A reset is seen.
  stream.socket().async_wait(
      Tcp::socket::wait_error,
      [seen = std::move(seen)](ErrorCode error) mutable {
        seen(error ? error : asio::error::connection_reset, 0);
      });
}

void HttpSession::leave(Outcome reason) {
  if (completion)
    completion->leave(reason);
  completion = nullptr;
}

/// There are tokens, or the completion has ended.
void HttpSession::update() {
  if (!completion)
    return;
  if (completion->isDropped())
    return close();
  // Tokens wait in the stream, whose room is bounded.
  if (isWriting)
    return;
  CompletionStream::News news = completion->take();
  if (news.tokens.empty() && !news.ending)
    return;
  tokenCount += static_cast<int64_t>(news.tokens.size());
  if (news.ending)
    leave(news.ending->outcome);
  if (news.ending && !hasBegun) {
    const Outcome outcome = news.ending->outcome;
    if (!isCompletion(outcome))
      return answer(errorOf(*news.ending));
    // It never ran: another server may take it.
    if (outcome == Outcome::Cancelled && tokenCount == 0)
      return answer(errorOf(EngineState::Draining));
  }
  streams ? updateEvents(std::move(news)) : updateWhole(std::move(news));
}

void HttpSession::updateWhole(CompletionStream::News news) {
  tokens.insert(tokens.end(), news.tokens.begin(), news.tokens.end());
  if (news.ending)
    send(
        responseOf(kOk, reply->last(tokens, tokenCount, news.ending->outcome)));
}

void HttpSession::updateEvents(CompletionStream::News news) {
  if (!hasBegun)
    return beginEvents(std::move(news));
  std::string text;
  if (!news.ending)
    return writeEvents(eventOf(reply->part(news.tokens)), false);
  if (isCompletion(news.ending->outcome)) {
    text = eventOf(reply->last(news.tokens, tokenCount, news.ending->outcome));
  } else {
    if (!news.tokens.empty())
      text = eventOf(reply->part(news.tokens));
    text += eventOf(errorOf(*news.ending).toJson());
  }
  writeEvents(text + eventOf("[DONE]"), true);
}

/// Writes the header, then what is new.
void HttpSession::beginEvents(CompletionStream::News news) {
  hasBegun = isWriting = true;
  // Before HTTP/1.1 there are no chunks: the end of the connection ends it.
  const bool hasChunks = request.version() >= kHttp11;
  keepsAlive = keepsAlive && hasChunks && !shared.isFinishing;
  head.emplace(static_cast<http::status>(kOk), request.version());
  head->set(http::field::content_type, "text/event-stream");
  head->set(http::field::cache_control, "no-cache");
  head->keep_alive(keepsAlive);
  head->chunked(hasChunks);
  serializer.emplace(*head);
  stream.expires_after(shared.options.writeTime);
  http::async_write_header(
      stream, *serializer,
      guarded([news = std::move(news)](HttpSession &self, ErrorCode error,
                                       size_t) mutable {
        self.isWriting = false;
        if (error)
          return self.close();
        self.updateEvents(std::move(news));
      }));
}

void HttpSession::writeEvents(std::string text, bool isLast) {
  isWriting = true;
  events = std::move(text);
  const auto written =
      guarded([isLast](HttpSession &self, ErrorCode error, size_t) {
        self.isWriting = false;
        if (error) {
          if (error == beast::error::timeout)
            self.leave(Outcome::Slow);
          return self.close();
        }
        if (isLast)
          return self.ended();
        self.update();
      });
  stream.expires_after(shared.options.writeTime);
  if (request.version() < kHttp11)
    return asio::async_write(stream, asio::buffer(events), written);
  if (!isLast)
    return asio::async_write(stream, http::make_chunk(asio::buffer(events)),
                             written);
  asio::async_write(stream,
                    beast::buffers_cat(http::make_chunk(asio::buffer(events)),
                                       http::make_chunk_last()),
                    written);
}

} // namespace llama
