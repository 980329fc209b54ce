#include "ravnest/trust/member.h"

#include "tests/trust/world.h"

namespace ravnest::trust {
namespace {

TEST(Member, ComesBackFromItsUri) {
  for (const Role role : {Role::kServer, Role::kProvider, Role::kRequester}) {
    const Member member{.id = make_member_id(), .role = role};
    EXPECT_EQ(find_member(uri_of(member)), member);
    EXPECT_EQ(find_role(name_of(role)), role);
    EXPECT_EQ(find_role(static_cast<unsigned>(role)), role);
  }
  EXPECT_EQ(uri_of({.id = "a1", .role = Role::kProvider}), "ravnest:provider:a1");
}

TEST(Member, OtherUrisAreNobody) {
  for (const char* uri :
       {"", "ravnest:", "ravnest:provider", "ravnest:provider:", "ravnest::a", "ravnest:root:a",
        "ravnest:provider:A", "ravnest:provider:a.b", "ravnest:provider:-a", "http:provider:a",
        "Ravnest:provider:a", "ravnest:provider:a:b", "ravnest:provider:a b"}) {
    EXPECT_FALSE(find_member(uri)) << uri;
  }
  EXPECT_FALSE(find_member(std::string("ravnest:provider:a\0b", 20)));
  EXPECT_FALSE(find_role(0U));
  EXPECT_FALSE(find_role(4U));
}

TEST(Member, IdsCannotPlayTricks) {
  check_member_id("3f-9");
  check_member_id(std::string(63, 'a'));
  const std::vector<std::string> tricks{"",
                                        "-a",
                                        "a-",
                                        "A",
                                        "a.b",
                                        "a,URI:x",
                                        "a\nb",
                                        "a b",
                                        "a/b",
                                        std::string(64, 'a'),
                                        std::string("a\0b", 3),
                                        "\xc3\xa4"};
  for (const std::string& id : tricks) {
    EXPECT_TRUE(has(refusal_of([&] { check_member_id(id); }), "member id")) << id;
  }
}

TEST(Member, NamesOfMachinesArePlain) {
  for (const char* name : {"box", "Box-2.local", "a_b", "7"}) {
    check_machine_name(name);
  }
  const std::vector<std::string> odd{"",    " box",   "box\n",        "\x1b[2Jbox",
                                     "a b", "../etc", ".box",         "-box",
                                     "<b>", "b'x",    "\xe2\x80\xae", std::string(65, 'a')};
  for (const std::string& name : odd) {
    const std::string said = refusal_of([&] { check_machine_name(name); });
    EXPECT_TRUE(has(said, "expected a name")) << name;
    EXPECT_FALSE(has(said, "\x1b")) << "unprintable words are not repeated";
  }
  EXPECT_NE(refusal_of([] { check_machine_name(std::string_view("b\0x", 3)); }), "");
}

TEST(Member, NobodyHasTheServersTlsName) {
  EXPECT_EQ(tls_name_of("server"), "server.member.ravnest");
  EXPECT_NE(tls_name_of("server"), kServerTlsName);
}

}  // namespace
}  // namespace ravnest::trust
