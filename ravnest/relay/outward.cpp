#include "ravnest/relay/outward.h"

#include <utility>

#include "ravnest/relay/connections.h"
#include "ravnest/transport/grpc/accept_loop.h"

namespace ravnest::relay {

class Outward::Door {
 public:
  Door(const TakePipe& take, std::size_t most)
      : connections_(most),
        loop_("127.0.0.1:0", {.connections = most, .connections_per_host = most}) {
    loop_.start([this, take](int descriptor) {
      connections_.add(std::make_shared<Socket>(descriptor), take);
    });
  }

  const std::string& address() const { return loop_.address(); }

 private:
  Connections connections_;
  transport::AcceptLoop loop_;
};

Outward::Outward(OpenPipe open, std::size_t connections_per_member)
    : open_(std::move(open)), connections_per_member_(connections_per_member) {}

Outward::~Outward() = default;

std::string Outward::address_for(const std::string& member) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Door>& door = doors_[member];
  if (!door) {
    const TakePipe take = [this, member](PipeEvents events) {
      return open_(member, std::move(events));
    };
    door = std::make_unique<Door>(take, connections_per_member_);
  }
  return door->address();
}

void Outward::remove(const std::string& member) {
  std::unique_ptr<Door> gone;  // ends outside the lock
  const std::lock_guard lock(mutex_);
  if (const auto found = doors_.find(member); found != doors_.end()) {
    gone = std::move(found->second);
    doors_.erase(found);
  }
}

}  // namespace ravnest::relay
