#include "ravnest/coordinator/deciding.h"

namespace ravnest::coordinator {

std::string Deciding::on(const MakeToken& event) {
  const Token& token = event.token;
  require(is_hash(token.hash), "the token's SHA-256");
  require(token.uses >= 1 && token.uses <= kLargestNumber, "at least one use");
  require(token.expires_at > now_.wall, "a time to come at which the token expires");
  require(durable_.tokens.size() < kMostTokens, "fewer open tokens; let some expire");
  require(!durable_.tokens.contains(token.hash), "a token that was not made before");
  change(TokenMade{token});
  return concat("A token for ", token.uses, " ", to_string(token.role), token.uses == 1 ? "" : "s",
                " was made.");
}

std::string Deciding::on(const Enrol& event) {
  const auto token = durable_.tokens.find(event.token);
  // One sentence for all: a guess learns nothing.
  require(token != durable_.tokens.end() && token->second.expires_at > now_.wall,
          "a token that is known, not used up and not expired; ask for another");
  require(is_name(event.id) && event.id.size() <= kLongestId, "an id of letters and digits");
  if (!is_name(event.name)) {
    refuse_as("Expected a name of up to ", kLongestName,
              " letters, digits, '.', '_' and '-' that begins with a letter or digit.");
  }
  require(durable_.members.size() < kMostMembers, "fewer members; remove some");
  require(!durable_.members.contains(event.id), "an id that nobody has");
  for (const auto& [id, member] : durable_.members) {
    if (member.name == event.name) {
      refuse_as("Expected a name that nobody has, got '", event.name,
                "': choose another with --name.");
    }
  }
  const Role role = token->second.role;
  change(MemberEnrolled{
      {.id = event.id, .name = event.name, .role = role, .enrolled_at = now_.wall}, event.token});
  if (role == Role::kProvider) {
    arrive();  // it measures itself, then it joins
  }
  line(concat(event.name, " enrolled as a ", to_string(role), "."));
  return state_.live.lines.back().text;
}

std::string Deciding::on(const RemoveMember& event) {
  require(durable_.members.contains(event.member), "a member");
  const std::string name = name_of(event.member);
  if (live(event.member).presence != Presence::kAway) {
    lose(event.member, "it was removed");
  }
  for (auto& [id, job] : durable_.jobs) {  // nobody else may feed it, or fetch what comes of it
    if (job.requester == event.member && !is_over(job.phase)) {
      end(job, Phase::kCancelled, concat("Its requester, ", name, ", was removed."));
    }
  }
  settle();
  state_.live.providers.erase(event.member);
  forget_links(event.member);
  for (auto& [job, pool] : state_.live.tried) {
    pool.erase(event.member);
  }
  change(MemberRemoved{event.member});
  line(concat(name, " is no member any more."));
  return state_.live.lines.back().text;
}

std::string Deciding::on(const PauseProvider& event) {
  const auto member = durable_.members.find(event.provider);
  require(member != durable_.members.end() && member->second.role == Role::kProvider, "a provider");
  require(!member->second.is_paused, "a provider that is not paused already");
  change(MemberPaused{event.provider, true});
  line(concat(member->second.name, " is paused by its owner."));
  part(event.provider, "its owner paused it");
  settle();
  return concat(member->second.name, " is paused by its owner.");
}

std::string Deciding::on(const ResumeProvider& event) {
  const auto member = durable_.members.find(event.provider);
  require(member != durable_.members.end() && member->second.is_paused,
          "a provider that is paused");
  change(MemberPaused{event.provider, false});
  if (Provider& provider = live(event.provider); !provider.is_leaving) {
    provider.let_go_by = Milliseconds{0};
  }
  line(concat(member->second.name, " is lent again."));
  settle();
  return concat(member->second.name, " is lent again.");
}

}  // namespace ravnest::coordinator
