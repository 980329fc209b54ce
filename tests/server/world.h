#pragma once

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ravnest/base/error.h"
#include "ravnest/base/version.h"
#include "ravnest/control/client.h"
#include "ravnest/graph/pt2/pt2.h"
#include "ravnest/server/server.h"
#include "ravnest/transport/grpc/credentials.h"
#include "ravnest/transport/grpc/enrolment_client.h"
#include "ravnest/trust/authority.h"
#include "ravnest/trust/digest.h"
#include "tests/base/has.h"
#include "tests/base/temporary_folder.h"
#include "tests/package/plans.h"

namespace ravnest::server {

using namespace coordinator;  // NOLINT(google-build-using-namespace): its words are spoken here

inline constexpr std::chrono::seconds kDeadline{30};  // every wait of a test ends

// What a call says when it is refused; empty where it is not.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

inline Hash hash_of(const std::string& text) { return trust::to_hex(trust::sha256(text)); }

inline std::filesystem::path write_file(const std::filesystem::path& path,
                                        const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// A stream of words in the hands of a test. Words are heard in order, each once.
template <typename Word>
class Talk {
 public:
  using Read = Word (*)(std::string_view);
  using Open = std::function<std::unique_ptr<control::Stream>(control::StreamEvents)>;

  Talk(Read read, const Open& open) : read_(read) {
    stream_ = open({.on_word = [this](std::string text) { add(std::move(text)); },
                    .on_end = [this](std::exception_ptr error) { end(std::move(error)); }});
  }
  ~Talk() { hang_up(); }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void say(const std::string& text) { stream_->say(text); }
  void hang_up() { stream_.reset(); }

  // The next word of this kind; others before it are passed over. Throws where none comes.
  template <typename T>
  T hear() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!changed_.wait_for(lock, kDeadline, [this] { return !words_.empty() || is_over_; })) {
        throw std::runtime_error("expected a word, heard none in time");
      }
      if (words_.empty()) {
        throw std::runtime_error("expected a word, heard the end: " + text_of(error_));
      }
      const Word word = words_.front();
      words_.erase(words_.begin());
      if (const T* found = std::get_if<T>(&word)) {
        return *found;
      }
    }
  }
  // Waits for the end, and gives its reason; empty where all was well.
  std::string ended() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kDeadline, [this] { return is_over_; })) {
      return "it has not ended";
    }
    return text_of(error_);
  }
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }
  // The end that says: do not come back.
  bool is_refused() {
    const std::lock_guard lock(mutex_);
    try {
      if (error_) {
        std::rethrow_exception(error_);
      }
    } catch (const std::invalid_argument&) {
      return true;
    } catch (const std::exception&) {
    }
    return false;
  }

 private:
  static std::string text_of(const std::exception_ptr& error) {
    try {
      if (error) {
        std::rethrow_exception(error);
      }
    } catch (const std::exception& thrown) {
      return thrown.what();
    }
    return "";
  }
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    words_.push_back(read_(text));
    changed_.notify_all();
  }
  void end(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    is_over_ = true;
    changed_.notify_all();
  }

  const Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Word> words_;
  std::exception_ptr error_;
  bool is_over_ = false;
  std::unique_ptr<control::Stream> stream_;
};

inline Hello hello() {
  return {.program = std::string(version()),
          .reach = {.host = "", .port = 9000, .nonce = "", .was_reached = true},
          .measured = {.ram_gb = 8.0, .threads = 2, .gflops = 10.0, .mbps = 100.0}};
}

// Somebody who has enrolled.
class Person {
 public:
  Person(const std::string& server, trust::Identity shown)
      : identity(std::move(shown)), client(std::make_unique<control::Client>(server, identity)) {}

  std::string id() const { return identity.certificate.member().id; }
  nlohmann::json ask(const Question& question) const {
    return nlohmann::json::parse(client->ask(question));
  }
  std::unique_ptr<Talk<ServerWord>> attend() const {
    return std::make_unique<Talk<ServerWord>>(
        &read_server_word,
        [this](control::StreamEvents events) { return client->attend(std::move(events)); });
  }
  std::unique_ptr<Talk<ServerWord>> join(const Hello& words = hello()) const {
    auto talk = attend();
    talk->say(to_text(ProviderWord(words)));
    talk->template hear<Greeting>();
    return talk;
  }
  std::unique_ptr<Talk<FeedWord>> feed(JobId job) const {
    auto talk = std::make_unique<Talk<FeedWord>>(
        &read_feed_word,
        [this](control::StreamEvents events) { return client->feed(std::move(events)); });
    talk->say(to_text(RequesterWord(
        Offer{.program = std::string(version()), .job = job, .reach = hello().reach})));
    return talk;
  }

  trust::Identity identity;
  std::unique_ptr<control::Client> client;
};

// A server, and people who talk to it.
class World : public testing::Test {
 public:
  World() { start(); }

  void start(const std::string& listen = "127.0.0.1:0") {
    server = std::make_unique<Server>(ServerOptions{
        .listen = listen, .http = "", .data = data(), .on_broken = [this](const std::string& why) {
          const std::lock_guard lock(mutex_);
          broken_ = why;
          changed_.notify_all();
        }});
  }
  void restart() {
    server.reset();
    start();
  }
  std::filesystem::path data() const { return folder_.path() / "server"; }
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }
  // Why the server cannot go on; empty where it can.
  std::string wait_until_broken() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kDeadline, [this] { return !broken_.empty(); });
    return broken_;
  }

  trust::Authority authority() const {
    return trust::Authority::open(data(), std::chrono::system_clock::now());
  }
  trust::Identity enrol(const std::string& token, const std::string& name) const {
    return transport::enrol(trust::parse_token(token), {.server = server->address(), .name = name});
  }
  Person make(const std::string& name, Role role) const {
    return {server->address(), enrol(server->make_token(role, 1, 60), name)};
  }
  Person provider(const std::string& name) const { return make(name, Role::kProvider); }
  Person requester(const std::string& name) const { return make(name, Role::kRequester); }
  Person owner() const {
    return {server->address(),
            authority().make_identity(
                {trust::make_member_id(), trust::Role::kServer},
                trust::valid_for(std::chrono::days(1), std::chrono::system_clock::now()))};
  }
  // To speak as no client of ours does.
  std::shared_ptr<::grpc::Channel> channel(const Person& person) const {
    ::grpc::ChannelArguments arguments;
    arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, trust::kServerTlsName);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return ::grpc::CreateCustomChannel("dns:///" + server->address(),
                                       transport::make_channel_credentials(person.identity),
                                       arguments);
  }
  Person again(const Person& person) const { return {server->address(), person.identity}; }

  JobId submit(const Person& requester, const JobOptions& options = {}) const {
    graph::write_pt2(package::make_program(), file("model.pt2"));
    const Hash program = requester.client->upload(file("model.pt2"));
    return requester.ask(WantsJob{.name = "digits", .program = program, .options = options})
        .at("job");
  }
  std::string phase_of(const Person& person, JobId job) const {
    return person.ask(WantsJobView{job}).at("phase");
  }
  // "present", "away": as everybody sees it.
  std::string presence_of(const Person& watcher, const std::string& name) const {
    const nlohmann::json view = watcher.ask(WantsView{});
    for (const auto& each : view.at("providers")) {
      if (each.at("name") == name) {
        return each.at("presence");
      }
    }
    return "unknown";
  }
  // Asks again until it is so.
  bool becomes(const std::function<bool()>& is_so) const {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (std::chrono::steady_clock::now() < deadline) {
      if (is_so()) {
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<Server> server;

 private:
  TemporaryFolder folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string broken_;
};

}  // namespace ravnest::server
