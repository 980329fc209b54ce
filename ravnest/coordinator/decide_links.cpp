#include <algorithm>
#include <cmath>

#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

namespace {

constexpr std::size_t kProbeDigits = 32;

bool is_up_to(double number, double most) {
  return std::isfinite(number) && number >= 0.0 && number <= most;
}

bool is_figure(double number, double most) {
  return is_up_to(number, most) && number >= planner::kLeastFigure;
}

bool is_probe(const std::string& text) {
  return text.size() == kProbeDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_measured(const Provider& provider, const MemberId& peer) {
  return provider.measured.links.contains(peer);
}

}  // namespace

void Deciding::check_measured(const Measurements& measured) {
  require(is_figure(measured.ram_gb, 1e6), "RAM of 1e-9 to 1e6 GB");
  require(measured.gflops == 0.0 || is_figure(measured.gflops, 1e9),
          "a speed of 1e-9 to 1e9 GFLOP/s");
  require(is_figure(measured.mbps, 1e9), "a bandwidth of 1e-9 to 1e9 Mbps");
  require(is_up_to(measured.latency_ms, 1e6), "a latency of up to 1e6 ms");
  require(measured.threads >= 1 && measured.threads <= 1'000'000, "1 to 1e6 threads");
}

void Deciding::check_links(const MemberId& own,
                           const std::map<MemberId, planner::Link>& links) const {
  require(links.size() <= kMostLinks, "fewer links");
  for (const auto& [peer, link] : links) {
    require(peer != own && durable_.members.contains(peer), "links to other members");
    require(is_figure(link.mbps, 1e9) && is_up_to(link.latency_ms, 1e6),
            "links with a bandwidth and a latency");
  }
}

std::string Deciding::on(const Measurable& event) {
  Provider& provider = with_session(event.provider, event.session);
  require(is_probe(event.probe), "a secret of 32 digits");
  provider.probe = event.probe;
  std::vector<MemberId> peers = unmeasured_peers(event.provider);
  std::string reason =
      concat(name_of(event.provider), " is to measure its links to ", peers.size(), " others.");
  if (!peers.empty()) {
    act(MeasureLinks{event.provider, event.session, std::move(peers)});
  }
  return reason;
}

// Can be reached, and neither has a stage nor is about to.
bool Deciding::may_measure(const MemberId& id) const {
  const Provider& provider = state_.live.providers.at(id);
  return !provider.probe.empty() && !provider.is_relayed && is_free(state_, id, now_);
}

// Between whom and it nobody has measured yet. Those that come after its secret, which was drawn at
// random, are the first: so all have their turn, also where some do not answer.
std::vector<MemberId> Deciding::unmeasured_peers(const MemberId& id) const {
  const auto& providers = state_.live.providers;
  const Provider& self = providers.at(id);
  std::vector<MemberId> found;
  if (!may_measure(id)) {
    return found;
  }
  const std::size_t most = std::min(kMostNeighbours, kMostLinks - self.measured.links.size());
  const auto add = [&](const auto& entry) {
    const auto& [peer, other] = entry;
    if (found.size() < most && peer != id && may_measure(peer) && !is_measured(self, peer) &&
        !is_measured(other, id)) {
      found.push_back(peer);
    }
  };
  const auto first = providers.lower_bound(self.probe);
  std::for_each(first, providers.end(), add);
  std::for_each(providers.begin(), first, add);
  return found;
}

std::string Deciding::on(const LinksMeasured& event) {
  Provider& provider = with_session(event.provider, event.session);
  check_links(event.provider, event.links);
  auto links = event.links;
  links.insert(provider.measured.links.begin(), provider.measured.links.end());
  require(links.size() <= kMostLinks, "fewer links");
  provider.measured.links = std::move(links);
  return concat(name_of(event.provider), " measured its links to ", event.links.size(), " others.");
}

// Its own, and those of others to it.
void Deciding::forget_links(const MemberId& id) {
  for (auto& [other, provider] : state_.live.providers) {
    provider.measured.links.erase(id);
  }
  if (const auto found = state_.live.providers.find(id); found != state_.live.providers.end()) {
    found->second.measured.links.clear();
  }
}

}  // namespace ravnest::coordinator
