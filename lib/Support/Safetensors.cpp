//===- Safetensors.cpp - reading and writing .safetensors files -----------===//
//
// The header is taken event by event from a JSON parser that does not recurse.
// So a key that is there twice is seen, which a parsed object would hide, and a
// header cannot be nested too deep: where an event does not fit the one shape a
// header can have, parsing ends.
//
//===----------------------------------------------------------------------===//

#include "Support/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace te::support {
namespace {

/// What the format allows.
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kPrefix = 8;

constexpr struct {
  std::string_view name;
  int64_t bits;
} kTypes[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
    {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
    {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
    {"I64", 64},    {"U64", 64},
};

/// A tensor as the header describes it.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

/// Takes the events of the JSON parser. The names of its functions are those
/// that nlohmann::json::sax_parse calls; false ends the parse.
class HeaderEvents {
public:
  HeaderEvents(std::vector<Entry> &entries,
               std::map<std::string, std::string> &metadata, std::string &error)
      : entries(entries), metadata(metadata), error(error) {}

  bool start_object(size_t) {
    if (level == Level::Start)
      level = Level::Header;
    else if (level == Level::Header)
      level = current == kMetadata ? Level::Metadata : Level::Tensor;
    else
      return unexpected("an object");
    return true;
  }
  bool end_object() {
    if (level == Level::Tensor) {
      const Entry &entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.offsets)
        return fail(error, "expected tensor " + inQuotes(entry.name) +
                               " to have 'dtype', 'shape' and 'data_offsets'");
    }
    level = level == Level::Header ? Level::Start : Level::Header;
    return true;
  }
  bool key(std::string &name) {
    current = name;
    if (level == Level::Header) {
      if (!names.insert({name, {}}).second)
        return fail(error, "expected each name once, but got " +
                               inQuotes(name) + " again");
      if (name != kMetadata)
        entries.push_back({name, {}, {}, {}});
      return true;
    }
    if (level == Level::Metadata) {
      if (!metadata.insert({name, {}}).second)
        return fail(error,
                    "expected each key of '__metadata__' once, but got " +
                        inQuotes(name) + " again");
      return true;
    }
    Entry &entry = entries.back();
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      return fail(error, "expected tensor " + inQuotes(entry.name) +
                             " to have 'dtype', 'shape' and 'data_offsets', "
                             "but got " +
                             inQuotes(name));
    if (name == "dtype"   ? entry.dtype.has_value()
        : name == "shape" ? entry.shape.has_value()
                          : entry.offsets.has_value())
      return fail(error, "expected " + inQuotes(name) + " of tensor " +
                             inQuotes(entry.name) + " once, but got it again");
    return true;
  }
  bool string(std::string &value) {
    if (level == Level::Metadata)
      metadata[current] = value;
    else if (level == Level::Tensor && current == "dtype")
      entries.back().dtype = value;
    else
      return unexpected("a string");
    return true;
  }
  bool start_array(size_t) {
    if (level != Level::Tensor || current == "dtype")
      return unexpected("an array");
    (current == "shape" ? entries.back().shape : entries.back().offsets)
        .emplace();
    level = Level::Array;
    return true;
  }
  bool end_array() {
    level = Level::Tensor;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (level != Level::Array)
      return unexpected("a number");
    Entry &entry = entries.back();
    (current == "shape" ? entry.shape : entry.offsets)->push_back(value);
    return true;
  }
  // Larger ones are given as floats.
  bool number_integer(int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string &) {
    return unexpected("a number that is not an integer of 64 bits");
  }
  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t &) { return unexpected("binary"); }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::json::exception &) {
    return fail(error, "expected the header to be JSON in UTF-8, but it is not "
                       "at byte " +
                           std::to_string(kPrefix + position));
  }

private:
  enum class Level { Start, Header, Metadata, Tensor, Array };
  static constexpr std::string_view kMetadata = "__metadata__";

  bool unexpected(const char *what) {
    switch (level) {
    case Level::Start:
      return fail(error, std::string("expected the header to be an object, but "
                                     "got ") +
                             what);
    case Level::Metadata:
      return fail(error, "expected " + inQuotes(current) +
                             " of '__metadata__' to be a string, but got " +
                             what);
    case Level::Header:
      return fail(error, "expected " + inQuotes(current) +
                             " to be an object, but got " + what);
    case Level::Tensor:
    case Level::Array:
      break;
    }
    return fail(error,
                "expected " + inQuotes(current) + " of tensor " +
                    inQuotes(entries.back().name) + " to be " +
                    (current == "dtype" ? "a string" : "an array of sizes") +
                    ", but got " + what);
  }

  std::vector<Entry> &entries;
  std::map<std::string, std::string> &metadata;
  std::string &error;
  Level level = Level::Start;
  /// The key whose value is read.
  std::string current;
  std::map<std::string, char> names;
};

/// Bytes of a tensor, or nothing where they are not a whole number of 64 bits.
/// `size` counts elements up to the first of no size, as numpy does.
std::optional<uint64_t> byteSize(std::span<const uint64_t> shape, int64_t bits,
                                 std::string &why) {
  uint64_t size = bits;
  bool empty = false;
  for (uint64_t extent : shape) {
    empty |= extent == 0;
    if (extent > INT64_MAX ||
        (!empty &&
         (__builtin_mul_overflow(size, extent, &size) || size > INT64_MAX))) {
      why = "more elements than can be addressed";
      return std::nullopt;
    }
  }
  if (empty)
    return 0;
  if (size % 8 != 0) {
    why = "elements that end inside a byte";
    return std::nullopt;
  }
  return size / 8;
}

std::string range(const Entry &entry) {
  return std::to_string((*entry.offsets)[0]) + " to " +
         std::to_string((*entry.offsets)[1]);
}

/// Checks what one tensor says of itself.
bool checkEntry(const Entry &entry, std::string &error) {
  const std::string tensor = "tensor " + inQuotes(entry.name);
  const int64_t bits = safetensorsBits(*entry.dtype);
  if (bits == 0)
    return fail(error,
                "unknown type " + inQuotes(*entry.dtype) + " of " + tensor);
  std::string why;
  const std::optional<uint64_t> bytes = byteSize(*entry.shape, bits, why);
  if (!bytes)
    return fail(error, tensor + " has " + why);
  if (entry.offsets->size() != 2)
    return fail(error, "expected 'data_offsets' of " + tensor +
                           " to be two numbers, but got " +
                           std::to_string(entry.offsets->size()));
  const uint64_t begin = (*entry.offsets)[0], end = (*entry.offsets)[1];
  if (end < begin || end - begin != *bytes)
    return fail(error, "expected " + tensor + " to have " +
                           std::to_string(*bytes) +
                           " bytes, but it has bytes " + range(entry));
  return true;
}

constexpr const char *kNotUtf8 = "expected names and metadata to be UTF-8";

/// Appends `text` as JSON writes a string; false if it is not UTF-8.
bool append(std::string &json, const std::string &text) try {
  json += nlohmann::json(text).dump();
  return true;
} catch (const nlohmann::json::exception &) {
  return false;
}

/// "[1,2]".
std::string arrayOf(const std::vector<uint64_t> &numbers) {
  std::string text = "[";
  for (uint64_t number : numbers)
    text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text + "]";
}

} // namespace

int64_t safetensorsBits(std::string_view dtype) {
  for (const auto &type : kTypes)
    if (type.name == dtype)
      return type.bits;
  return 0;
}

static bool parse(std::span<const uint8_t> bytes, Safetensors &file,
                  std::string &error) {
  file = {};
  if (bytes.size() < kPrefix)
    return fail(error, "not a safetensors file: expected at least 8 bytes, but "
                       "got " +
                           std::to_string(bytes.size()));
  uint64_t headerSize = 0;
  for (size_t i = 0; i < kPrefix; ++i)
    headerSize |= uint64_t(bytes[i]) << (8 * i);
  bytes = bytes.subspan(kPrefix);
  if (headerSize > kMaxHeader)
    return fail(error, "not a safetensors file: expected a header of at most "
                       "100000000 bytes, but its first bytes say " +
                           std::to_string(headerSize));
  if (headerSize > bytes.size())
    return fail(error, "the file ends inside its header: expected " +
                           std::to_string(headerSize) + " bytes, but got " +
                           std::to_string(bytes.size()));
  const std::span<const uint8_t> header = bytes.first(headerSize);
  const std::span<const uint8_t> data = bytes.subspan(headerSize);
  if (header.empty() || header.front() != '{')
    return fail(error, "not a safetensors file: expected the header to begin "
                       "with '{'");
  std::vector<Entry> entries;
  HeaderEvents events(entries, file.metadata, error);
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &events))
    return false;

  for (const Entry &entry : entries)
    if (!checkEntry(entry, error))
      return false;
  std::ranges::sort(entries, [](const Entry &a, const Entry &b) {
    return *a.offsets < *b.offsets;
  });
  uint64_t end = 0;
  for (const Entry &entry : entries) {
    const uint64_t begin = (*entry.offsets)[0];
    const std::string tensor = "tensor " + inQuotes(entry.name);
    if (begin != end)
      return fail(error,
                  "expected " + tensor + " to begin at byte " +
                      std::to_string(end) +
                      ", where the one before it ends, but it has bytes " +
                      range(entry));
    end = (*entry.offsets)[1];
    if (end > data.size())
      return fail(error, "the file ends inside " + tensor +
                             ": expected bytes " + range(entry) +
                             ", but there are " + std::to_string(data.size()));
    file.tensors[entry.name] = {*entry.dtype,
                                {entry.shape->begin(), entry.shape->end()},
                                data.subspan(begin, end - begin)};
  }
  if (end != data.size())
    return fail(error, "expected the last tensor to end the file, at byte " +
                           std::to_string(data.size()) +
                           " of the data, but it ends at " +
                           std::to_string(end));
  return true;
}

bool parseSafetensors(std::span<const uint8_t> bytes, Safetensors &file,
                      std::string &error) {
  return guarded(error, [&] { return parse(bytes, file, error); });
}

static bool write(const ByteSink &sink, const Safetensors &file,
                  std::string &error) {
  using Tensor = std::pair<const std::string, SafetensorsView>;
  std::vector<const Tensor *> order;
  for (const Tensor &tensor : file.tensors)
    order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const Tensor *tensor) {
    return std::pair(-safetensorsBits(tensor->second.dtype), tensor->first);
  });
  std::string header = "{";
  const auto begin = [&](std::string &object) -> std::string & {
    return object.size() > 1 ? object += "," : object;
  };
  std::string metadata = "{";
  for (const auto &[key, value] : file.metadata) {
    begin(metadata);
    if (!append(metadata, key) || !append(metadata += ":", value))
      return fail(error, kNotUtf8);
  }
  if (!file.metadata.empty())
    header += "\"__metadata__\":" + metadata + "}";
  uint64_t offset = 0;
  for (const Tensor *tensor : order) {
    const SafetensorsView &view = tensor->second;
    const uint64_t end = offset + view.data.size();
    Entry entry{tensor->first, view.dtype,
                std::vector<uint64_t>(view.shape.begin(), view.shape.end()),
                std::vector<uint64_t>{offset, end}};
    if (entry.name == "__metadata__")
      return fail(error, "expected no tensor to be called '__metadata__'");
    if (!checkEntry(entry, error))
      return false;
    if (!append(begin(header), entry.name))
      return fail(error, kNotUtf8);
    header += ":{\"dtype\":\"" + view.dtype +
              "\",\"shape\":" + arrayOf(*entry.shape) +
              ",\"data_offsets\":" + arrayOf(*entry.offsets) + "}";
    offset = end;
  }
  std::string &text = header += "}";
  // So that the data begin at a multiple of eight bytes.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeader)
    return fail(error,
                "expected a header of at most 100000000 bytes, but got " +
                    std::to_string(text.size()));
  uint8_t prefix[kPrefix];
  for (size_t i = 0; i < kPrefix; ++i)
    prefix[i] = static_cast<uint8_t>(uint64_t(text.size()) >> (8 * i));
  if (!sink(prefix, kPrefix) || !sink(text.data(), text.size()))
    return false;
  for (const Tensor *tensor : order)
    if (!sink(tensor->second.data.data(), tensor->second.data.size()))
      return false;
  return true;
}

bool writeSafetensors(const ByteSink &sink, const Safetensors &file,
                      std::string &error) {
  return guarded(error, [&] { return write(sink, file, error); });
}

} // namespace te::support
