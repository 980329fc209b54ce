#include "ravnest/coordinator/store.h"

#include <sqlite3.h>

#include <string>
#include <string_view>

#include "ravnest/base/error.h"
#include "ravnest/base/fault_point.h"
#include "ravnest/coordinator/json.h"
#include "ravnest/trust/digest.h"

namespace ravnest::coordinator {

namespace {

constexpr std::int64_t kApplication = 0x52615376;  // "RaSv", in the file's head
constexpr std::int64_t kVersion = 3;
constexpr std::int64_t kLargestText = std::int64_t{1} << 29;

// SQLite finds torn pages, but not a bit that has changed in one.
std::string digest_of(std::int64_t sequence, std::string_view text) {
  return trust::to_hex(trust::sha256(concat(sequence, ":", text)));
}

}  // namespace

// A connection, and statements on it.
class Store::Database {
 public:
  explicit Database(const std::filesystem::path& file) : file_(file.string()) {
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (const int code = ::sqlite3_open_v2(file_.c_str(), &handle_, flags, nullptr);
        code != SQLITE_OK) {
      const std::string text = handle_ == nullptr ? "no memory" : ::sqlite3_errmsg(handle_);
      ::sqlite3_close(handle_);
      throw Error(ErrorKind::kIo, concat("[coordinator] cannot open '", file_, "': ", text, "."));
    }
  }
  ~Database() { ::sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // One statement, until the end of the scope.
  class Statement {
   public:
    Statement(Database& database, std::string_view sql) : database_(database) {
      database.check(::sqlite3_prepare_v2(database.handle_, sql.data(),
                                          static_cast<int>(sql.size()), &handle_, nullptr));
    }
    ~Statement() { ::sqlite3_finalize(handle_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    void bind(int at, std::int64_t value) {
      database_.check(::sqlite3_bind_int64(handle_, at, value));
    }
    void bind(int at, const std::string& value) {  // borrowed
      database_.check(::sqlite3_bind_text64(handle_, at, value.data(), value.size(), SQLITE_STATIC,
                                            SQLITE_UTF8));
    }
    // Whether there is a row.
    bool step() {
      const int code = ::sqlite3_step(handle_);
      if (code != SQLITE_ROW && code != SQLITE_DONE) {
        database_.check(code);
      }
      return code == SQLITE_ROW;
    }
    std::int64_t integer(int column) const { return ::sqlite3_column_int64(handle_, column); }
    std::string_view text(int column) const {
      const auto* data = reinterpret_cast<const char*>(::sqlite3_column_text(handle_, column));
      const int nbytes = ::sqlite3_column_bytes(handle_, column);
      return data == nullptr ? std::string_view{}
                             : std::string_view(data, static_cast<std::size_t>(nbytes));
    }

   private:
    Database& database_;
    sqlite3_stmt* handle_ = nullptr;
  };

  void run(std::string_view sql) {
    Statement statement(*this, sql);
    while (statement.step()) {
    }
  }

  std::int64_t number(std::string_view sql) {
    Statement statement(*this, sql);
    return statement.step() ? statement.integer(0) : 0;
  }

  // All of it or nothing.
  template <typename Work>
  void transaction(const Work& work) {
    run("BEGIN IMMEDIATE");
    try {
      work();
      run("COMMIT");
    } catch (...) {
      ::sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

  void check(int code) const {
    const std::string text = ::sqlite3_errmsg(handle_);
    switch (code & 0xff) {
      case SQLITE_OK:
        return;
      case SQLITE_NOTADB:
      case SQLITE_CORRUPT:
        refuse(text);
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        throw Error(ErrorKind::kIo,
                    concat("[coordinator] cannot open '", file_, "': another server has it."));
      default:
        throw Error(ErrorKind::kIo, concat("[coordinator] cannot use '", file_, "': ", text, "."));
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw_invalid("[coordinator] expected a log of this server's version ", kVersion, ", got '",
                  file_, "': ", what, ".");
  }

 private:
  const std::string file_;
  sqlite3* handle_ = nullptr;
};

Store::Store(const std::filesystem::path& file) : database_(std::make_unique<Database>(file)) {
  Database& database = *database_;
  // Held from the first read to the end: two servers on one log would tell two stories.
  database.run("PRAGMA locking_mode = EXCLUSIVE");
  const std::int64_t application = database.number("PRAGMA application_id");
  const std::int64_t tables = database.number("SELECT count(*) FROM sqlite_schema");
  if (application != kApplication && (application != 0 || tables != 0)) {
    database.refuse("another program's file");
  }
  if (const std::int64_t version = database.number("PRAGMA user_version");
      tables != 0 && version != kVersion) {
    database.refuse(concat("version ", version));
  }
  database.run("PRAGMA journal_mode = WAL");
  database.run("PRAGMA synchronous = FULL");
  if (tables == 0) {
    database.transaction([&] {
      database.run(
          "CREATE TABLE log (sequence INTEGER PRIMARY KEY, digest TEXT NOT NULL, changes TEXT NOT "
          "NULL) STRICT");
      database.run(
          "CREATE TABLE snapshot (sequence INTEGER PRIMARY KEY, digest TEXT NOT NULL, state TEXT "
          "NOT NULL) STRICT");
      database.run(concat("PRAGMA application_id = ", kApplication));
      database.run(concat("PRAGMA user_version = ", kVersion));
    });
  } else {
    // The file may have been written by another server until just now.
    database.transaction([] {});
  }
}

Store::~Store() = default;

// The state of the snapshot, and its place in the log.
std::pair<std::int64_t, Durable> Store::load_snapshot() {
  Database::Statement row(*database_, "SELECT sequence, digest, state FROM snapshot");
  if (!row.step()) {
    return {0, Durable{}};
  }
  const std::int64_t sequence = row.integer(0);
  if (row.text(1) != digest_of(sequence, row.text(2))) {
    throw_invalid("damaged");
  }
  return {sequence, read_durable(row.text(2))};
}

Durable Store::load() {
  sequence_ = 0;
  length_ = 0;
  try {
    auto [sequence, durable] = load_snapshot();
    sequence_ = sequence;
    Database::Statement row(*database_,
                            "SELECT sequence, digest, changes FROM log ORDER BY sequence");
    for (; row.step(); ++length_) {
      ++sequence_;
      if (row.integer(0) != sequence_ || row.text(1) != digest_of(sequence_, row.text(2))) {
        throw_invalid("damaged, or missing");
      }
      for (const Change& change : read_changes(row.text(2))) {
        apply_change(durable, change);
      }
    }
    // In the middle of a decision the state need not make sense; at its end it must.
    derive(durable);
    return std::move(durable);
  } catch (const std::invalid_argument& error) {
    database_->refuse(concat("entry ", sequence_, ": ", error.what()));
  }
}

void Store::append(std::span<const Change> changes) {
  const std::string text = to_json(changes);
  if (static_cast<std::int64_t>(text.size()) > kLargestText) {
    throw Error(ErrorKind::kIo, "[coordinator] cannot write changes of more than 512 MB.");
  }
  const std::string digest = digest_of(sequence_ + 1, text);
  database_->transaction([&] {
    Database::Statement insert(*database_, "INSERT INTO log VALUES (?, ?, ?)");
    insert.bind(1, sequence_ + 1);
    insert.bind(2, digest);
    insert.bind(3, text);
    insert.step();
    fault_point("log");
  });
  ++sequence_;
  ++length_;
}

void Store::write_snapshot(const Durable& durable) {
  const std::string text = to_json(durable);
  const std::string digest = digest_of(sequence_, text);
  database_->transaction([&] {
    database_->run("DELETE FROM log");
    database_->run("DELETE FROM snapshot");
    Database::Statement insert(*database_, "INSERT INTO snapshot VALUES (?, ?, ?)");
    insert.bind(1, sequence_);
    insert.bind(2, digest);
    insert.bind(3, text);
    insert.step();
  });
  length_ = 0;
}

}  // namespace ravnest::coordinator
