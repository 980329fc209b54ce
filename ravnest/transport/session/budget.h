#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace ravnest::transport {

// The bytes that all channels of a transport may hold together. Any thread.
class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}

  bool take(std::size_t nbytes) {
    if (held_.fetch_add(nbytes) + nbytes <= most_) {
      return true;
    }
    held_.fetch_sub(nbytes);
    return false;
  }
  void give_back(std::size_t nbytes) { held_.fetch_sub(nbytes); }
  std::size_t held() const { return held_.load(); }

 private:
  std::size_t most_;
  std::atomic<std::size_t> held_ = 0;
};

// A part of the budget, given back at the end of its life.
class Reservation {
 public:
  Reservation() = default;
  explicit Reservation(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~Reservation() { clear(); }
  Reservation(Reservation&& other) noexcept
      : budget_(std::move(other.budget_)), nbytes_(std::exchange(other.nbytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    clear();
    budget_ = std::move(other.budget_);
    nbytes_ = std::exchange(other.nbytes_, 0);
    return *this;
  }

  bool extend(std::size_t nbytes) {
    if (!budget_->take(nbytes)) {
      return false;
    }
    nbytes_ += nbytes;
    return true;
  }
  void clear() {
    if (nbytes_ > 0) {
      budget_->give_back(std::exchange(nbytes_, 0));
    }
  }

 private:
  std::shared_ptr<Budget> budget_;
  std::size_t nbytes_ = 0;
};

}  // namespace ravnest::transport
