//===- NpzWriter.cpp - writing numpy's .npy and .npz files ----------------===//

#include "Support/Npz.h"

#include "Support/OutputFile.h"
#include "Support/Zip.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <memory>

namespace te::support {

namespace {

/// Opens `path`, lets `write` fill it and puts it in place.
template <typename Fn>
bool writeFile(const std::string &path, std::string &error, Fn write) {
  return guarded(error, [&] {
    OutputFile file;
    if (!file.open(path, error))
      return false;
    const ByteSink sink = [&](const void *bytes, size_t size) {
      return file.write(bytes, size);
    };
    if (write(sink))
      return file.commit(error);
    if (error.empty())
      return file.flush(error);
    error = "cannot write " + inQuotes(path) + ": " + error;
    return false;
  });
}

template <typename T> void append(std::string &to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    to.push_back(static_cast<char>(value >> (8 * i)));
}

/// What an .npy file has before the data of `array`.
bool formatHeader(const NpyArray &array, std::string &file,
                  std::string &error) {
  const int64_t elementSize = dtypeByteSize(array.dtype);
  int64_t bytes = 0;
  if (elementSize == 0)
    return fail(error, "unknown type " + inQuotes(array.dtype));
  if (array.shape.size() > kMaxNpyRank)
    return fail(error, "expected at most " + std::to_string(kMaxNpyRank) +
                           " dimensions, but got " +
                           std::to_string(array.shape.size()));
  if (!checkedByteSize(array.shape, elementSize, bytes) ||
      static_cast<size_t>(bytes) != array.data.size())
    return fail(error, "expected " + std::to_string(bytes) +
                           " bytes of data for the shape, but got " +
                           std::to_string(array.data.size()));
  const bool isCode = std::isdigit(static_cast<uint8_t>(array.dtype.back())) &&
                      array.dtype.size() <= 4;
  std::string sizes;
  for (int64_t size : array.shape)
    sizes += std::to_string(size) + (array.shape.size() == 1 ? "," : ", ");
  if (array.shape.size() > 1)
    sizes.resize(sizes.size() - 2);
  std::string header =
      "{'descr': '" +
      (isCode ? array.dtype : "|V" + std::to_string(elementSize)) +
      "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  constexpr size_t prefix = 10;
  // numpy maps the data, which therefore begin at a multiple of 64.
  while ((prefix + header.size() + 1) % 64 != 0)
    header += ' ';
  header += '\n';
  file.assign("\x93NUMPY", 6);
  file += '\1';
  file += '\0';
  append(file, static_cast<uint16_t>(header.size()));
  file += header;
  return true;
}

/// Appends `from` to what `stream` compresses into `to`.
bool deflateInto(z_stream &stream, const void *from, uint64_t size, int flush,
                 std::string &to) {
  const auto *bytes = static_cast<const Bytef *>(from);
  // zlib counts in 32 bits, members may be larger.
  constexpr uint64_t kChunk = 1u << 20;
  uint64_t read = 0;
  int result = Z_OK;
  do {
    const uint64_t in = std::min(kChunk, size - read);
    stream.next_in = const_cast<Bytef *>(bytes + read);
    stream.avail_in = in;
    read += in;
    const int now = read == size ? flush : Z_NO_FLUSH;
    do {
      char buffer[1 << 16];
      stream.next_out = reinterpret_cast<Bytef *>(buffer);
      stream.avail_out = sizeof(buffer);
      result = deflate(&stream, now);
      to.append(buffer, sizeof(buffer) - stream.avail_out);
    } while (result == Z_OK && stream.avail_out == 0);
  } while (read != size && result != Z_STREAM_ERROR);
  return result != Z_STREAM_ERROR;
}

bool deflateAll(const std::string &header, const std::vector<uint8_t> &data,
                std::string &to) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  const std::unique_ptr<z_stream, int (*)(z_stream *)> end(&stream, deflateEnd);
  return deflateInto(stream, header.data(), header.size(), Z_NO_FLUSH, to) &&
         deflateInto(stream, data.data(), data.size(), Z_FINISH, to);
}

} // namespace

bool writeNpy(const std::string &path, const NpyArray &array,
              std::string &error) {
  error.clear();
  return writeFile(path, error, [&](const ByteSink &sink) {
    std::string header;
    return formatHeader(array, header, error) &&
           sink(header.data(), header.size()) &&
           sink(array.data.data(), array.data.size());
  });
}

static bool writeArchive(const ByteSink &sink, const NpzArchive &archive,
                         bool deflate, std::string &error) {
  error.clear();
  std::string directory;
  uint64_t offset = 0;
  // Every size and offset is in a zip64 field, also a small one: one form.
  constexpr uint32_t kSeeZip64 = 0xffffffff;
  constexpr uint16_t kZip64Version = 45;
  for (const auto &[name, array] : archive) {
    std::string header, packed;
    if (!formatHeader(array, header, error)) {
      error = "array " + inQuotes(name) + ": " + error;
      return false;
    }
    const uint64_t size = header.size() + array.data.size();
    uint32_t crc = crc32_z(0, reinterpret_cast<const Bytef *>(header.data()),
                           header.size());
    // Not for an empty array: zlib takes a null pointer for a reset.
    if (!array.data.empty())
      crc = crc32_z(crc, array.data.data(), array.data.size());
    const bool compressed = deflate && deflateAll(header, array.data, packed);
    const uint64_t storedSize = compressed ? packed.size() : size;
    const std::string member = name + ".npy";
    std::string common;
    append<uint16_t>(common, kZip64Version);
    append<uint16_t>(common, 0x800); // names are UTF-8
    append<uint16_t>(common, compressed ? kDeflated : kStored);
    append<uint16_t>(common, 0);
    append<uint16_t>(common, 0x21); // 1 January 1980, the first date zip has
    append<uint32_t>(common, crc);
    append(common, kSeeZip64);
    append(common, kSeeZip64);
    append<uint16_t>(common, member.size());
    std::string sizes;
    append(sizes, size);
    append(sizes, storedSize);

    append(directory, kCentralHeader);
    append(directory, kZip64Version);
    directory += common;
    append<uint16_t>(directory, 4 + sizes.size() + 8);
    directory.append(10, '\0');
    append(directory, kSeeZip64);
    directory += member;
    append(directory, kZip64Extra);
    append<uint16_t>(directory, sizes.size() + 8);
    directory += sizes;
    append(directory, offset);

    std::string local;
    append(local, kLocalHeader);
    local += common;
    append<uint16_t>(local, 4 + sizes.size());
    local += member;
    append(local, kZip64Extra);
    append<uint16_t>(local, sizes.size());
    local += sizes;
    offset += local.size() + storedSize;
    if (!sink(local.data(), local.size()) ||
        !(compressed ? sink(packed.data(), packed.size())
                     : sink(header.data(), header.size()) &&
                           sink(array.data.data(), array.data.size())))
      return false;
  }
  const uint64_t directorySize = directory.size();
  append(directory, kZip64EndOfDirectory);
  append<uint64_t>(directory, 44); // bytes of this record after this field
  append(directory, kZip64Version);
  append(directory, kZip64Version);
  append<uint64_t>(directory, 0);
  append<uint64_t>(directory, archive.size());
  append<uint64_t>(directory, archive.size());
  append(directory, directorySize);
  append(directory, offset);
  append(directory, kZip64Locator);
  append<uint32_t>(directory, 0);
  append(directory, offset + directorySize);
  append<uint32_t>(directory, 1);
  append(directory, kEndOfDirectory);
  append<uint32_t>(directory, 0);
  append<uint16_t>(directory, 0xffff);
  append<uint16_t>(directory, 0xffff);
  append(directory, kSeeZip64);
  append(directory, kSeeZip64);
  append<uint16_t>(directory, 0);
  return sink(directory.data(), directory.size());
}

bool writeNpz(const ByteSink &sink, const NpzArchive &archive, bool deflate,
              std::string &error) {
  return guarded(error,
                 [&] { return writeArchive(sink, archive, deflate, error); });
}

bool writeNpz(const std::string &path, const NpzArchive &archive, bool deflate,
              std::string &error) {
  return writeFile(path, error, [&](const ByteSink &sink) {
    return writeNpz(sink, archive, deflate, error);
  });
}

} // namespace te::support
