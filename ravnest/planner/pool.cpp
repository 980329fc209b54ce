#include "ravnest/planner/pool.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "ravnest/base/address.h"
#include "ravnest/base/bytes.h"
#include "ravnest/base/error.h"
#include "ravnest/base/json_text.h"

namespace ravnest::planner {

namespace {

using Json = nlohmann::json;

constexpr double kBytesPerGb = 1e9;
// What a core of an ordinary laptop reaches in training; only ratios matter where nobody
// was measured.
constexpr double kDefaultGflops = 50.0;
constexpr std::size_t kMostFileBytes = 64'000'000;
constexpr std::size_t kMostDepth = 16;
constexpr std::size_t kMostShown = 80;
constexpr double kMostRamGb = 1e6;
constexpr double kMostMbps = 1e9;
constexpr double kMostGflops = 1e12;
constexpr double kMostLatencyMs = 1e6;

// JSON lets a key appear twice and keeps the last; here that is a mistake. Finds the first.
class KeyWatch : public nlohmann::json_sax<Json> {
 public:
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second && repeated.empty()) {
      repeated = name;
    }
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  // Told by the parser proper.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::string repeated;

 private:
  std::vector<std::set<std::string>> open_;
};

// A value as it stands in the file, but not all of a long one.
std::string shown(const Json& value) {
  if (value.is_structured()) {
    return value.is_array() ? "a list" : "an object";
  }
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > kMostShown ? text.substr(0, kMostShown) + "..." : text;
}

// Reads one file; every complaint starts with its name.
class PoolReader {
 public:
  explicit PoolReader(const std::string& file) : file_(file) {}

  std::vector<Machine> read(std::string_view text) const {
    const Json root = parse(text);
    if (!root.is_object() || root.empty()) {
      refuse(
          "expected an object with a node or more, such as {\"0\": {\"IP\": \"host:port\", "
          "\"benchmarks\": {\"ram\": 8, \"bandwidth\": 10}}}, got ",
          root.is_object() ? "an empty one" : root.type_name());
    }
    std::vector<Machine> pool;
    for (const auto& [key, node] : root.items()) {
      pool.push_back(read_machine(key, node));
    }
    std::ranges::sort(pool, {}, &Machine::id);
    check_unique(pool);
    return pool;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw_invalid("[planner] ", file_, ": ", parts..., ".");
  }

  Json parse(std::string_view text) const {
    if (is_deeper_than(text, kMostDepth)) {
      refuse("expected JSON of at most ", kMostDepth, " levels");
    }
    try {
      Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/true,
                              /*ignore_comments=*/true);
      KeyWatch watch;
      Json::sax_parse(text.begin(), text.end(), &watch, Json::input_format_t::json,
                      /*strict=*/true, /*ignore_comments=*/true);
      if (!watch.repeated.empty()) {
        refuse("the key \"", watch.repeated, "\" is given twice");
      }
      return root;
    } catch (const Json::parse_error& error) {
      const auto end =
          text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
      refuse("line ", 1 + std::count(text.begin(), end, '\n'), " is not JSON (",
             text.empty() ? "the file is empty" : reason(error.what()), ")");
    } catch (const Json::out_of_range&) {  // "1e999"
      refuse("expected numbers of less than 1.8e308, got a greater one");
    }
  }

  // The library's sentence without its prefix.
  static std::string reason(const std::string& what) {
    const std::size_t colon = what.rfind(": ");
    return colon == std::string::npos ? what : what.substr(colon + 2);
  }

  Machine read_machine(const std::string& key, const Json& node) const {
    Machine machine;
    machine.id = read_id(key, "a node");
    const std::string place = "node \"" + key + "\"";
    machine.address = read_address(place, member(place, node, "IP"));
    const std::string inner = place + ", benchmarks";
    const Json& benchmarks = member(place, node, "benchmarks");
    machine.ram_gb = positive(inner, member(inner, benchmarks, "ram"), "ram", kMostRamGb, "GB");
    machine.mbps =
        positive(inner, member(inner, benchmarks, "bandwidth"), "bandwidth", kMostMbps, "Mbps");
    if (const auto speed = benchmarks.find("speed"); speed != benchmarks.end()) {
      machine.gflops = positive(inner, *speed, "speed", kMostGflops, "GFLOP/s");
    }
    if (const auto latency = benchmarks.find("latency"); latency != benchmarks.end()) {
      machine.latency_ms = read_latency(inner, *latency);
    }
    if (const auto links = benchmarks.find("links"); links != benchmarks.end()) {
      read_links(inner, *links, machine);
    }
    return machine;
  }

  std::int64_t read_id(const std::string& key, const std::string& what) const {
    std::int64_t id = -1;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stop != end || id < 0) {
      refuse("expected the key of ", what, " to be a whole number such as \"0\", got \"", key,
             "\"");
    }
    return id;
  }

  const Json& member(const std::string& place, const Json& object, const char* key) const {
    if (!object.is_object()) {
      refuse(place, ": expected an object, got ", object.type_name());
    }
    const auto found = object.find(key);
    if (found == object.end()) {
      refuse(place, ": the key \"", key, "\" is missing");
    }
    return *found;
  }

  double positive(const std::string& place, const Json& value, const char* key, double most,
                  const char* unit) const {
    const double number = value.is_number() ? value.get<double>() : 0.0;
    if (!(number >= kLeastFigure) || !(number <= most)) {
      refuse(place, ": expected \"", key, "\" to be a number of ", unit, " above 0 and up to ",
             most, ", got ", shown(value));
    }
    return number;
  }

  double read_latency(const std::string& place, const Json& value) const {
    const double number = value.is_number() ? value.get<double>() : -1.0;
    if (!(number >= 0.0) || !(number <= kMostLatencyMs)) {
      refuse(place, ": expected \"latency\" to be a number of ms, got ", shown(value));
    }
    return number;
  }

  void read_links(const std::string& place, const Json& links, Machine& machine) const {
    if (!links.is_object()) {
      refuse(place, ": expected \"links\" to be an object by node, got ", links.type_name());
    }
    for (const auto& [key, value] : links.items()) {
      const std::string inner = concat(place, ", links, \"", key, "\"");
      Link link{.mbps = positive(inner, member(inner, value, "bandwidth"), "bandwidth", kMostMbps,
                                 "Mbps"),
                .latency_ms = machine.latency_ms};
      if (const auto latency = value.find("latency"); latency != value.end()) {
        link.latency_ms = read_latency(inner, *latency);
      }
      machine.links.emplace(read_id(key, "a link"), link);
    }
  }

  // Addresses become names of folders, so they are held to host:port.
  std::string read_address(const std::string& place, const Json& value) const {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    try {
      parse_address(text);
    } catch (const std::invalid_argument&) {
      refuse(place, ": expected \"IP\" to be \"host:port\", got ", shown(value));
    }
    return text;
  }

  void check_unique(const std::vector<Machine>& pool) const {
    std::map<std::string, std::int64_t> seen;
    std::set<std::int64_t> ids;
    for (const Machine& machine : pool) {
      const auto [first, is_new] = seen.emplace(machine.address, machine.id);
      if (!is_new) {
        refuse("nodes \"", first->second, "\" and \"", machine.id, "\" have the same IP ",
               machine.address);
      }
      if (!ids.insert(machine.id).second) {
        refuse("node ", machine.id, " is given twice");
      }
    }
    for (const Machine& machine : pool) {
      for (const auto& [other, link] : machine.links) {
        if (!ids.contains(other) || other == machine.id) {
          refuse("node \"", machine.id, "\", benchmarks, links: there is no other node \"", other,
                 "\"");
        }
      }
    }
  }

  const std::string& file_;
};

}  // namespace

std::int64_t Machine::ram_bytes() const { return static_cast<std::int64_t>(ram_gb * kBytesPerGb); }

std::vector<Machine> read_pool(std::string_view json, const std::string& file) {
  return PoolReader(file).read(json);
}

std::vector<Machine> read_pool(const std::filesystem::path& file) {
  const Bytes bytes = Bytes::map_file(file);
  if (bytes.size() > kMostFileBytes) {
    throw_invalid("[planner] ", file.string(), ": expected at most ", kMostFileBytes,
                  " bytes, got ", bytes.size(), ".");
  }
  return read_pool({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
}

Link link_between(const Machine& a, const Machine& b) {
  Link link{.mbps = std::min(a.mbps, b.mbps), .latency_ms = a.latency_ms + b.latency_ms};
  const auto forth = a.links.find(b.id);
  const auto back = b.links.find(a.id);
  if (forth != a.links.end()) {
    link = forth->second;
  }
  if (back != b.links.end()) {
    link = forth == a.links.end()
               ? back->second
               : Link{.mbps = std::min(link.mbps, back->second.mbps),
                      .latency_ms = std::max(link.latency_ms, back->second.latency_ms)};
  }
  return link;
}

std::vector<double> planning_gflops(const std::vector<Machine>& pool) {
  std::vector<double> given;
  std::vector<double> rams;
  for (const Machine& machine : pool) {
    rams.push_back(machine.ram_gb);
    if (machine.gflops) {
      given.push_back(*machine.gflops);
    }
  }
  const auto middle = [](std::vector<double>& numbers) {
    const auto at = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
    std::ranges::nth_element(numbers, at);
    return *at;
  };
  const double middle_ram = pool.empty() ? 1.0 : middle(rams);
  const double middle_speed = given.empty() ? kDefaultGflops : middle(given);
  std::vector<double> speeds;
  for (const Machine& machine : pool) {
    speeds.push_back(given.empty() ? middle_speed * machine.ram_gb / middle_ram
                                   : machine.gflops.value_or(middle_speed));
  }
  return speeds;
}

}  // namespace ravnest::planner
