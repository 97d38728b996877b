// Hot path: bench/micro/kv_event_bench.cc.
#include "kv/event_codec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "wire/msgpack.h"

namespace fak::kv {
namespace {

using wire::KvEvent;
using wire::KvMedium;
using wire::MsgpackReader;
using wire::MsgpackToken;
using wire::MsgpackWriter;
using Kind = MsgpackToken::Kind;

enum Field : uint8_t {
  kHashes,
  kParent,
  kTokens,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kImages,
  kGroup,
  kSpecKind,
  kLocality,
  kCacheSalt,
  kUnused,  // known, and nothing that we need
  kFields,
};

struct NamedField {
  std::string_view name;
  Field field;
};
constexpr std::array kNames = {
    NamedField{"block_hashes", kHashes},
    NamedField{"parent_block_hash", kParent},
    NamedField{"token_ids", kTokens},
    NamedField{"block_size", kBlockSize},
    NamedField{"lora_id", kLoraId},
    NamedField{"medium", kMedium},
    NamedField{"lora_name", kLoraName},
    NamedField{"extra_keys", kExtraKeys},
    NamedField{"block_mm_infos", kImages},
    NamedField{"group_idx", kGroup},
    NamedField{"kv_cache_spec_kind", kSpecKind},
    NamedField{"locality", kLocality},
    NamedField{"cache_salt", kCacheSalt},
    NamedField{"kv_cache_spec_sliding_window", kUnused},
    NamedField{"ownership", kUnused},
    NamedField{"session_id", kUnused},
};

// Places in the array forms. Behind extra_keys the publishers differ: see TailField().
constexpr std::array kStoredPlaces = {kHashes, kParent, kTokens,   kBlockSize,
                                      kLoraId, kMedium, kLoraName, kExtraKeys};
constexpr std::array kRemovedPlaces = {kHashes, kMedium, kGroup};

// An event taken apart: each field as the bytes of its value, empty where there is none.
struct RawEvent {
  std::string_view kind;
  std::array<std::string_view, kFields> fields;
  uint32_t unknown_fields = 0;

  bool has(Field field) const {
    return !fields[field].empty() && fields[field] != std::string_view("\xc0");
  }
  MsgpackReader read(Field field) const { return MsgpackReader(fields[field]); }
  // nullopt where the field is absent, null or no string.
  std::optional<std::string_view> Text(Field field) const {
    if (!has(field)) {
      return std::nullopt;
    }
    const auto token = read(field).Next();
    return token && token->kind == Kind::kString ? std::optional(token->bytes) : std::nullopt;
  }
  std::optional<int64_t> Int(Field field) const {
    if (!has(field)) {
      return std::nullopt;
    }
    const auto token = read(field).Next();
    return token ? token->AsInt() : std::nullopt;
  }
};

// What stands behind extra_keys in an array: vLLM goes on with group_idx, kind and window, Dynamo
// puts a list about images before them.
Field TailField(std::string_view value, bool group_known) {
  const auto token = MsgpackReader(value).Next();
  switch (token ? token->kind : Kind::kNil) {
    case Kind::kArray: return kImages;
    case Kind::kString: return kSpecKind;
    case Kind::kInteger: return group_known ? kUnused : kGroup;
    default: return kUnused;
  }
}

std::optional<RawEvent> TakeArray(MsgpackReader reader, uint32_t count) {
  RawEvent event;
  const auto tag = reader.Next();
  if (!tag || tag->kind != Kind::kString) {
    return std::nullopt;
  }
  event.kind = tag->bytes;
  const bool stored = event.kind == "BlockStored";
  for (uint32_t i = 0; i + 1 < count; ++i) {
    const auto value = reader.NextWhole();
    if (!value) {
      return std::nullopt;
    }
    if (stored && i < kStoredPlaces.size()) {
      event.fields[kStoredPlaces[i]] = *value;
    } else if (stored) {
      event.fields[TailField(*value, event.has(kGroup))] = *value;
    } else if (i < kRemovedPlaces.size()) {
      event.fields[kRemovedPlaces[i]] = *value;
    } else {
      ++event.unknown_fields;
    }
  }
  return event;
}

std::optional<RawEvent> TakeMap(MsgpackReader reader, uint32_t count) {
  RawEvent event;
  for (uint32_t i = 0; i < count; ++i) {
    const auto key = reader.NextWhole();
    const auto value = reader.NextWhole();
    if (!key || !value) {
      return std::nullopt;
    }
    const auto name = MsgpackReader(*key).Next();
    const std::string_view text =
        name && name->kind == Kind::kString ? name->bytes : std::string_view();
    if (text == "type") {
      const auto tag = MsgpackReader(*value).Next();
      event.kind = tag && tag->kind == Kind::kString ? tag->bytes : std::string_view();
      continue;
    }
    const auto named = std::find_if(kNames.begin(), kNames.end(),
                                    [text](const NamedField& field) { return field.name == text; });
    if (named == kNames.end()) {
      ++event.unknown_fields;
    } else {
      event.fields[named->field] = *value;
    }
  }
  return event.kind.empty() ? std::nullopt : std::optional(event);
}

std::optional<uint64_t> HashOf(const MsgpackToken& token) {
  if (token.kind == Kind::kInteger) {
    return token.bits;
  }
  if (token.kind != Kind::kBinary && token.kind != Kind::kString) {
    return std::nullopt;
  }
  if (token.kind == Kind::kString || token.bytes.size() < 8) {
    return Xxh3(token.bytes);
  }
  uint64_t value = 0;
  for (const char byte : token.bytes.substr(token.bytes.size() - 8)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

bool TakeHashes(const RawEvent& raw, std::vector<uint64_t>& out) {
  MsgpackReader reader = raw.read(kHashes);
  const auto list = reader.Next();
  if (!list || list->kind != Kind::kArray) {
    return false;
  }
  out.reserve(list->count);
  for (uint32_t i = 0; i < list->count; ++i) {
    const auto token = reader.Next();
    const std::optional<uint64_t> hash = token ? HashOf(*token) : std::nullopt;
    if (!hash) {
      return false;
    }
    out.push_back(*hash);
  }
  return true;
}

// Ids above 2^31 keep their bits. With EAGLE, SGLang sends each token with the one behind it.
bool TakeTokens(const RawEvent& raw, std::vector<int32_t>& out) {
  if (!raw.has(kTokens)) {
    return true;
  }
  MsgpackReader reader = raw.read(kTokens);
  const auto list = reader.Next();
  if (!list || list->kind != Kind::kArray) {
    return false;
  }
  out.reserve(list->count);
  for (uint32_t i = 0; i < list->count; ++i) {
    auto token = reader.Next();
    uint32_t more = 0;
    if (token && token->kind == Kind::kArray && token->count > 0) {
      more = token->count - 1;
      token = reader.Next();
    }
    const std::optional<int64_t> id = token ? token->AsInt() : std::nullopt;
    if (!id || *id < std::numeric_limits<int32_t>::min() ||
        *id > std::numeric_limits<uint32_t>::max()) {
      return false;
    }
    out.push_back(static_cast<int32_t>(*id));
    for (; more > 0; --more) {
      if (!reader.NextWhole()) {
        return false;
      }
    }
  }
  return true;
}

std::optional<KvMedium> MediumOf(const RawEvent& raw) {
  if (!raw.has(kMedium)) {
    return KvMedium::kDevice;
  }
  constexpr std::array<std::pair<std::string_view, KvMedium>, 8> kMedia = {{
      {"GPU", KvMedium::kDevice},
      {"CPU", KvMedium::kHost},
      {"CPU_PINNED", KvMedium::kHost},
      {"cpu", KvMedium::kHost},
      {"STORAGE", KvMedium::kStorage},
      {"DISK", KvMedium::kStorage},
      {"disk", KvMedium::kStorage},
      {"EXTERNAL", KvMedium::kExternal},
  }};
  const std::optional<std::string_view> name = raw.Text(kMedium);
  const auto found = std::find_if(kMedia.begin(), kMedia.end(),
                                  [&name](const auto& medium) { return medium.first == name; });
  return found == kMedia.end() ? std::nullopt : std::optional(found->second);
}

// What SGLang puts where vLLM has lora_name: a map with the salt.
std::string SaltOfMetadata(const RawEvent& raw) {
  MsgpackReader reader = raw.read(kLoraName);
  const auto map = reader.Next();
  std::string salt;
  for (uint32_t i = 0; map && map->kind == Kind::kMap && i < map->count; ++i) {
    const auto key = reader.NextWhole();
    const auto value = reader.NextWhole();
    const auto name = key ? MsgpackReader(*key).Next() : MsgpackReader("").Next();
    const auto text = value ? MsgpackReader(*value).Next() : MsgpackReader("").Next();
    if (name && name->bytes == "cache_salt" && text && text->kind == Kind::kString) {
      salt = text->bytes;
    }
  }
  return salt;
}

// The keys of one block. The adapter's name is known already; in the first block of a prompt a
// single plain string is the salt (images come as pairs); the rest is kept as it came.
bool TakeKeysOfBlock(MsgpackReader& reader, bool first, KvEvent& event, std::string& kept) {
  const auto keys = reader.Next();
  if (!keys || (keys->kind != Kind::kNil && keys->kind != Kind::kArray)) {
    return false;
  }
  std::string_view plain;
  int plains = 0;
  for (uint32_t i = 0; i < keys->count; ++i) {
    const auto value = reader.NextWhole();
    const auto token = value ? MsgpackReader(*value).Next() : MsgpackReader("").Next();
    if (!token) {
      return false;
    }
    if (token->kind != Kind::kString) {
      kept += *value;
    } else if (event.adapter.empty() || token->bytes != event.adapter) {
      ++plains;
      plain = token->bytes;
      kept += first ? std::string_view() : *value;
    }
  }
  if (first && plains == 1) {
    event.cache_salt = plain;
  } else if (first && plains > 1) {
    return false;  // which of them is the salt can't be known
  }
  return true;
}

bool TakeExtraKeys(const RawEvent& raw, Field field, KvEvent& event) {
  if (!raw.has(field)) {
    return true;
  }
  MsgpackReader reader = raw.read(field);
  const auto list = reader.Next();
  if (!list || list->kind != Kind::kArray || list->count != event.block_hashes.size()) {
    return false;
  }
  for (uint32_t i = 0; i < list->count; ++i) {
    std::string kept;
    if (field == kImages) {
      const auto value = reader.NextWhole();
      kept = value && *value != "\xc0" ? *value : std::string_view();
    } else if (!TakeKeysOfBlock(reader, i == 0 && !event.parent_hash, event, kept)) {
      return false;
    }
    if (!kept.empty()) {
      event.extra_keys.resize(list->count);
      event.extra_keys[i] += kept;
    }
  }
  return true;
}

bool TakeStored(const RawEvent& raw, KvEvent& event) {
  event.kind = KvEvent::Kind::kStored;
  const std::optional<int64_t> block_size = raw.Int(kBlockSize);
  if (!TakeHashes(raw, event.block_hashes) || !TakeTokens(raw, event.tokens) || !block_size ||
      *block_size < 1 || *block_size > std::numeric_limits<int32_t>::max()) {
    return false;
  }
  event.block_size = static_cast<int32_t>(*block_size);
  if (raw.has(kParent)) {
    const auto parent = raw.read(kParent).Next();
    event.parent_hash = parent ? HashOf(*parent) : std::nullopt;
    if (!event.parent_hash) {
      return false;
    }
  }
  if (const auto name = raw.Text(kLoraName); name && !name->empty()) {
    event.adapter = *name;
  } else if (const auto id = raw.Int(kLoraId)) {
    event.adapter = std::to_string(*id);
  } else {
    event.adapter = raw.Text(kLoraId).value_or("");
  }
  if (const auto salt = raw.Text(kCacheSalt)) {
    event.cache_salt = *salt;
  } else if (raw.has(kLoraName)) {
    event.cache_salt = SaltOfMetadata(raw);
  }
  const std::optional<std::string_view> spec = raw.Text(kSpecKind);
  event.whole_prefix = !raw.has(kSpecKind) || spec == "full_attention" || spec == "mla_attention" ||
                       spec == "sink_full_attention";
  // Windows send fewer hashes than tokens.
  const bool matches =
      event.tokens.empty() || !event.whole_prefix ||
      event.tokens.size() == event.block_hashes.size() * static_cast<size_t>(event.block_size);
  return matches && TakeExtraKeys(raw, kExtraKeys, event) && TakeExtraKeys(raw, kImages, event);
}

// Appends the event, or counts why not.
void TakeEvent(const std::optional<RawEvent>& raw, DecodedKvEvents& out) {
  if (!raw) {
    ++out.skipped.malformed;
    return;
  }
  KvEvent event;
  if (raw->kind == "AllBlocksCleared") {
    event.kind = KvEvent::Kind::kCleared;
    out.skipped.unknown_fields += raw->unknown_fields;
    out.batch.events.push_back(std::move(event));
    return;
  }
  const bool removed = raw->kind == "BlockRemoved";
  if (!removed && raw->kind != "BlockStored") {
    ++out.skipped.unknown_kinds;
    return;
  }
  const std::optional<KvMedium> medium = MediumOf(*raw);
  if (!medium || raw->Text(kLocality).value_or("LOCAL") != "LOCAL") {
    ++out.skipped.elsewhere;
    return;
  }
  event.medium = *medium;
  event.group = static_cast<int32_t>(raw->Int(kGroup).value_or(0));
  event.kind = KvEvent::Kind::kRemoved;
  if (!(removed ? TakeHashes(*raw, event.block_hashes) : TakeStored(*raw, event))) {
    ++out.skipped.malformed;
    if (removed) {
      out.batch.events.emplace_back().kind = KvEvent::Kind::kCleared;
    }
    return;
  }
  out.skipped.unknown_fields += raw->unknown_fields;
  if (!event.block_hashes.empty()) {
    out.batch.events.push_back(std::move(event));
  }
}

Status TakeEvents(MsgpackReader& reader, DecodedKvEvents& out) {
  TRY_ASSIGN(const MsgpackToken list, reader.Expect(Kind::kArray, "a list of events"));
  for (uint32_t i = 0; i < list.count; ++i) {
    TRY_ASSIGN(const std::string_view whole, reader.NextWhole());
    MsgpackReader inside(whole);
    const auto head = inside.Next();
    TakeEvent(head->kind == Kind::kArray ? TakeArray(inside, head->count)
              : head->kind == Kind::kMap ? TakeMap(inside, head->count)
                                         : std::nullopt,
              out);
  }
  return {};
}

Status TakeTime(MsgpackReader& reader, DecodedKvEvents& out) {
  TRY_ASSIGN(const std::string_view whole, reader.NextWhole());
  out.batch.time_s = MsgpackReader(whole).Next()->AsDouble().value_or(0);
  return {};
}

Status TakeRank(MsgpackReader& reader, DecodedKvEvents& out) {
  TRY_ASSIGN(const std::string_view whole, reader.NextWhole());
  const std::optional<int64_t> rank = MsgpackReader(whole).Next()->AsInt();
  if (rank && *rank >= 0 && *rank <= std::numeric_limits<int32_t>::max()) {
    out.batch.rank = static_cast<int32_t>(*rank);
    out.has_rank = true;
  }
  return {};
}

Status TakeBatchMap(MsgpackReader& reader, uint32_t count, DecodedKvEvents& out) {
  for (uint32_t i = 0; i < count; ++i) {
    TRY_ASSIGN(const MsgpackToken key, reader.Expect(Kind::kString, "a field's name"));
    if (key.bytes == "events") {
      TRY(TakeEvents(reader, out));
    } else if (key.bytes == "ts") {
      TRY(TakeTime(reader, out));
    } else if (key.bytes == "data_parallel_rank") {
      TRY(TakeRank(reader, out));
    } else {
      TRY(reader.NextWhole());
    }
  }
  return {};
}

void WriteHashes(MsgpackWriter& writer, const std::vector<uint64_t>& hashes) {
  writer.String("block_hashes").Array(hashes.size());
  for (const uint64_t hash : hashes) {
    writer.Uint(hash);
  }
}

std::string_view MediumName(KvMedium medium) {
  switch (medium) {
    case KvMedium::kDevice: return "GPU";  // of a CPU engine too, as vLLM has it
    case KvMedium::kHost: return "CPU";
    case KvMedium::kStorage: return "STORAGE";
    case KvMedium::kExternal: return "EXTERNAL";
  }
  return "GPU";
}

void WriteStored(MsgpackWriter& writer, const KvEvent& event) {
  const bool salted = !event.cache_salt.empty() && !event.parent_hash;
  writer.Map(salted ? 11 : 10).String("type").String("BlockStored");
  WriteHashes(writer, event.block_hashes);
  writer.String("parent_block_hash");
  event.parent_hash ? writer.Uint(*event.parent_hash) : writer.Nil();
  writer.String("token_ids").Array(event.tokens.size());
  for (const int32_t token : event.tokens) {
    writer.Uint(static_cast<uint32_t>(token));
  }
  writer.String("block_size").Int(event.block_size);
  writer.String("lora_id").Nil();
  writer.String("medium").String(MediumName(event.medium));
  writer.String("lora_name");
  event.adapter.empty() ? writer.Nil() : writer.String(event.adapter);
  if (salted) {
    writer.String("extra_keys").Array(event.block_hashes.size());
    writer.Array(event.adapter.empty() ? 1 : 2);
    if (!event.adapter.empty()) {
      writer.String(event.adapter);
    }
    writer.String(event.cache_salt);
    for (size_t i = 1; i < event.block_hashes.size(); ++i) {
      writer.Nil();
    }
  }
  writer.String("group_idx").Int(event.group);
  writer.String("kv_cache_spec_kind");
  writer.String(event.whole_prefix ? "full_attention" : "sliding_window");
}

}  // namespace

KvEventsSkipped& KvEventsSkipped::operator+=(const KvEventsSkipped& other) {
  unknown_kinds += other.unknown_kinds;
  unknown_fields += other.unknown_fields;
  malformed += other.malformed;
  elsewhere += other.elsewhere;
  return *this;
}

Result<DecodedKvEvents> DecodeKvEvents(std::string_view payload) {
  DecodedKvEvents out;
  MsgpackReader reader(payload);
  TRY_ASSIGN(const MsgpackToken batch, reader.Next());
  if (batch.kind == Kind::kMap) {
    TRY(TakeBatchMap(reader, batch.count, out));
    return out;
  }
  if (batch.kind != Kind::kArray || batch.count < 2) {
    return Fail(Code::kDataCorrupt, "KV events: not a batch of time, events and rank");
  }
  TRY(TakeTime(reader, out));
  TRY(TakeEvents(reader, out));
  for (uint32_t i = 2; i < batch.count; ++i) {
    if (i == 2) {
      TRY(TakeRank(reader, out));
    } else {
      TRY(reader.NextWhole());
    }
  }
  return out;
}

std::string EncodeKvEvents(const wire::KvEventBatch& batch) {
  std::string out;
  MsgpackWriter writer(out);
  writer.Array(3).Double(batch.time_s).Array(batch.events.size());
  for (const KvEvent& event : batch.events) {
    switch (event.kind) {
      case KvEvent::Kind::kStored: WriteStored(writer, event); break;
      case KvEvent::Kind::kRemoved:
        writer.Map(4).String("type").String("BlockRemoved");
        WriteHashes(writer, event.block_hashes);
        writer.String("medium").String(MediumName(event.medium));
        writer.String("group_idx").Int(event.group);
        break;
      case KvEvent::Kind::kCleared: writer.Map(1).String("type").String("AllBlocksCleared"); break;
    }
  }
  writer.Int(batch.rank);
  return out;
}

}  // namespace fak::kv
