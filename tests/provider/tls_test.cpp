#include <gtest/gtest.h>

#include <atomic>

#include "ravnest/provider/requester.h"
#include "ravnest/trust/authority.h"
#include "tests/provider/cluster.h"

namespace ravnest::provider {
namespace {

// "node_1" → "member-node-1"
std::string member_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "member-" + name;
}

trust::Identity identity_of(const trust::Authority& authority, const std::string& name) {
  const auto now = std::chrono::system_clock::now();
  return authority.make_identity({.id = member_of(name)},
                                 trust::valid_for(std::chrono::days(1), now));
}

const trust::Authority& authority() {
  static const trust::Authority kAuthority =
      trust::Authority::make(std::chrono::system_clock::now());
  return kAuthority;
}

transport::Members members() {
  transport::Members members;
  for (const char* name : {"node_0", "node_1", "requester"}) {
    members.emplace(name, member_of(name));
  }
  return members;
}

class Tls : public testing::Test {
 protected:
  Tls() {
    cluster_.adjust = [this](ProviderOptions& options) {
      options.identity = identity_of(authority(), options.name);
      options.members = members();
      options.requester = {.name = "requester", .address = requester_->address()};
    };
  }

  std::unique_ptr<Requester> make_requester(const trust::Authority& issuer) {
    const auto root = package::read_node(cluster_.folder(), "node_0");
    RequesterOptions options;
    options.plan = root.plan;
    options.root = {.name = "node_0", .address = root.address};
    options.identity = identity_of(issuer, "requester");
    options.members = members();
    options.on_result = [this](const PassHeader&, const PassResult&) { ++results_; };
    options.on_notice = [this](const transport::Notice& notice) {
      const bool is_stranger = notice.text.find("not of our authority") != std::string::npos;
      if (is_stranger && !is_turned_away_.exchange(true)) {
        is_turned_away_.notify_all();
      }
    };
    return std::make_unique<Requester>(std::move(options));
  }

  TestCluster cluster_{{3}};
  std::atomic<int> results_ = 0;
  std::atomic<bool> is_turned_away_ = false;
  std::unique_ptr<Requester> requester_;
};

TEST_F(Tls, ProvidersAndRequesterTrain) {
  requester_ = make_requester(authority());
  cluster_.start_all();
  for (const Batch& batch : make_batches(8)) {
    ASSERT_TRUE(requester_->submit({.samples = 8}, {batch.x, batch.t}, kLong));
  }
  requester_->end_training();
  ASSERT_TRUE(requester_->wait_for_training(kLong));
  EXPECT_EQ(results_, 8);
  ASSERT_EQ(cluster_.leaf().wait_for_training(0, kLong), 1);
  EXPECT_EQ(cluster_.leaf().status().passes, 8);
  requester_->close(Milliseconds(5000));
  cluster_.close();
}

TEST_F(Tls, AStrangerIsNotHeard) {
  const trust::Authority other = trust::Authority::make(std::chrono::system_clock::now());
  requester_ = make_requester(other);
  cluster_.start_all();
  ASSERT_TRUE(cluster_.root().wait_until_ready(kLong));
  const Batch batch = make_batches(1)[0];
  ASSERT_TRUE(requester_->submit({.samples = 8}, {batch.x, batch.t}, kLong));
  is_turned_away_.wait(false);
  EXPECT_FALSE(requester_->wait_until_idle(Milliseconds(0)));
  EXPECT_EQ(cluster_.root().status().passes, 0);
}

TEST_F(Tls, GlooIsRefused) {
  cluster_.adjust = [](ProviderOptions& options) {
    options.identity = identity_of(authority(), options.name);
    options.averaging.is_gloo = true;
  };
  EXPECT_THROW(cluster_.start(1), std::invalid_argument);
}

}  // namespace
}  // namespace ravnest::provider
