//===- Npz.cpp - reading numpy's .npy and .npz files ----------------------===//
//
// A .npz is a zip file whose members are .npy files. The central directory is
// the authority for names and sizes; a local header is used only to find where
// its data begin. `Cursor` is the only way bytes are read: it cannot run past
// the end of what it was given.
//
//===----------------------------------------------------------------------===//

#include "Support/Npz.h"

#include "Support/Zip.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace te::support {

namespace {

/// No deflate stream expands further than this, so a larger size is wrong
/// and is refused before any memory is reserved for it.
constexpr uint64_t kMaxInflation = 1032;
/// Of an .npy file; with kMaxNpyRank dimensions they have less than 2,000
/// bytes.
constexpr uint64_t kMaxHeader = 65535;

/// Reads little-endian fields; after the first read past the end `ok` is false
/// and every value is 0.
class Cursor {
public:
  Cursor(const uint8_t *bytes, size_t size) : bytes(bytes), size(size) {}

  template <typename T> T read() {
    T value = 0;
    const uint8_t *from = take(sizeof(T));
    for (size_t i = 0; from && i < sizeof(T); ++i)
      value |= static_cast<T>(static_cast<T>(from[i]) << (8 * i));
    return value;
  }
  const uint8_t *take(uint64_t count) {
    if (!ok || count > size - position) {
      ok = false;
      return nullptr;
    }
    const uint8_t *result = bytes + position;
    position += count;
    return result;
  }
  void seek(uint64_t to) {
    ok = ok && to <= size;
    position = ok ? to : 0;
  }
  bool atEnd() const { return position == size; }

  bool ok = true;

private:
  const uint8_t *bytes;
  uint64_t size;
  uint64_t position = 0;
};

/// The three entries of an .npy header, a Python dictionary literal.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  bool parse(NpyArray &array, bool &fortranOrder, std::string &error) {
    bool haveType = false, haveOrder = false, haveShape = false;
    if (!consume('{'))
      return fail(error, "expected the header to be a dictionary");
    while (!consume('}')) {
      std::string key;
      if (!string(key) || !consume(':'))
        return fail(error, "expected \"'key': value\" in the header");
      if (key == "descr") {
        if (!string(array.dtype))
          return fail(error, "expected 'descr' to be one type string "
                             "(structured types are not supported)");
        haveType = true;
      } else if (key == "fortran_order") {
        if (word("True"))
          fortranOrder = true;
        else if (word("False"))
          fortranOrder = false;
        else
          return fail(error, "expected 'fortran_order' to be True or False");
        haveOrder = true;
      } else if (key == "shape") {
        if (!shape(array.shape))
          return fail(error, "expected 'shape' to be a tuple of at most " +
                                 std::to_string(kMaxNpyRank) + " sizes");
        haveShape = true;
      } else {
        return fail(error, "unknown header key " + inQuotes(key));
      }
      consume(',');
    }
    if (!haveType || !haveOrder || !haveShape)
      return fail(error, "expected the header to have 'descr', "
                         "'fortran_order' and 'shape'");
    return true;
  }

private:
  void skipSpace() {
    while (!text.empty() && std::isspace(static_cast<uint8_t>(text.front())))
      text.remove_prefix(1);
  }
  bool consume(char c) {
    skipSpace();
    if (text.empty() || text.front() != c)
      return false;
    text.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    skipSpace();
    if (!text.starts_with(expected))
      return false;
    text.remove_prefix(expected.size());
    return true;
  }
  bool string(std::string &value) {
    skipSpace();
    if (text.empty() || (text.front() != '\'' && text.front() != '"'))
      return false;
    const size_t end = text.find(text.front(), 1);
    if (end == std::string_view::npos)
      return false;
    value = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return true;
  }
  bool shape(std::vector<int64_t> &sizes) {
    sizes.clear();
    if (!consume('('))
      return false;
    while (!consume(')')) {
      int64_t size = 0;
      if (sizes.size() == kMaxNpyRank)
        return false;
      skipSpace();
      if (text.empty() || !std::isdigit(static_cast<uint8_t>(text.front())))
        return false;
      while (!text.empty() &&
             std::isdigit(static_cast<uint8_t>(text.front()))) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, text.front() - '0', &size))
          return false;
        text.remove_prefix(1);
      }
      sizes.push_back(size);
      consume(',');
    }
    return true;
  }

  std::string_view text;
};

/// Copies column-major `from` to row-major `to`.
void toRowMajor(const uint8_t *from, const std::vector<int64_t> &shape,
                int64_t elementSize, std::vector<uint8_t> &to) {
  std::vector<int64_t> index(shape.size(), 0);
  const int64_t count = static_cast<int64_t>(to.size()) / elementSize;
  for (int64_t i = 0; i < count; ++i) {
    int64_t target = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      target = target * shape[d] + index[d];
    std::memcpy(&to[target * elementSize], from + i * elementSize, elementSize);
    for (size_t d = 0; d < shape.size() && ++index[d] == shape[d]; ++d)
      index[d] = 0;
  }
}

struct Member {
  std::string name;
  uint16_t flags, method;
  uint32_t crc;
  uint64_t compressedSize, size, headerOffset;
};

/// Replaces the 32-bit fields that say "see the zip64 extra field".
bool applyZip64(Cursor extra, Member &member) {
  while (extra.ok && !extra.atEnd()) {
    const auto id = extra.read<uint16_t>();
    const auto length = extra.read<uint16_t>();
    const uint8_t *body = extra.take(length);
    if (!body || id != kZip64Extra)
      continue;
    Cursor fields(body, length);
    for (uint64_t *field :
         {&member.size, &member.compressedSize, &member.headerOffset})
      if (*field == 0xffffffffu)
        *field = fields.read<uint64_t>();
    return fields.ok;
  }
  return extra.ok;
}

bool readMemberHeader(Cursor &directory, Member &member) {
  if (directory.read<uint32_t>() != kCentralHeader)
    return false;
  directory.take(4);
  member.flags = directory.read<uint16_t>();
  member.method = directory.read<uint16_t>();
  directory.take(4);
  member.crc = directory.read<uint32_t>();
  member.compressedSize = directory.read<uint32_t>();
  member.size = directory.read<uint32_t>();
  const auto nameLength = directory.read<uint16_t>();
  const auto extraLength = directory.read<uint16_t>();
  const auto commentLength = directory.read<uint16_t>();
  directory.take(8);
  member.headerOffset = directory.read<uint32_t>();
  const uint8_t *name = directory.take(nameLength);
  const uint8_t *extra = directory.take(extraLength);
  directory.take(commentLength);
  if (!directory.ok)
    return false;
  member.name.assign(reinterpret_cast<const char *>(name), nameLength);
  return applyZip64(Cursor(extra, extraLength), member);
}

bool inflateInto(const uint8_t *from, uint64_t fromSize,
                 std::vector<uint8_t> &to) {
  z_stream stream = {};
  int result = inflateInit2(&stream, -MAX_WBITS);
  uint64_t read = 0, written = 0;
  uint8_t nothing = 0;
  // zlib counts in 32 bits, members may be larger.
  while (result == Z_OK) {
    const uint64_t chunk = 1u << 30;
    stream.next_in = const_cast<uint8_t *>(from + read);
    stream.avail_in = std::min(chunk, fromSize - read);
    stream.next_out = to.empty() ? &nothing : to.data() + written;
    stream.avail_out = std::min<uint64_t>(chunk, to.size() - written);
    const uint64_t in = stream.avail_in, out = stream.avail_out;
    result = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (result == Z_MEM_ERROR)
    throw std::bad_alloc();
  return result == Z_STREAM_END && written == to.size();
}

bool extract(const uint8_t *bytes, size_t size, const Member &member,
             std::vector<uint8_t> &contents, std::string &error) {
  const std::string where = "member " + inQuotes(member.name) + ": ";
  if (member.flags & 1)
    return fail(error, where + "encrypted members are not supported");
  Cursor local(bytes, size);
  local.seek(member.headerOffset);
  const bool found = local.read<uint32_t>() == kLocalHeader;
  local.take(22);
  const auto nameLength = local.read<uint16_t>();
  const auto extraLength = local.read<uint16_t>();
  local.take(nameLength);
  local.take(extraLength);
  const uint8_t *data = local.take(member.compressedSize);
  if (!found || !data)
    return fail(error, where + "its data is outside the file");
  if (member.method == kStored) {
    if (member.size != member.compressedSize)
      return fail(error, where +
                             "expected a stored member to have one size, "
                             "but got " +
                             std::to_string(member.size) + " and " +
                             std::to_string(member.compressedSize));
    if (!tryResize(contents, member.size))
      return fail(error, where + noMemory(member.size));
    std::copy_n(data, member.size, contents.begin());
  } else if (member.method == kDeflated) {
    if (member.size / kMaxInflation > member.compressedSize)
      return fail(error, where + std::to_string(member.compressedSize) +
                             " compressed bytes cannot hold the claimed " +
                             std::to_string(member.size));
    if (!tryResize(contents, member.size))
      return fail(error, where + noMemory(member.size));
    if (!inflateInto(data, member.compressedSize, contents))
      return fail(error, where + "its compressed data are damaged");
  } else {
    return fail(error, where +
                           "expected compression method 0 (stored) or 8 "
                           "(deflated), but got " +
                           std::to_string(member.method));
  }
  const uint32_t crc = crc32_z(0, contents.data(), contents.size());
  if (!contents.empty() && crc != member.crc)
    return fail(error, where + "its checksum does not match");
  return true;
}

/// Finds the central directory. Returns false if there is none.
bool findDirectory(const uint8_t *bytes, size_t size, uint64_t &offset,
                   uint64_t &count) {
  constexpr size_t kEndSize = 22, kMaxComment = 65535, kLocatorSize = 20;
  if (size < kEndSize)
    return false;
  const size_t last = size - kEndSize;
  const size_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    Cursor end(bytes, size);
    end.seek(at);
    if (end.read<uint32_t>() != kEndOfDirectory)
      continue;
    end.take(6);
    count = end.read<uint16_t>();
    end.take(4);
    offset = end.read<uint32_t>();
    if (count != 0xffff && offset != 0xffffffffu)
      return end.ok;
    Cursor wide(bytes, size);
    wide.seek(at < kLocatorSize ? size : at - kLocatorSize);
    if (wide.read<uint32_t>() != kZip64Locator)
      return end.ok;
    wide.take(4);
    wide.seek(wide.read<uint64_t>());
    if (wide.read<uint32_t>() != kZip64EndOfDirectory)
      return false;
    wide.take(28);
    count = wide.read<uint64_t>();
    wide.take(8);
    offset = wide.read<uint64_t>();
    return wide.ok;
  }
  return false;
}

bool parseArray(const uint8_t *bytes, size_t size, NpyArray &array,
                std::string &error) {
  Cursor cursor(bytes, size);
  const uint8_t *magic = cursor.take(6);
  if (!magic || std::memcmp(magic, "\x93NUMPY", 6) != 0)
    return fail(error, "not an .npy file (its first bytes are not numpy's)");
  const auto major = cursor.read<uint8_t>();
  cursor.read<uint8_t>();
  if (cursor.ok && (major < 1 || major > 3))
    return fail(error, "expected .npy version 1, 2 or 3, but got " +
                           std::to_string(major));
  const uint64_t headerSize =
      major == 1 ? cursor.read<uint16_t>() : cursor.read<uint32_t>();
  if (cursor.ok && headerSize > kMaxHeader)
    return fail(error, "expected a header of at most " +
                           std::to_string(kMaxHeader) + " bytes, but got " +
                           std::to_string(headerSize));
  const uint8_t *header = cursor.take(headerSize);
  if (!header)
    return fail(error, "the file ends inside its header");
  bool fortranOrder = false;
  HeaderParser parser({reinterpret_cast<const char *>(header),
                       static_cast<size_t>(headerSize)});
  if (!parser.parse(array, fortranOrder, error))
    return false;
  const int64_t elementSize = dtypeByteSize(array.dtype);
  if (elementSize == 0)
    return fail(error, "unknown type " + inQuotes(array.dtype) +
                           " (known: little-endian numbers such as '<f4', "
                           "'<i4', '|u1', raw bytes such as '|V2', and the "
                           "names of ml_dtypes)");
  int64_t dataSize = 0;
  if (!checkedByteSize(array.shape, elementSize, dataSize))
    return fail(error, "the shape has more elements than can be addressed");
  const uint8_t *data = cursor.take(dataSize);
  if (!data)
    return fail(error, "expected " + std::to_string(dataSize) +
                           " bytes of data, but the file ends before");
  if (!cursor.atEnd())
    return fail(error, "expected " + std::to_string(dataSize) +
                           " bytes of data, but the file is longer");
  if (!tryResize(array.data, dataSize))
    return fail(error, noMemory(dataSize));
  std::copy_n(data, dataSize, array.data.begin());
  if (fortranOrder && dataSize != 0)
    toRowMajor(data, array.shape, elementSize, array.data);
  return true;
}

bool parseArchive(const uint8_t *bytes, size_t size, NpzArchive &archive,
                  std::string &error, NpzSelection *selection) {
  uint64_t offset = 0, count = 0;
  archive.clear();
  if (selection)
    selection->others.clear();
  if (!findDirectory(bytes, size, offset, count))
    return fail(error, "not an .npz file, or a truncated one (it has no zip "
                       "directory)");
  Cursor directory(bytes, size);
  directory.seek(offset);
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Member member;
    if (!readMemberHeader(directory, member))
      return fail(error, "entry " + std::to_string(i) +
                             " of the zip directory is damaged");
    // Members that share bytes would let a small file claim any amount.
    if (__builtin_add_overflow(total, member.compressedSize, &total) ||
        total > size)
      return fail(error, "the members are larger than the file");
    std::string name = member.name;
    if (name.ends_with(".npy"))
      name.resize(name.size() - 4);
    if (selection && !selection->names.contains(name)) {
      selection->others.push_back(std::move(name));
      continue;
    }
    std::vector<uint8_t> contents;
    if (!extract(bytes, size, member, contents, error))
      return false;
    if (archive.count(name))
      return fail(error, "two members are called " + inQuotes(name));
    if (!parseArray(contents.data(), contents.size(), archive[name], error)) {
      error = "member " + inQuotes(member.name) + ": " + error;
      return false;
    }
  }
  return true;
}

} // namespace

int64_t NpyArray::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

bool checkedByteSize(const std::vector<int64_t> &shape, int64_t elementSize,
                     int64_t &bytes) {
  bytes = elementSize;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return false;
  return true;
}

int64_t dtypeByteSize(std::string_view dtype) {
  if (dtype == "bfloat16")
    return 2;
  for (std::string_view name :
       {"float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e4m3fnuz",
        "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn",
        "float6_e3m2fn"})
    if (dtype == name)
      return 1;
  if (!dtype.empty() && std::strchr("<|=", dtype.front()))
    dtype.remove_prefix(1);
  static constexpr struct {
    char kind;
    std::string_view sizes;
  } kKinds[] = {{'b', "1"},   {'i', "1248"}, {'u', "1248"},
                {'f', "248"}, {'c', "8"},    {'V', "12348"}};
  if (dtype.size() != 2)
    return 0;
  for (const auto &[kind, sizes] : kKinds)
    if (dtype[0] == kind && sizes.find(dtype[1]) != std::string_view::npos)
      return dtype[1] - '0';
  return 0;
}

bool parseNpy(const uint8_t *bytes, size_t size, NpyArray &array,
              std::string &error) {
  return guarded(error, [&] { return parseArray(bytes, size, array, error); });
}

bool parseNpz(const uint8_t *bytes, size_t size, NpzArchive &archive,
              std::string &error, NpzSelection *selection) {
  return guarded(error, [&] {
    return parseArchive(bytes, size, archive, error, selection);
  });
}

/// Reads a file and hands its contents to `parse`.
template <typename Parse>
static bool readAndParse(const std::string &path, std::string &error,
                         Parse parse) {
  return guarded(error, [&] {
    std::vector<uint8_t> contents;
    if (!readFile(path, contents, error))
      return false;
    if (parse(contents.data(), contents.size()))
      return true;
    error = inQuotes(path) + ": " + error;
    return false;
  });
}

bool readNpy(const std::string &path, NpyArray &array, std::string &error) {
  return readAndParse(path, error, [&](const uint8_t *bytes, size_t size) {
    return parseArray(bytes, size, array, error);
  });
}

bool readNpz(const std::string &path, NpzArchive &archive, std::string &error,
             NpzSelection *selection) {
  return readAndParse(path, error, [&](const uint8_t *bytes, size_t size) {
    return parseArchive(bytes, size, archive, error, selection);
  });
}

} // namespace te::support
