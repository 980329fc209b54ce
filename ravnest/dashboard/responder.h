#pragma once

#include <httplib.h>

#include <memory>
#include <string>

#include "ravnest/dashboard/connection.h"
#include "ravnest/dashboard/feed.h"
#include "ravnest/dashboard/guard.h"
#include "ravnest/dashboard/http_server.h"
#include "ravnest/dashboard/sessions.h"

namespace ravnest::dashboard {

// Answers requests. The library reads the head and writes the answer; it does not listen, accept,
// keep connections alive, compress, answer ranges, or route. Any number of threads.
class Responder : private httplib::Server {
 public:
  Responder(const std::string& address, const HttpOptions& options, const Source& source);

  void serve(Connection& connection);
  void notify() { feed_.notify(); }
  // Watchers are let go.
  void stop();

 private:
  // Whether the answer is complete; if not, the body is to be read.
  bool answer_head(const httplib::Request& request, httplib::Response& response);
  void answer_body(const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& read);
  void answer_get(const Found& found, const httplib::Request& request, httplib::Response& response);
  void answer_events(const httplib::Request& request, httplib::Response& response);
  void log_in(const httplib::Request& request, const std::string& body,
              httplib::Response& response);
  void log_out(const httplib::Request& request, httplib::Response& response);
  void change(const Wish& wish, httplib::Response& response);
  bool has_session(const httplib::Request& request) const;

  const Source source_;
  const Guard guard_;
  const std::string cookie_;  // its name
  const std::int64_t since_;  // seconds of the wall clock
  Sessions sessions_;
  Feed feed_;
};

}  // namespace ravnest::dashboard
