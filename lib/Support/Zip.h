//===- Zip.h - numbers of zip files ---------------------------------------===//

#ifndef TE_SUPPORT_ZIP_H
#define TE_SUPPORT_ZIP_H

#include <cstdint>

namespace te::support {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint32_t kZip64Locator = 0x07064b50;
constexpr uint32_t kZip64EndOfDirectory = 0x06064b50;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kZip64Extra = 1;

} // namespace te::support

#endif // TE_SUPPORT_ZIP_H
