#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ravnest/dashboard/routes.h"

namespace httplib {
struct Request;
}

namespace ravnest::dashboard {

struct Refusal {
  int status = 0;
  std::string reason;   // a sentence
  std::string allowed;  // methods, for a 405
};

// Looks at a request's head before anything of it is done, or its body read.
class Guard {
 public:
  // `address` is where the server listens. Throws std::invalid_argument for a name that is none.
  Guard(const std::string& address, const std::vector<std::string>& hosts);

  // All that is wrong with it but the session.
  std::optional<Refusal> find_fault(const httplib::Request& request, const Lookup& lookup) const;

 private:
  bool is_our_host(const httplib::Request& request) const;

  std::set<std::string> hosts_;  // each with its port
};

// The values of a cookie; a browser may send several of one name.
std::vector<std::string> cookies(const httplib::Request& request, std::string_view name);

}  // namespace ravnest::dashboard
