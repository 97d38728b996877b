#include "kv/event_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/hex.h"
#include "base/json.h"
#include "wire/msgpack.h"

namespace fak::kv {
namespace {

using wire::KvEvent;
using wire::KvMedium;

void PackValue(const Json& json, wire::MsgpackWriter& writer) {
  switch (json.kind()) {
    case Json::Kind::kNull: writer.Nil(); break;
    case Json::Kind::kBool: writer.Bool(json.boolean()); break;
    case Json::Kind::kNumber: {
      const std::string& text = json.number_text();
      text.find('.') != std::string::npos ? writer.Double(json.number())
      : text[0] == '-'                    ? writer.Int(*json.AsInt())
                                          : writer.Uint(std::stoull(text));
      break;
    }
    case Json::Kind::kString:
      if (json.string().starts_with("hex:")) {
        const auto bytes = ParseHex(std::string_view(json.string()).substr(4)).value();
        writer.Binary({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      } else {
        writer.String(json.string());
      }
      break;
    case Json::Kind::kArray:
      writer.Array(json.array().size());
      for (const Json& element : json.array()) {
        PackValue(element, writer);
      }
      break;
    case Json::Kind::kObject:
      writer.Map(json.object().size());
      for (const auto& [key, value] : json.object()) {
        writer.String(key);
        PackValue(value, writer);
      }
      break;
  }
}

// A payload written down as JSON; "hex:…" is a byte string.
std::string Pack(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json.has_value()) << text;
  std::string out;
  wire::MsgpackWriter writer(out);
  PackValue(json.value_or(Json()), writer);
  return out;
}

DecodedKvEvents Decode(std::string_view json) {
  auto decoded = DecodeKvEvents(Pack(json));
  EXPECT_TRUE(decoded.has_value()) << decoded.error().detail;
  return decoded ? *std::move(decoded) : DecodedKvEvents{};
}

KvEvent One(std::string_view event) {
  const DecodedKvEvents decoded = Decode("[1.5,[" + std::string(event) + "],0]");
  EXPECT_EQ(decoded.batch.events.size(), 1u) << event;
  EXPECT_EQ(decoded.skipped.malformed, 0u) << event;
  return decoded.batch.events.empty() ? KvEvent{} : decoded.batch.events.front();
}

const std::vector<int32_t> kTwoBlocks = {1, 9690, 198, 2683};

// As vLLM 0.32 sent it, with blocks of 2 tokens for brevity.
TEST(KvEventCodec, ReadsTheMapsOfVllm) {
  const DecodedKvEvents decoded = Decode(R"([1795958904.25, [
      {"type":"BlockRemoved","block_hashes":[13324979190728648188],"medium":"GPU","group_idx":0},
      {"type":"BlockStored","block_hashes":[2589468466759713989,449887495925798645],
       "parent_block_hash":null,"token_ids":[1,9690,198,2683],"block_size":2,
       "lora_id":null,"medium":"GPU","lora_name":null,"extra_keys":[null,null],
       "group_idx":0,"kv_cache_spec_kind":"full_attention"},
      {"type":"AllBlocksCleared"}], 3])");
  EXPECT_EQ(decoded.batch.time_s, 1795958904.25);
  EXPECT_TRUE(decoded.has_rank);
  EXPECT_EQ(decoded.batch.rank, 3);
  ASSERT_EQ(decoded.batch.events.size(), 3u);
  const KvEvent& removed = decoded.batch.events[0];
  EXPECT_EQ(removed.kind, KvEvent::Kind::kRemoved);
  EXPECT_EQ(removed.block_hashes, std::vector<uint64_t>{13324979190728648188u});
  const KvEvent& stored = decoded.batch.events[1];
  EXPECT_EQ(stored.kind, KvEvent::Kind::kStored);
  EXPECT_EQ(stored.block_hashes,
            (std::vector<uint64_t>{2589468466759713989u, 449887495925798645u}));
  EXPECT_EQ(stored.parent_hash, std::nullopt);
  EXPECT_EQ(stored.tokens, kTwoBlocks);
  EXPECT_EQ(stored.block_size, 2);
  EXPECT_EQ(stored.medium, KvMedium::kDevice);
  EXPECT_EQ(stored.cache_salt, "");
  EXPECT_TRUE(stored.extra_keys.empty());
  EXPECT_TRUE(stored.whole_prefix);
  EXPECT_EQ(decoded.batch.events[2].kind, KvEvent::Kind::kCleared);
  EXPECT_EQ(decoded.skipped.unknown_fields + decoded.skipped.malformed, 0u);
}

TEST(KvEventCodec, ReadsTheArraysOfOlderVllmAtEachLength) {
  const char* const forms[] = {
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU"])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null,[null,null]])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null,[null,null],0])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null,null,0,"full_attention",null])",
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null,null,0,"mla_attention",128])",
      // Dynamo's tail.
      R"(["BlockStored",[11,12],7,[1,9690,198,2683],2,null,"GPU",null,null,[null,null],0])",
  };
  for (const char* form : forms) {
    const KvEvent event = One(form);
    EXPECT_EQ(event.kind, KvEvent::Kind::kStored) << form;
    EXPECT_EQ(event.block_hashes, (std::vector<uint64_t>{11, 12})) << form;
    EXPECT_EQ(event.parent_hash, 7u) << form;
    EXPECT_EQ(event.tokens, kTwoBlocks) << form;
    EXPECT_EQ(event.group, 0) << form;
    EXPECT_TRUE(event.whole_prefix && event.extra_keys.empty()) << form;
  }
  EXPECT_EQ(One(R"(["BlockRemoved",[11,12]])").block_hashes, (std::vector<uint64_t>{11, 12}));
  const KvEvent removed = One(R"(["BlockRemoved",[11],"CPU",2])");
  EXPECT_EQ(removed.medium, KvMedium::kHost);
  EXPECT_EQ(removed.group, 2);
  EXPECT_EQ(One(R"(["AllBlocksCleared"])").kind, KvEvent::Kind::kCleared);
}

TEST(KvEventCodec, ReadsTheArraysOfSglang) {
  // Hashes are signed; the medium is pinned memory; the salt stands in a map of its own.
  const KvEvent stored = One(
      R"(["BlockStored",[-2,5],null,[1,9690,198,2683],2,null,"CPU_PINNED",{"cache_salt":"t1"}])");
  EXPECT_EQ(stored.block_hashes, (std::vector<uint64_t>{~uint64_t{1}, 5}));
  EXPECT_EQ(stored.medium, KvMedium::kHost);
  EXPECT_EQ(stored.cache_salt, "t1");
  EXPECT_EQ(stored.adapter, "");
  EXPECT_EQ(One(R"(["BlockRemoved",[-2],"DISK"])").medium, KvMedium::kStorage);
  // EAGLE: pairs of a token and the next one.
  const KvEvent pairs =
      One(R"(["BlockStored",[3],null,[[1,9690],[9690,198],[198,2683],[2683,5]],4,null,"GPU"])");
  EXPECT_EQ(pairs.tokens, kTwoBlocks);
}

TEST(KvEventCodec, ReadsTheBatchThatIsAMap) {
  const DecodedKvEvents decoded = Decode(
      R"({"ts":2.5,"events":[{"type":"AllBlocksCleared"}],"data_parallel_rank":1,"more":[1]})");
  EXPECT_EQ(decoded.batch.time_s, 2.5);
  EXPECT_EQ(decoded.batch.rank, 1);
  EXPECT_EQ(decoded.batch.events.size(), 1u);
}

TEST(KvEventCodec, RankAndTimeMayBeAbsentOrOdd) {
  EXPECT_FALSE(Decode(R"([1.0,[]])").has_rank);
  EXPECT_FALSE(Decode(R"([1.0,[],null])").has_rank);
  EXPECT_FALSE(Decode(R"([1.0,[],-1])").has_rank);
  const DecodedKvEvents odd = Decode(R"([[1,2],[["AllBlocksCleared"]],4,"more",{"x":1}])");
  EXPECT_EQ(odd.batch.time_s, 0);
  EXPECT_EQ(odd.batch.rank, 4);
  EXPECT_EQ(odd.batch.events.size(), 1u);
  EXPECT_EQ(Decode(R"([17,[],0])").batch.time_s, 17);
}

// With VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0 the same block is named by the whole digest.
TEST(KvEventCodec, DigestsCountAsTheirLast64Bits) {
  const KvEvent digests = One(
      R"({"type":"BlockStored","block_hashes":["hex:000102030405060708090a0b0c0d0e0f101112131415161723ef87a5f5d1f0c5"],
          "parent_block_hash":"hex:0000000000000000000000000000000000000000000000000000000000000007",
          "token_ids":[5,6],"block_size":2})");
  EXPECT_EQ(digests.block_hashes, std::vector<uint64_t>{0x23ef87a5f5d1f0c5u});
  EXPECT_EQ(digests.parent_hash, 7u);
  EXPECT_EQ(One(R"(["BlockRemoved",["hex:0102"]])").block_hashes.front(),
            Xxh3(std::string_view("\x01\x02")));
  EXPECT_NE(One(R"(["BlockRemoved",["sha:aaaaaaaa"]])").block_hashes,
            One(R"(["BlockRemoved",["shb:aaaaaaaa"]])").block_hashes);
}

TEST(KvEventCodec, ExtraKeysSeparateSaltAdapterAndTheRest) {
  const auto stored = [](std::string_view rest) {
    return One(
        R"({"type":"BlockStored","block_hashes":[1,2],"token_ids":[1,2,3,4],"block_size":2,)" +
        std::string(rest) + "}");
  };
  const KvEvent salted = stored(R"("extra_keys":[["tenant-a"],null])");
  EXPECT_EQ(salted.cache_salt, "tenant-a");
  EXPECT_TRUE(salted.extra_keys.empty());

  const KvEvent adapted =
      stored(R"("lora_name":"french","extra_keys":[["french","s"],["french"]])");
  EXPECT_EQ(adapted.adapter, "french");
  EXPECT_EQ(adapted.cache_salt, "s");
  EXPECT_TRUE(adapted.extra_keys.empty());
  EXPECT_EQ(stored(R"("lora_id":4)").adapter, "4");

  // An image, in the first block with a salt beside it and in the second alone.
  const KvEvent images = stored(R"("extra_keys":[[["img",0],"s"],[["img",-2]]])");
  EXPECT_EQ(images.cache_salt, "s");
  EXPECT_EQ(images.extra_keys,
            (std::vector<std::string>{Pack(R"(["img",0])"), Pack(R"(["img",-2])")}));

  // A string in a block that doesn't start a prompt is no salt.
  const KvEvent later = stored(R"("parent_block_hash":9,"extra_keys":[["embedding"],null])");
  EXPECT_EQ(later.cache_salt, "");
  EXPECT_EQ(later.extra_keys, (std::vector<std::string>{Pack(R"("embedding")"), ""}));

  EXPECT_EQ(stored(R"("cache_salt":"d","extra_keys":null)").cache_salt, "d");
  EXPECT_EQ(stored(R"("block_mm_infos":[null,{"mm_hash":3}])").extra_keys,
            (std::vector<std::string>{"", Pack(R"({"mm_hash":3})")}));
}

// Its mocker: an empty topic, no medium, ids that are any 32 bits.
TEST(KvEventCodec, ReadsWhatDynamoSends) {
  const KvEvent event = One(
      R"({"type":"BlockStored","block_hashes":[18446744073709551615],"parent_block_hash":18446744073709551614,
          "token_ids":[4294967295,2147483648],"block_size":2,"group_idx":0})");
  EXPECT_EQ(event.block_hashes, std::vector<uint64_t>{~uint64_t{0}});
  EXPECT_EQ(event.parent_hash, ~uint64_t{1});
  EXPECT_EQ(event.tokens, (std::vector<int32_t>{-1, -2147483647 - 1}));
}

TEST(KvEventCodec, GroupsWithoutTheWholePrefixAreMarked) {
  for (const char* kind : {"sliding_window", "mamba", "chunked_local_attention", "new"}) {
    const KvEvent event = One(
        R"({"type":"BlockStored","block_hashes":[1],"token_ids":[1,2,3,4],"block_size":2,
            "group_idx":1,"kv_cache_spec_sliding_window":2,"kv_cache_spec_kind":")" +
        std::string(kind) + "\"}");
    EXPECT_FALSE(event.whole_prefix) << kind;
    EXPECT_EQ(event.group, 1);
  }
}

TEST(KvEventCodec, BlocksThatMoveNeedNoTokens) {
  const KvEvent event = One(
      R"({"type":"BlockStored","block_hashes":[1,2],"token_ids":[],"block_size":256,"medium":"cpu"})");
  EXPECT_EQ(event.medium, KvMedium::kHost);
  EXPECT_TRUE(event.tokens.empty());
}

TEST(KvEventCodec, UnknownFieldsAndKindsAreSkippedAndCounted) {
  const DecodedKvEvents decoded = Decode(R"([1.0,[
      {"type":"BlockMigrated","block_hashes":[1],"destination":"b"},
      ["BlockPinned",[1],2],
      {"type":"BlockRemoved","block_hashes":[5],"remaining_copy_counts":[1],"why":{"a":[1,2]},"ownership":"x"},
      ["BlockRemoved",[6],"GPU",0,"more",[7]],
      {"type":"BlockStored","block_hashes":[],"token_ids":[],"block_size":16}],0])");
  EXPECT_EQ(decoded.skipped.unknown_kinds, 2u);
  EXPECT_EQ(decoded.skipped.unknown_fields, 4u);
  EXPECT_EQ(decoded.skipped.malformed, 0u);
  ASSERT_EQ(decoded.batch.events.size(), 2u);
  EXPECT_EQ(decoded.batch.events[0].block_hashes.front(), 5u);
  EXPECT_EQ(decoded.batch.events[1].block_hashes.front(), 6u);
}

TEST(KvEventCodec, BlocksThatLieElsewhereAreSkipped) {
  const DecodedKvEvents decoded = Decode(R"([1.0,[
      {"type":"BlockStored","block_hashes":[1],"token_ids":[1],"block_size":1,"locality":"REMOTE"},
      {"type":"BlockRemoved","block_hashes":[1],"medium":"GPU","locality":"REMOTE"},
      {"type":"BlockStored","block_hashes":[2],"token_ids":[1],"block_size":1,"medium":"TAPE"},
      {"type":"BlockStored","block_hashes":[3],"token_ids":[1],"block_size":1,"locality":"LOCAL"}],0])");
  EXPECT_EQ(decoded.skipped.elsewhere, 3u);
  ASSERT_EQ(decoded.batch.events.size(), 1u);
  EXPECT_EQ(decoded.batch.events[0].block_hashes.front(), 3u);
}

TEST(KvEventCodec, EventsThatMakeNoSenseAreSkippedAndCounted) {
  const char* const events[] = {
      "null",
      "17",
      "[]",
      "[1]",
      "{}",
      R"({"type":3})",
      R"(["BlockStored"])",
      R"(["BlockStored",5,null,[1],1,null])",
      R"(["BlockStored",[1.5],null,[1],1,null])",
      R"(["BlockStored",[1],1.5,[1],1,null])",
      R"(["BlockStored",[1],null,[1],0,null])",
      R"(["BlockStored",[1],null,[1],"1",null])",
      R"(["BlockStored",[1],null,[4294967296],1,null])",
      R"(["BlockStored",[1],null,[[]],1,null])",
      R"(["BlockStored",[1],null,"text",1,null])",
      R"(["BlockStored",[1],null,[1,2],1,null])",
      R"({"type":"BlockStored","block_hashes":[1],"token_ids":[1],"block_size":1,"extra_keys":[]})",
      R"({"type":"BlockStored","block_hashes":[1],"token_ids":[1],"block_size":1,"extra_keys":[5]})",
      R"({"type":"BlockStored","block_hashes":[1],"token_ids":[1],"block_size":1,"extra_keys":[["a","b"]]})",
  };
  for (const char* event : events) {
    const DecodedKvEvents decoded =
        Decode("[1.0,[" + std::string(event) + R"(,["AllBlocksCleared"]],0])");
    EXPECT_EQ(decoded.skipped.malformed, 1u) << event;
    EXPECT_EQ(decoded.batch.events.size(), 1u) << event;
  }
}

TEST(KvEventCodec, ARemovalThatCannotBeReadClears) {
  for (const char* event : {R"(["BlockRemoved",["hex:01",1.5]])", R"(["BlockRemoved"])",
                            R"({"type":"BlockRemoved","block_hashes":7})"}) {
    const DecodedKvEvents decoded = Decode("[1.0,[" + std::string(event) + "],0]");
    EXPECT_EQ(decoded.skipped.malformed, 1u) << event;
    ASSERT_EQ(decoded.batch.events.size(), 1u) << event;
    EXPECT_EQ(decoded.batch.events.front().kind, KvEvent::Kind::kCleared) << event;
  }
}

TEST(KvEventCodec, WhatIsNoBatchIsCorrupt) {
  for (const char* json : {"null", "[]", "[1.0]", "[1.0,5]", R"({"events":3})", R"("text")"}) {
    const auto decoded = DecodeKvEvents(Pack(json));
    ASSERT_FALSE(decoded.has_value()) << json;
    EXPECT_EQ(decoded.error().code, Code::kDataCorrupt);
  }
  const std::string whole = Pack(R"([1.5,[["BlockStored",[1],null,[1,2],2,null]],0])");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeKvEvents(std::string_view(whole).substr(0, size)).has_value()) << size;
  }
}

TEST(KvEventCodec, WhatIsWrittenReadsBackTheSame) {
  wire::KvEventBatch batch;
  batch.time_s = 1795958904.5;
  batch.rank = 2;
  batch.events.resize(5);
  batch.events[0] = {.block_hashes = {~uint64_t{0}, 1},
                     .tokens = {1, 2, 70'000, -1},
                     .block_size = 2,
                     .cache_salt = "tenant"};
  batch.events[1] = {.block_hashes = {4}, .parent_hash = 1, .tokens = {5, 6}, .block_size = 2};
  batch.events[2] = {.kind = KvEvent::Kind::kRemoved,
                     .block_hashes = {1, 2, 3},
                     .medium = KvMedium::kStorage,
                     .group = 1};
  batch.events[3] = {.block_hashes = {9},
                     .medium = KvMedium::kHost,
                     .tokens = {5},
                     .block_size = 1,
                     .cache_salt = "s",
                     .adapter = "french",
                     .whole_prefix = false};
  batch.events[4].kind = KvEvent::Kind::kCleared;
  const auto decoded = DecodeKvEvents(EncodeKvEvents(batch));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->batch, batch);
  EXPECT_EQ(decoded->skipped.unknown_fields + decoded->skipped.malformed, 0u);
}

// The bytes that vLLM's own consumers expect: a batch array whose events are maps that begin with
// their type.
TEST(KvEventCodec, WritesVllmsMapForm) {
  wire::KvEventBatch batch;
  batch.time_s = 1.5;
  batch.events.push_back(
      {.block_hashes = {300}, .tokens = {1, 9690}, .block_size = 2, .cache_salt = "t"});
  EXPECT_EQ(EncodeKvEvents(batch),
            Pack(R"([1.5,[{"type":"BlockStored","block_hashes":[300],"parent_block_hash":null,
                     "token_ids":[1,9690],"block_size":2,"lora_id":null,"medium":"GPU",
                     "lora_name":null,"extra_keys":[["t"]],"group_idx":0,
                     "kv_cache_spec_kind":"full_attention"}],0])"));
}

}  // namespace
}  // namespace fak::kv
