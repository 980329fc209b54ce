#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ravnest/provider/pass.h"
#include "ravnest/transport/message.h"

namespace ravnest::provider {

// What a requester says to the root of a cluster, in order: passes and words. Each is kept until
// it is certain that no root needs it again, so that the next root goes on where its checkpoint
// is. A pass counts once, however often it is learned from. Not for several threads.
class RequestLog {
 public:
  // With `keeps_learned`, training passes stay until a restore point has them; else until their
  // result came.
  explicit RequestLog(bool keeps_learned) : keeps_learned_(keeps_learned) {}

  // Training passes are numbered from here; those before are behind the run.
  void start_at(std::int64_t first);
  // They are numbered from where the first root begins; from here where that cannot say.
  void start_with_root(std::int64_t first);
  // A pass with its inputs packed. One that the root has behind it is not sent.
  void add(const PassHeader& header, transport::Message message);
  void end_training();
  void end_validation();

  // A root begins, and has learned from so many passes; nothing where it cannot say, and goes on
  // with the first that nobody has. What it needs is to be sent (again). Throws Error(kPeerLost)
  // where that is forgotten. With `is_restored` the weights are those of a restore point of so many
  // passes: the first pass of ours that it lacks has that number from here on.
  void restart(std::optional<std::int64_t> learned, bool is_restored = false);
  // The next one to send, if there is one that may go. A validation ends when its passes are done:
  // the word carries their sums.
  bool has_next() const;
  transport::Message take_next();
  std::size_t unsent() const { return unsent_; }
  // Training passes that the root began with; nothing before there was one.
  std::optional<std::int64_t> behind() const { return behind_; }
  std::int64_t submitted() const { return submitted_; }  // training passes

  // A pass is done; its result is news the first time.
  bool is_news(const PassHeader& header) const;
  void finish(const PassHeader& header, const PassResult& result);
  // A word was followed.
  void finish(const Control& word);
  // The job has a restore point of so many passes, a later one than before: of this cluster's
  // weights, or of another's, who need no pass from us that was learned from by now.
  void note_restore(std::int64_t passes, bool is_own);
  // No root will begin before the newest restore point.
  void forget_restored();
  // A root that begins earlier than what is kept has its weights from elsewhere, and goes on with
  // the first pass that nobody has: those that were learned need not be kept.
  void forget_learned();
  // What is another's to do from here: passes that nobody has learned from, in order, and the
  // validation that is open.
  struct Rest {
    std::vector<transport::Message> messages;
    std::int64_t training = 0;         // passes among them
    std::optional<PassResult> sums;    // of the validation so far
    bool is_validation_ended = false;  // its passes are all there
  };
  Rest take_rest();
  // As if it had been added here.
  void take_over(Rest rest);

  bool is_idle() const { return unfinished_passes_ == 0; }
  std::int64_t unfinished() const { return unfinished_passes_; }
  bool is_trained() const { return unfinished_trainings_ == 0; }
  bool is_validated() const { return unfinished_validations_ == 0; }
  // The sums of the one that ended last.
  const PassResult& last_validation() const { return last_validation_; }
  std::size_t size() const { return entries_.size(); }

 private:
  enum class Kind : std::uint8_t { kTraining, kEvaluation, kTrainingEnd, kValidationEnd };
  using Key = std::pair<Kind, std::int64_t>;  // and the number of the pass, or of the round
  struct Entry {
    Key key;
    transport::Message message;
    std::int64_t passes = 0;  // training passes before it
    std::int64_t round = 0;   // of a validation
    bool is_validation = false;
    bool is_told = false;      // its result
    bool is_finished = false;  // for the root that is
    bool is_sent = false;
  };
  struct Validation {
    PassResult sums;
    std::int64_t left = 0;  // passes
  };
  using Entries = std::map<std::int64_t, Entry>;  // in the order of calls
  struct Lack {
    std::int64_t pass = 0;
    bool is_own = false;  // of a restore point of this cluster: numbers are the same there
  };

  void add(Entry entry);
  std::int64_t first_unlearned() const;
  std::optional<std::int64_t> find_lack(std::int64_t learned, bool is_restored) const;
  void begin_at(std::int64_t pass);
  void renumber(std::int64_t by);
  void forget_before(std::int64_t passes);
  static Key key_of(const PassHeader& header);
  std::int64_t& unfinished(Kind kind);
  void set_sent(Entry& entry, bool is_sent);
  void set_finished(Entry& entry, bool is_finished);
  bool is_safe(const Entry& entry) const;
  Entries::iterator drop_if_safe(Entries::iterator place);
  Entries::const_iterator find_next() const;

  const bool keeps_learned_;
  Entries entries_;
  std::map<Key, std::int64_t> places_;
  std::map<std::int64_t, Validation> validations_;  // by round, as long as they are open
  std::optional<std::int64_t> behind_;              // passes that the root began with
  std::int64_t added_ = 0;
  std::int64_t submitted_ = 0;  // training passes
  std::int64_t evaluated_ = 0;
  std::int64_t trainings_ = 0;  // ended
  std::int64_t validated_ = 0;
  std::int64_t forgotten_ = 0;          // training passes, all of the first
  std::map<std::int64_t, Lack> lacks_;  // by restore point: the first of our passes without it
  bool starts_with_root_ = false;
  bool may_skip_ = false;  // roots may begin before that, with weights from elsewhere
  std::int64_t next_ = 0;  // everything before it is sent
  std::size_t unsent_ = 0;
  std::int64_t unfinished_passes_ = 0;
  std::int64_t unfinished_trainings_ = 0;
  std::int64_t unfinished_validations_ = 0;
  PassResult last_validation_;
};

}  // namespace ravnest::provider
