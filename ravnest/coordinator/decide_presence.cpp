#include <algorithm>

#include "ravnest/base/table.h"
#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

std::string Deciding::on(const Boot& /*event*/) {
  change(ServerBooted{durable_.boot + 1});
  state_.live = Live{.ticked = now_.steady};
  for (const auto& [id, job] : durable_.jobs) {
    if (!job.curve.empty()) {
      state_.live.curves[id] = job.curve;
    }
  }
  for (const auto& [id, seat] : durable_.seats) {
    live(id) = {.presence = Presence::kAwaited, .heard = now_.steady};
    if (durable_.members.at(id).is_paused) {  // the hand-over was cut off
      live(id).let_go_by = now_.steady + kReturnTime;
    }
  }
  for (auto& [id, job] : durable_.jobs) {
    if (job.phase == Phase::kPlanning) {
      wait(job, "The server was started again while it was being planned.");
    } else if (is_active(job.phase)) {
      note(job, "The server was started again; its providers are awaited.");
    }
  }
  settle();
  return concat("The server was started; ", durable_.seats.size(), " providers with stages are ",
                "awaited for ", kReturnTime.count() / 1000, " s.");
}

std::string Deciding::on(const Tick& /*event*/) {
  // Whoever was stopped heard nobody: that is no fault of theirs.
  const Milliseconds asleep = is_asleep() ? now_.steady - state_.live.ticked : Milliseconds{0};
  if (is_asleep()) {
    state_.live.woken = now_.steady;
  }
  std::vector<MemberId> changed;
  bool is_ban_over = false;
  for (auto& [id, provider] : state_.live.providers) {
    provider.heard = std::min(provider.heard + asleep, now_.steady);
    const bool is_due = provider.let_go_by != Milliseconds{0} && now_.steady >= provider.let_go_by;
    if (is_due || provider.presence != Presence::kAway) {
      const Milliseconds age = now_.steady - provider.heard;
      const Milliseconds most = provider.presence == Presence::kAwaited ? kReturnTime : kLostAfter;
      if (is_due || age >= most) {
        changed.push_back(id);
      } else if (provider.presence == Presence::kPresent && age >= kSilentAfter) {
        provider.presence = Presence::kSilent;
      }
    }
    is_ban_over |=
        provider.banned_until > state_.live.ticked && provider.banned_until <= now_.steady;
  }
  state_.live.ticked = now_.steady;
  const auto& arrivals = state_.live.arrivals;
  const bool have_gathered = arrivals && (now_.steady - arrivals->last >= kGatherTime ||
                                          now_.steady - arrivals->first >= kLongestGather);
  if (have_gathered) {
    state_.live.arrivals.reset();
  }
  touched_.merge(state_.live.stale);
  state_.live.stale.clear();
  for (const MemberId& id : changed) {
    tick_provider(id, live(id));
  }
  std::vector<Hash> expired;
  for (const auto& [hash, token] : durable_.tokens) {
    if (token.expires_at <= now_.wall) {
      expired.push_back(hash);
    }
  }
  for (const Hash& hash : expired) {
    change(TokenDropped{hash});
  }
  if (!changed.empty() || is_ban_over || have_gathered) {
    settle();
  }
  return changed.empty() ? "Nothing is overdue."
                         : concat(changed.size(), " providers were overdue.");
}

void Deciding::tick_provider(const MemberId& id, Provider& provider) {
  if (provider.presence == Presence::kAwaited) {
    lose(id, concat("it did not come back within ", kReturnTime.count() / 1000, " s"));
  } else if (now_.steady - provider.heard >= kLostAfter) {
    const auto silence = std::chrono::ceil<std::chrono::seconds>(now_.steady - provider.heard);
    lose(id, concat("nothing was heard of it for ", silence.count(), " s"));
  } else if (const Seat* seat = find_seat(id)) {
    note(
        durable_.jobs.at(seat->job),
        concat(name_of(id), " is let go before its weights were handed over: that took too long."));
    vacate(*seat);
  }
}

void Deciding::check_join(const Join& event) const {
  const auto member = durable_.members.find(event.provider);
  require(member != durable_.members.end() && member->second.role == Role::kProvider,
          "a member that is a provider; enrol first");
  require(event.is_relayed || !event.address.empty(), "an address for peers, or links by relay");
  require(event.address.size() <= kLongestAddress && printable(event.address) == event.address,
          "a plain address");
  check_measured(event.measured);
  check_links(event.provider, event.measured.links);
}

void Deciding::arrive() {
  auto& arrivals = state_.live.arrivals;
  arrivals = {.first = arrivals ? arrivals->first : now_.steady, .last = now_.steady};
}

std::string Deciding::on(const Join& event) {
  check_join(event);
  const std::string name = name_of(event.provider);
  Provider& provider = live(event.provider);
  if (provider.session != 0) {
    act(CloseSession{event.provider, provider.session, concat(name, " has joined anew.")});
    provider.session = 0;
  }
  const Seat* seat = find_seat(event.provider);
  const bool keeps = seat != nullptr && event.holds != 0 &&
                     find_cluster(durable_.jobs.at(seat->job), seat->cluster)->epoch == event.holds;
  if (!keeps && (seat != nullptr || provider.reserved != 0)) {
    lose(event.provider, "its process was started anew");
  }
  provider.presence = Presence::kPresent;
  provider.session = durable_.boot * 1'000'000'000 + ++state_.live.last_session;
  provider.address = event.address;
  provider.is_relayed = event.is_relayed;
  Measurements measured = event.measured;
  if (!keeps) {
    forget_links(event.provider);       // it may be elsewhere now
  } else if (measured.links.empty()) {  // they are told of once
    measured.links = std::move(provider.measured.links);
  }
  provider.measured = std::move(measured);
  provider.probe.clear();
  provider.heard = now_.steady;
  provider.is_leaving = false;
  provider.let_go_by = Milliseconds{0};
  decision_.session = provider.session;
  act(Welcome{event.provider, provider.session});
  for (auto& [job, pool] : state_.live.tried) {
    pool.erase(event.provider);
  }
  if (!keeps) {
    arrive();
    const auto is_its = [&](const auto& link) {
      return link.first == event.provider || link.second == event.provider;
    };
    std::erase_if(state_.live.relayed, is_its);
    std::erase_if(state_.live.unreached, [&](const auto& entry) { return is_its(entry.first); });
  }
  line(concat(name, keeps ? " is back, and has its stage still." : " joined."));
  if (keeps) {
    // Peers must hear of its address; after a restart all come at once, and are told together.
    assign(*seat);
    state_.live.stale.insert(seat->job);
    if (durable_.members.at(event.provider).is_paused) {
      part(event.provider, "its owner paused it");
    }
  }
  const std::string sentence = state_.live.lines.back().text;
  settle();
  if (event.holds != 0 && find_seat(event.provider) == nullptr) {
    act(Release{event.provider, provider.session, 0});
  }
  return sentence;
}

Provider& Deciding::with_session(const MemberId& id, std::int64_t session) {
  const auto found = state_.live.providers.find(id);
  if (found == state_.live.providers.end() || session == 0 || found->second.session != session) {
    act(CloseSession{id, session, "This session is over; join anew."});
    refuse_as("A word of ", name_of(id), " belongs to session ", session, ", which is over.");
  }
  return found->second;
}

std::string Deciding::on(const Beat& event) {
  Provider& provider = with_session(event.provider, event.session);
  provider.heard = now_.steady;
  if (provider.presence == Presence::kSilent) {
    provider.presence = Presence::kPresent;
    settle();
  }
  return "It is alive.";
}

// Before the first tick after it.
bool Deciding::is_asleep() const { return now_.steady - state_.live.ticked > kSilentAfter; }

// Peers give up a server that does not answer: what comes of that is heard all at once.
bool Deciding::has_just_slept() const {
  return is_asleep() || (state_.live.woken && now_.steady - *state_.live.woken <= kSilentAfter);
}

std::string Deciding::on(const Closed& event) {
  Provider& provider = with_session(event.provider, event.session);
  const Seat* seat = find_seat(event.provider);
  if (seat != nullptr && !provider.is_leaving && has_just_slept()) {
    provider.presence = Presence::kAwaited;
    provider.session = 0;
    provider.heard = now_.steady;
    const std::string sentence =
        concat(name_of(event.provider), " is awaited for ", kReturnTime.count() / 1000,
               " s: its connection closed while the server itself was stopped.");
    note(durable_.jobs.at(seat->job), sentence);
    return sentence;
  }
  const std::string why = provider.is_leaving ? "it left" : "its connection closed";
  lose(event.provider, why);
  settle();
  return concat(name_of(event.provider), " is gone: ", why, ".");
}

std::string Deciding::on(const Leave& event) {
  Provider& provider = with_session(event.provider, event.session);
  require(!provider.is_leaving, "a provider that is not leaving already");
  provider.is_leaving = true;
  line(concat(name_of(event.provider), " wants to leave."));
  if (find_seat(event.provider) == nullptr) {
    act(LetGo{event.provider, event.session});
  }
  part(event.provider, "it wants to leave");
  settle();
  return concat(name_of(event.provider), " wants to leave.");
}

// Gives up its place, after a hand-over where there is something to hand over.
void Deciding::part(const MemberId& id, const std::string& why) {
  const Seat* seat = find_seat(id);
  if (seat == nullptr) {
    return;
  }
  Job& job = durable_.jobs.at(seat->job);
  const Cluster& cluster = *find_cluster(job, seat->cluster);
  const std::string place = place_name(seat->cluster, seat->stage);
  if (!cluster.is_running || live(id).session == 0) {
    note(job, concat(name_of(id), " gives up ", place, ": ", why, "."));
    vacate(*seat);
    return;
  }
  note(job, concat(name_of(id), " will give up ", place, ": ", why, "; a checkpoint comes first."));
  live(id).let_go_by = now_.steady + hand_over_time(job, cluster);
  for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
    const MemberId& provider = cluster.places[stage].provider;
    if (live(provider).session != 0) {
      act(KeepCheckpoint{provider,
                         live(provider).session,
                         {job.id, cluster.id, static_cast<std::int64_t>(stage)},
                         cluster.epoch});
    }
  }
}

// Until every stage has sent a checkpoint. One takes no more than the stage's memory; another may
// be on its way before it.
Milliseconds Deciding::hand_over_time(const Job& job, const Cluster& cluster) const {
  constexpr double kCheckpoints = 2.0;
  double slowest = 0.0;  // milliseconds
  for (std::size_t stage = 0; stage < cluster.places.size(); ++stage) {
    const auto nbytes = static_cast<double>(shape_of(job, cluster).stages[stage].memory_bytes);
    const double mbps = state_.live.providers.at(cluster.places[stage].provider).measured.mbps;
    slowest = std::max(slowest, kCheckpoints * nbytes * 8e-3 / std::max(mbps, 1e-3));
  }
  const auto most = static_cast<double>(kLongestHandOver.count());
  return std::max(kHandOverTime, Milliseconds{static_cast<std::int64_t>(std::min(slowest, most))});
}

void Deciding::lose(const MemberId& id, const std::string& why) {
  Provider& provider = live(id);
  const bool is_fault = provider.presence != Presence::kAwaited && !provider.is_leaving;
  if (provider.session != 0) {
    act(CloseSession{id, provider.session, concat("Not believed any more: ", why, ".")});
  }
  provider.presence = Presence::kAway;
  provider.session = 0;
  provider.probe.clear();
  forget_links(id);
  provider.reserved = 0;
  provider.is_leaving = false;
  provider.let_go_by = Milliseconds{0};
  state_.live.reports.erase(id);
  const Seat* seat = find_seat(id);
  if (seat == nullptr) {
    line(concat(name_of(id), " is gone: ", why, "."));
    return;
  }
  note(durable_.jobs.at(seat->job), concat(name_of(id), " is lost with ",
                                           place_name(seat->cluster, seat->stage), ": ", why, "."));
  if (is_fault) {
    strike(id);
  }
  vacate(*seat);
}

void Deciding::strike(const MemberId& id) {
  Provider& provider = live(id);
  ++provider.strikes;
  if (provider.strikes < kStrikes) {
    return;
  }
  const auto doublings = std::min<std::int64_t>(provider.strikes - kStrikes, 10);
  const Milliseconds ban = std::min(kFirstBan * (std::int64_t{1} << doublings), kLongestBan);
  provider.banned_until = now_.steady + ban;
  line(concat(name_of(id), " gets no stage for ", ban.count() / 1000, " s: it failed ",
              provider.strikes, " times."));
}

}  // namespace ravnest::coordinator
