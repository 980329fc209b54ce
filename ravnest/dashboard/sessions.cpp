#include "ravnest/dashboard/sessions.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "ravnest/trust/random.h"

namespace ravnest::dashboard {

namespace {

constexpr std::size_t kMostSessions = 256;
constexpr std::size_t kWordBytes = 32;

}  // namespace

Sessions::Opened Sessions::open(const std::string& host, TimePoint now,
                                const std::function<bool()>& is_right) {
  const std::scoped_lock lock(mutex_);
  if (!attempts_.may_try(host, now)) {
    return {.may_try = false};
  }
  if (!is_right()) {
    attempts_.on_failure(host, now);
    return {};
  }
  std::erase_if(until_, [now](const auto& session) { return session.second <= now; });
  if (until_.size() >= kMostSessions) {
    until_.erase(
        std::ranges::min_element(until_, {}, [](const auto& each) { return each.second; }));
  }
  std::string word = trust::random_hex(kWordBytes);
  until_[trust::sha256(word)] = now + kGoodFor;
  return {.word = std::move(word)};
}

bool Sessions::is_open(std::string_view word, TimePoint now) const {
  // By its hash: how long the search takes tells nothing of the word.
  const trust::Digest hash = trust::sha256(word);
  const std::scoped_lock lock(mutex_);
  const auto found = until_.find(hash);
  return found != until_.end() && now < found->second;
}

void Sessions::close(std::string_view word) {
  const trust::Digest hash = trust::sha256(word);
  const std::scoped_lock lock(mutex_);
  until_.erase(hash);
}

std::string counted_host(const std::string& address) {
  constexpr std::size_t kNetworkBytes = 8;
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, address.c_str(), &parsed) != 1 || IN6_IS_ADDR_V4MAPPED(&parsed)) {
    return address;
  }
  return {reinterpret_cast<const char*>(parsed.s6_addr), kNetworkBytes};
}

}  // namespace ravnest::dashboard
