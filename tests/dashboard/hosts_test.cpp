#include <gtest/gtest.h>

#include "tests/dashboard/site.h"

namespace ravnest::dashboard {
namespace {

int status_of(const Site& site, const std::vector<std::string>& hosts) {
  Ask ask{.path = "/healthz"};
  for (const std::string& host : hosts) {
    ask.headers.emplace_back("Host", host);
  }
  return site.ask(ask).status;
}

TEST(Hosts, OurNamesAreServed) {
  Site site({.hosts = {"Nest.example", "proxy.example:80"}});
  const std::string port = ":" + site.port();
  for (const std::string& host :
       {"localhost" + port, "127.0.0.1" + port, "[::1]" + port, "LocalHost" + port,
        "nest.example" + port, "NEST.EXAMPLE" + port, std::string("proxy.example")}) {
    EXPECT_EQ(status_of(site, {host}), 200) << host;
  }
}

// A page of another site whose name was turned to 127.0.0.1 sends that name.
TEST(Hosts, OtherNamesAreNot) {
  Site site({.hosts = {"nest.example"}});
  const std::string port = ":" + site.port();
  for (const std::string& host :
       {"evil.example" + port, std::string("localhost"), std::string("localhost:80"),
        "localhost.evil.example" + port, "evil.localhost" + port, "127.0.0.2" + port,
        "localhost:" + port, "localhost" + port + "0", "localhost" + port + "/",
        "user@localhost" + port, "2130706433" + port, "0x7f.1" + port, "[::ffff:127.0.0.1]" + port,
        "http://localhost" + port, std::string("")}) {
    EXPECT_EQ(status_of(site, {host}), 421) << host;
  }
  EXPECT_EQ(status_of(site, {}), 421);
  EXPECT_EQ(status_of(site, {"localhost" + port, "evil.example" + port}), 421);
  EXPECT_EQ(status_of(site, {"evil.example" + port, "localhost" + port}), 421);
}

TEST(Hosts, TheOriginIsThatOfTheHostInUse) {
  Site site({.hosts = {"nest.example"}});
  const auto status = [&](const std::string& host, const std::string& origin) {
    Ask ask = site.post_of("/api/login", concat("{\"secret\": \"", kOwnerSecret, "\"}"));
    ask.headers[0].second = host;
    ask.headers[1].second = origin;
    return site.ask(ask).status;
  };
  const std::string port = ":" + site.port();
  EXPECT_EQ(status("nest.example" + port, "http://nest.example" + port), 200);
  EXPECT_EQ(status("nest.example" + port, "https://nest.example" + port), 200);
  EXPECT_EQ(status("nest.example" + port, "http://localhost" + port), 403);
  EXPECT_EQ(status("localhost" + port, "http://localhost"), 403);
  EXPECT_EQ(status("localhost" + port, "file://localhost" + port), 403);
}

TEST(Hosts, ANameThatIsNoneIsRefused) {
  for (const char* name : {"", "a b", "a/b", "http://a", "a:0", "a:b", "..", "a\n"}) {
    EXPECT_THROW(Site({.hosts = {name}}), std::invalid_argument) << name;
  }
}

TEST(Listening, APortThatIsTakenIsNamed) {
  Site site;
  try {
    HttpServer second({.listen = site.address()}, {});
    FAIL() << "two servers at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find(site.port()), std::string::npos) << error.what();
  }
}

TEST(Listening, AnAddressThatIsNoneIsRefused) {
  for (const char* address : {"", "localhost", "127.0.0.1:", "127.0.0.1:99999", "::1:80"}) {
    EXPECT_THROW(HttpServer({.listen = address}, {}), std::invalid_argument) << address;
  }
}

TEST(Listening, ThePortCanBeHadAgainAtOnce) {
  std::string address;
  {
    Site site;
    address = site.address();
    EXPECT_EQ(site.get("/healthz").status, 200);
  }
  EXPECT_NO_THROW(HttpServer({.listen = address}, {.view = [] { return ""; }}));
}

}  // namespace
}  // namespace ravnest::dashboard
