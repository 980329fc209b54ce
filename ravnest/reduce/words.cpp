#include "ravnest/reduce/words.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ravnest/base/error.h"

namespace ravnest::reduce {

namespace {

using transport::Message;

enum class Kind : std::uint8_t { kMember = 1, kLeader = 2, kFetch = 3 };

// Of what is drawn at random, or compared only.
constexpr std::int64_t kMostDrawn = INT64_MAX;

class Writer {
 public:
  void put(std::int64_t number) { numbers_.push_back(number); }
  void put_ranks(const std::vector<std::size_t>& ranks) {
    put(static_cast<std::int64_t>(ranks.size()));
    for (const std::size_t rank : ranks) {
      put(static_cast<std::int64_t>(rank));
    }
  }
  void put_history(const History& history) {
    put(static_cast<std::int64_t>(history.size()));
    for (const Commit& commit : history) {
      put(commit.epoch);
      put(commit.round);
    }
  }

  Message message(Kind kind, std::int64_t epoch, std::int64_t round,
                  const std::string& text) const {
    return {.kind = transport::MessageKind::kReduce,
            .pass = round,
            .epoch = epoch,
            .fields = {static_cast<std::int64_t>(kind)},
            .metadata = text,
            .tensors = {{.dtype = graph::DType::kInt64,
                         .shape = {static_cast<std::int64_t>(numbers_.size())},
                         .bytes = Bytes::copy_of(std::as_bytes(std::span(numbers_)))}}};
  }

 private:
  std::vector<std::int64_t> numbers_;
};

class Reader {
 public:
  Reader(const Bytes& bytes, std::size_t members) : bytes_(bytes.view()), members_(members) {}

  std::int64_t number(std::int64_t least = 0, std::int64_t most = kMostCounted) {
    std::int64_t value = 0;
    if (bytes_.size() < sizeof(value)) {
      throw_invalid("[reduce] expected a whole word, got its beginning.");
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    if (value < least || value > most) {
      throw_invalid("[reduce] expected a number from ", least, " to ", most, " in a word, got ",
                    value, ".");
    }
    return value;
  }
  bool flag() { return number(0, 1) == 1; }
  template <typename Value>
  Value one_of(Value last) {
    return static_cast<Value>(number(0, static_cast<std::int64_t>(last)));
  }
  std::vector<std::size_t> ranks() {
    const auto most = static_cast<std::int64_t>(members_);
    std::vector<std::size_t> ranks(static_cast<std::size_t>(number(0, most)));
    std::int64_t least = 0;
    for (std::size_t& rank : ranks) {
      rank = static_cast<std::size_t>(number(least, most - 1));
      least = static_cast<std::int64_t>(rank) + 1;
    }
    return ranks;
  }
  Commit commit() { return {.epoch = number(), .round = number()}; }
  History history() {
    History history(static_cast<std::size_t>(number(0, kHistory)));
    for (Commit& commit : history) {
      commit = this->commit();
    }
    if (std::ranges::adjacent_find(history, std::greater_equal()) != history.end()) {
      throw_invalid("[reduce] expected the rounds of a word in order, got another.");
    }
    return history;
  }
  void end() const {
    if (!bytes_.empty()) {
      throw_invalid("[reduce] expected the end of a word, got ", bytes_.size(), " bytes more.");
    }
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t members_;
};

Message write(const MemberWord& word) {
  Writer out;
  for (const std::int64_t number :
       {word.leader, word.incarnation, static_cast<std::int64_t>(word.stage), word.seen,
        std::int64_t{word.is_final}, std::int64_t{word.is_finished}, std::int64_t{word.is_refused},
        word.suspect, word.progress, std::int64_t{word.is_proven}, word.values, word.maxima,
        word.terms}) {
    out.put(number);
  }
  out.put_history(word.history);
  return out.message(Kind::kMember, word.epoch, word.round, word.text);
}

Message write(const LeaderWord& word) {
  Writer out;
  for (const std::int64_t number :
       {word.incarnation, static_cast<std::int64_t>(word.phase), std::int64_t{word.is_final},
        std::int64_t{word.are_final}, word.latest.epoch, word.latest.round}) {
    out.put(number);
  }
  out.put_history(word.history);
  for (const auto* ranks :
       {&word.participants, &word.lost, &word.awaited, &word.refused, &word.stale}) {
    out.put_ranks(*ranks);
  }
  out.put(word.terms);
  return out.message(Kind::kLeader, word.epoch, word.round, word.text);
}

Message write(const FetchWord& word) {
  Writer out;
  out.put(static_cast<std::int64_t>(word.ask));
  out.put(word.ticket);
  return out.message(Kind::kFetch, word.commit.epoch, word.commit.round, {});
}

MemberWord read_member(Reader& in, const Message& message, std::size_t members) {
  MemberWord word{.epoch = message.epoch, .round = message.pass, .text = message.metadata};
  word.leader = in.number(0, kMostDrawn);
  word.incarnation = in.number(1, kMostDrawn);
  word.stage = in.one_of(Stage::kFailed);
  word.seen = in.number();
  word.is_final = in.flag();
  word.is_finished = in.flag();
  word.is_refused = in.flag();
  word.suspect = in.number(-1, static_cast<std::int64_t>(members) - 1);
  word.progress = in.number();
  word.is_proven = in.flag();
  word.values = in.number();
  word.maxima = in.number();
  word.terms = in.number(0, kMostDrawn);
  word.history = in.history();
  return word;
}

LeaderWord read_leader(Reader& in, const Message& message) {
  LeaderWord word{.epoch = message.epoch, .round = message.pass, .text = message.metadata};
  word.incarnation = in.number(1, kMostDrawn);
  word.phase = in.one_of(RoundPhase::kMove);
  word.is_final = in.flag();
  word.are_final = in.flag();
  word.latest = in.commit();
  word.history = in.history();
  for (auto* ranks : {&word.participants, &word.lost, &word.awaited, &word.refused, &word.stale}) {
    *ranks = in.ranks();
  }
  word.terms = in.number(0, kMostDrawn);
  return word;
}

FetchWord read_fetch(Reader& in, const Message& message) {
  FetchWord word{.commit = {.epoch = message.epoch, .round = message.pass}};
  word.ask = in.one_of(Ask::kGive);
  word.ticket = in.number(0, kMostDrawn);
  return word;
}

}  // namespace

Message to_message(const Word& word) {
  return std::visit([](const auto& kind) { return write(kind); }, word);
}

Word read_word(const Message& message, std::size_t members) {
  const bool is_word = message.kind == transport::MessageKind::kReduce &&
                       message.fields.size() == 1 && message.tensors.size() == 1 &&
                       message.tensors[0].dtype == graph::DType::kInt64;
  if (!is_word || !is_count(message.epoch) || !is_count(message.pass)) {
    throw_invalid("[reduce] expected a word of a ring, got a ", name_of(message.kind),
                  " message of another form.");
  }
  Reader in(message.tensors[0].bytes, members);
  const auto read = [&]() -> Word {
    switch (message.fields[0]) {
      case static_cast<std::int64_t>(Kind::kMember):
        return read_member(in, message, members);
      case static_cast<std::int64_t>(Kind::kLeader):
        return read_leader(in, message);
      case static_cast<std::int64_t>(Kind::kFetch):
        return read_fetch(in, message);
      default:
        throw_invalid("[reduce] expected a word of a known kind, got number ", message.fields[0],
                      ".");
    }
  };
  Word word = read();
  in.end();
  return word;
}

void merge(History& into, const History& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::ranges::sort(into);
  const auto twice = std::ranges::unique(into);
  into.erase(twice.begin(), twice.end());
  if (into.size() > kHistory) {
    into.erase(into.begin(), into.end() - kHistory);
  }
}

Commit latest_of(const History& history) { return history.empty() ? Commit{} : history.back(); }

}  // namespace ravnest::reduce
