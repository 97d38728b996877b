#include "tensor/gguf_head.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"

namespace fak::tensor {
namespace {

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What is being parsed, for messages.
enum class Section { kHeader, kKey, kTensor };

class HeadParser {
 public:
  HeadParser(std::span<const std::byte> bytes, uint64_t file_bytes)
      : bytes_(bytes), file_bytes_(file_bytes) {}

  Result<GgufHead> Parse() {
    TRY(ParseHeader());
    for (index_ = 0; index_ < key_count_; ++index_) {
      TRY(ParseKey());
    }
    for (index_ = 0; index_ < tensor_count_; ++index_) {
      TRY(ParseTensor());
    }
    read_all_ = true;
    TRY(OrderKeys());
    TRY(PlaceTensors());
    return std::move(head_);
  }

  uint64_t wanted_bytes() const { return wanted_bytes_; }

 private:
  tl::unexpected<Error> Broken(std::string_view what, Code code = Code::kDataCorrupt) const {
    std::string place = "header";
    if (section_ != Section::kHeader) {
      place = fmt::format("{} {}", section_ == Section::kKey ? "metadata key" : "tensor", index_);
      if (!name_.empty()) {
        place += fmt::format(" '{}'", PrintableName(name_));
      }
    }
    if (!read_all_) {
      place += fmt::format(", byte {}", at_);
    }
    return Fail(code, fmt::format("{}: {}", place, what));
  }

  // What a file is that ends before `bytes` bytes at `at` do.
  std::string CutShort(uint64_t at, uint64_t bytes) const {
    if (file_bytes_ == 0) {
      return "; the file is empty: download it again";
    }
    uint64_t least = 0;
    return __builtin_add_overflow(at, bytes, &least)
               ? ""
               : fmt::format("; the file is cut short ({} of {} bytes at least): download it again",
                             file_bytes_, least);
  }

  tl::unexpected<Error> TooLarge(std::string_view what) const {
    return Broken(what, Code::kPayloadTooLarge);
  }

  // The next n bytes. Fails if the file has fewer; or if only the prefix at hand has, and then says
  // in wanted_bytes_ how many to come back with.
  Result<std::span<const std::byte>> Take(uint64_t n, std::string_view what) {
    if (n > file_bytes_ - at_) {
      return Broken(fmt::format("the file ends inside {} ({} bytes are needed, {} are left){}",
                                what, n, file_bytes_ - at_, CutShort(at_, n)));
    }
    if (n > limits::kGgufHeadBytesMax - at_) {
      return TooLarge(
          fmt::format("more than {} bytes before the tensor data", limits::kGgufHeadBytesMax));
    }
    if (n > bytes_.size() - at_) {
      wanted_bytes_ = std::min(file_bytes_, std::max<uint64_t>(at_ + n, 4 * bytes_.size()));
      return Broken("more bytes are needed");
    }
    const auto taken = bytes_.subspan(at_, n);
    at_ += n;
    return taken;
  }

  template <class T>
  Result<T> TakeNumber(std::string_view what) {
    TRY_ASSIGN(const auto bytes, Take(sizeof(T), what));
    return Load<T>(bytes.data());
  }

  Result<std::string_view> TakeString(uint64_t bytes_max, std::string_view what) {
    TRY_ASSIGN(const uint64_t length, TakeNumber<uint64_t>(what));
    if (length > bytes_max) {
      const Code code =
          bytes_max == limits::kGgufStringBytesMax ? Code::kPayloadTooLarge : Code::kDataCorrupt;
      return Broken(fmt::format("{} of {} bytes (at most {})", what, length, bytes_max), code);
    }
    TRY_ASSIGN(const auto bytes, Take(length, what));
    return AsText(bytes);
  }

  Status ParseHeader() {
    TRY_ASSIGN(const auto magic, Take(kGgufMagic.size(), "the magic number"));
    if (AsText(magic) != kGgufMagic) {
      return Broken(
          fmt::format("not a GGUF file: it starts with '{}'", PrintableName(AsText(magic))));
    }
    TRY_ASSIGN(const auto version, TakeNumber<uint32_t>("the version"));
    if (version != 0 && (version & 0xFFFFu) == 0) {
      return Broken("the file is big-endian, which isn't supported", Code::kUnsupported);
    }
    if (version < kGgufVersionOldest || version > kGgufVersionNewest) {
      return Broken(fmt::format("GGUF version {} isn't supported (only {} and {} are)", version,
                                kGgufVersionOldest, kGgufVersionNewest),
                    Code::kUnsupported);
    }
    head_.version = version;
    TRY_ASSIGN(tensor_count_, TakeNumber<uint64_t>("the number of tensors"));
    if (tensor_count_ > limits::kGgufTensorsMax) {
      return TooLarge(
          fmt::format("{} tensors (at most {})", tensor_count_, limits::kGgufTensorsMax));
    }
    TRY_ASSIGN(key_count_, TakeNumber<uint64_t>("the number of metadata keys"));
    if (key_count_ > limits::kGgufKeysMax) {
      return TooLarge(
          fmt::format("{} metadata keys (at most {})", key_count_, limits::kGgufKeysMax));
    }
    return {};
  }

  Result<GgufType> TakeType(std::string_view what) {
    TRY_ASSIGN(const auto number, TakeNumber<uint32_t>(what));
    if (number >= kGgufTypes) {
      return Broken(fmt::format("{} is {}, which is none", what, number));
    }
    return static_cast<GgufType>(number);
  }

  Status ParseKey() {
    section_ = Section::kKey;
    name_ = {};
    TRY_ASSIGN(name_, TakeString(kGgufKeyBytesMax, "a key"));
    if (name_.empty()) {
      return Broken("the key is empty");
    }
    GgufValue value;
    TRY_ASSIGN(value.type, TakeType("the type of the value"));
    value.element = value.type;
    if (value.type == GgufType::kString) {
      TRY_ASSIGN(const auto text, TakeString(limits::kGgufStringBytesMax, "a string"));
      value.bytes = std::as_bytes(std::span(text));
    } else if (value.type == GgufType::kArray) {
      TRY(ParseArray(value));
    } else {
      TRY_ASSIGN(value.bytes, Take(GgufTypeBytes(value.type), "a value"));
      TRY(CheckBooleans(value));
    }
    if (name_ == kGgufAlignmentKey) {
      TRY(SetAlignment(value));
    }
    head_.keys.push_back({.name = name_, .value = value});
    return {};
  }

  Status ParseArray(GgufValue& value) {
    TRY_ASSIGN(value.element, TakeType("the type of the elements"));
    if (value.element == GgufType::kArray) {
      return Broken("an array of arrays");
    }
    TRY_ASSIGN(value.count, TakeNumber<uint64_t>("the length of an array"));
    if (value.count > limits::kGgufArrayLengthMax) {
      return TooLarge(fmt::format("an array of {} elements (at most {})", value.count,
                                  limits::kGgufArrayLengthMax));
    }
    if (value.element == GgufType::kString) {
      return ParseStrings(value);
    }
    TRY_ASSIGN(value.bytes, Take(value.count * GgufTypeBytes(value.element), "an array"));
    return CheckBooleans(value);
  }

  // A vocabulary is hundreds of thousands of strings: they are walked here without a Result each.
  Status ParseStrings(GgufValue& value) {
    const size_t start = at_;
    for (uint64_t i = 0; i < value.count; ++i) {
      if (bytes_.size() - at_ >= sizeof(uint64_t)) {
        const auto length = Load<uint64_t>(bytes_.data() + at_);
        if (length <=
            std::min<uint64_t>(bytes_.size() - at_ - sizeof length, limits::kGgufStringBytesMax)) {
          at_ += sizeof length + length;
          continue;
        }
      }
      TRY(TakeString(limits::kGgufStringBytesMax, fmt::format("string {} of an array", i)));
    }
    value.bytes = bytes_.subspan(start, at_ - start);
    return {};
  }

  Status CheckBooleans(const GgufValue& value) const {
    if (value.element == GgufType::kBool) {
      for (const std::byte b : value.bytes) {
        if (b > std::byte{1}) {
          return Broken(fmt::format("a bool that is {}", std::to_integer<int>(b)));
        }
      }
    }
    return {};
  }

  Status OrderKeys() {
    section_ = Section::kKey;
    std::vector<uint32_t>& order = head_.key_order;
    order.resize(head_.keys.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
      return std::tie(head_.keys[a].name, a) < std::tie(head_.keys[b].name, b);
    });
    for (size_t i = 1; i < order.size(); ++i) {
      if (head_.keys[order[i]].name == head_.keys[order[i - 1]].name) {
        index_ = order[i];
        name_ = head_.keys[order[i]].name;
        return Broken(fmt::format("the same key as number {}", order[i - 1]));
      }
    }
    return {};
  }

  Status SetAlignment(const GgufValue& value) {
    if (value.type != GgufType::kU32) {
      return Broken(fmt::format("is {} and must be u32", GgufTypeName(value.type)));
    }
    head_.alignment = Load<uint32_t>(value.bytes.data());
    if (!std::has_single_bit(head_.alignment)) {
      return Broken(fmt::format("is {} and must be a power of two", head_.alignment));
    }
    return {};
  }

  Status ParseTensor() {
    section_ = Section::kTensor;
    name_ = {};
    GgufTensor tensor;
    TRY_ASSIGN(tensor.name, TakeString(kGgufTensorNameBytesMax, "a tensor name"));
    name_ = tensor.name;
    if (name_.empty()) {
      return Broken("the name is empty");
    }
    TRY(ParseShape(tensor));
    TRY_ASSIGN(const auto type_id, TakeNumber<uint32_t>("the type"));
    const DTypeInfo* type = FindDType(type_id);
    if (type == nullptr) {
      return Broken(fmt::format("type {} isn't known", type_id), Code::kUnsupported);
    }
    if (type->support == DTypeSupport::kRetired) {
      return Broken(fmt::format("type {} was withdrawn from the format", type->name),
                    Code::kUnsupported);
    }
    tensor.type = type->type;
    TRY(ComputeBytes(*type, tensor));
    TRY_ASSIGN(tensor.offset, TakeNumber<uint64_t>("the offset"));
    if (tensor.offset % head_.alignment != 0) {
      return Broken(fmt::format("offset {} isn't a multiple of the alignment, {}", tensor.offset,
                                head_.alignment));
    }
    head_.tensors.push_back(tensor);
    return {};
  }

  Status ParseShape(GgufTensor& tensor) {
    TRY_ASSIGN(const auto dims, TakeNumber<uint32_t>("the number of dimensions"));
    if (dims == 0 || dims > static_cast<uint32_t>(kGgufDimsMax)) {
      return Broken(fmt::format("{} dimensions (1 to {})", dims, kGgufDimsMax));
    }
    tensor.dims = static_cast<int>(dims);
    tensor.shape.fill(1);
    for (uint32_t i = 0; i < dims; ++i) {
      TRY_ASSIGN(tensor.shape[i], TakeNumber<int64_t>("a dimension"));
      if (tensor.shape[i] < 1) {
        return Broken(fmt::format("dimension {} is {}", i, tensor.shape[i]));
      }
    }
    return {};
  }

  Status ComputeBytes(const DTypeInfo& type, GgufTensor& tensor) const {
    if (tensor.shape[0] % type.block_elements != 0) {
      return Broken(fmt::format("rows of {} elements aren't whole {} blocks of {}", tensor.shape[0],
                                type.name, type.block_elements));
    }
    // With the blocks in place of the first dimension; overflow means too large for any file.
    uint64_t bytes = static_cast<uint64_t>(tensor.shape[0] / type.block_elements);
    bool fits = !__builtin_mul_overflow(bytes, uint64_t{type.block_bytes}, &bytes);
    int64_t elements = tensor.shape[0];
    for (int i = 1; i < kGgufDimsMax; ++i) {
      fits = fits &&
             !__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[i]), &bytes) &&
             !__builtin_mul_overflow(elements, tensor.shape[i], &elements);
    }
    if (!fits || bytes > file_bytes_) {
      return Broken(fmt::format("shape {} x {} x {} x {} of {} is larger than the file{}",
                                tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3],
                                type.name, fits ? CutShort(at_, bytes) : ""));
    }
    tensor.bytes = bytes;
    return {};
  }

  // Makes offsets absolute and checks them against the file, each other, and for equal names.
  Status PlaceTensors() {
    section_ = Section::kTensor;
    const uint64_t mask = uint64_t{head_.alignment} - 1;
    head_.data_offset = (at_ + mask) & ~mask;
    for (index_ = 0; index_ < head_.tensors.size(); ++index_) {
      GgufTensor& tensor = head_.tensors[index_];
      name_ = tensor.name;
      if (head_.data_offset > file_bytes_ || tensor.offset > file_bytes_ - head_.data_offset ||
          tensor.bytes > file_bytes_ - head_.data_offset - tensor.offset) {
        return Broken(
            fmt::format("its {} bytes at {} of the data section (which starts at byte {}) "
                        "lie beyond the end of the file, byte {}{}",
                        tensor.bytes, tensor.offset, head_.data_offset, file_bytes_, CutShort()));
      }
      tensor.offset += head_.data_offset;
    }
    TRY(CheckNeighbours([](const GgufTensor& t) { return t.name; },
                        [](const GgufTensor& a, const GgufTensor& b) { return a.name != b.name; },
                        "has the same name as"));
    return CheckNeighbours(
        [](const GgufTensor& t) { return t.offset; },
        [](const GgufTensor& a, const GgufTensor& b) { return a.offset + a.bytes <= b.offset; },
        "overlaps");
  }

  // Of all tensors together: the file should go to the end of the last.
  std::string CutShort() const {
    uint64_t end = 0;
    for (size_t i = 0; i < head_.tensors.size(); ++i) {
      const GgufTensor& tensor = head_.tensors[i];
      uint64_t at = tensor.offset;  // of those that were placed, in the file
      if (i >= index_ && __builtin_add_overflow(at, head_.data_offset, &at)) {
        return "";
      }
      if (__builtin_add_overflow(at, tensor.bytes, &at)) {
        return "";
      }
      end = std::max(end, at);
    }
    return CutShort(end, 0);
  }

  // Sorts by `key_of`, then by place in the file, and demands that `fine` holds between neighbours.
  template <class KeyOf, class Fine>
  Status CheckNeighbours(KeyOf key_of, Fine fine, std::string_view complaint) {
    const std::vector<GgufTensor>& tensors = head_.tensors;
    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(key_of(tensors[a]), a) < std::pair(key_of(tensors[b]), b);
    });
    for (size_t i = 1; i < order.size(); ++i) {
      if (!fine(tensors[order[i - 1]], tensors[order[i]])) {
        index_ = order[i];
        name_ = tensors[index_].name;
        return Broken(fmt::format("{} tensor {} '{}'", complaint, order[i - 1],
                                  PrintableName(tensors[order[i - 1]].name)));
      }
    }
    return {};
  }

  const std::span<const std::byte> bytes_;
  const uint64_t file_bytes_;
  uint64_t at_ = 0;
  uint64_t wanted_bytes_ = 0;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
  Section section_ = Section::kHeader;
  uint64_t index_ = 0;
  std::string_view name_;  // of the key or tensor that is being parsed
  bool read_all_ = false;  // at_ is no longer where an error would be
  GgufHead head_;
};

}  // namespace

const GgufValue* GgufHead::Find(std::string_view key) const {
  const auto at =
      std::lower_bound(key_order.begin(), key_order.end(), key,
                       [this](uint32_t index, std::string_view k) { return keys[index].name < k; });
  return at != key_order.end() && keys[*at].name == key ? &keys[*at].value : nullptr;
}

Result<GgufHead> ParseGgufHead(std::span<const std::byte> bytes, uint64_t file_bytes,
                               uint64_t* wanted_bytes) {
  HeadParser parser(bytes, file_bytes);
  Result<GgufHead> head = parser.Parse();
  *wanted_bytes = parser.wanted_bytes();
  return head;
}

std::string PrintableName(std::string_view name) {
  constexpr size_t kBytesMax = 64;
  std::string printable;
  for (const char c : name.substr(0, kBytesMax)) {
    if (c >= 0x20 && c < 0x7F) {
      printable += c;
    } else {
      printable += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    }
  }
  if (name.size() > kBytesMax) {
    printable += "...";
  }
  return printable;
}

}  // namespace fak::tensor
