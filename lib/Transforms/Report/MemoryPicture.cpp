//===- MemoryPicture.cpp - a picture of the memory of a step --------------===//

#include "TEDialect/Transforms/Report/MemoryPicture.h"
#include "TEDialect/Transforms/Report/HtmlPage.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>
#include <tuple>

using namespace mlir::te;

void mlir::te::findPeak(MemoryReport &report) {
  std::vector<int64_t> change(report.launches.size() + 1);
  for (const MemoryBuffer &buffer : report.buffers) {
    change[buffer.first] += buffer.bytes;
    change[buffer.last + 1] -= buffer.bytes;
  }
  int64_t live = 0, most = -1;
  for (unsigned launch = 0; launch < report.launches.size(); ++launch) {
    live += change[launch];
    if (live > most) {
      most = live;
      report.peak = launch;
    }
  }
  for (auto [index, buffer] : llvm::enumerate(report.buffers))
    if (buffer.first <= report.peak && report.peak <= buffer.last)
      report.alive.push_back(index);
  // Of equal sizes, the buffer that is written first comes first.
  llvm::sort(report.alive, [&](unsigned a, unsigned b) {
    return std::tuple(-report.buffers[a].bytes, a) <
           std::tuple(-report.buffers[b].bytes, b);
  });
}

static llvm::StringRef colorOf(llvm::StringRef cause) {
  static const std::map<llvm::StringRef, llvm::StringRef> colors = {
      {"activation", "#7aa6c2"},  {"residual", "#2f6690"},
      {"cached_cast", "#e0a030"}, {"transpose", "#d1495b"},
      {"gradient", "#5a9367"},    {"optimizer", "#8d6a9f"},
      {"constant", "#999999"}};
  auto found = colors.find(cause);
  return found == colors.end() ? "#555555" : found->second;
}

void mlir::te::printMemoryPicture(const MemoryReport &report,
                                  llvm::raw_ostream &os) {
  constexpr double width = 1200, height = 480;
  const size_t numLaunches = std::max<size_t>(report.launches.size(), 1);
  const double perLaunch = width / numLaunches;
  const double perByte = height / std::max<int64_t>(report.arenaBytes, 1);
  auto rectangle = [&](double x, double y, double w, double h,
                       llvm::StringRef cause, const std::string &title) {
    os << llvm::formatv("<rect x=\"{0:f2}\" y=\"{1:f2}\" width=\"{2:f2}\" "
                        "height=\"{3:f2}\" fill=\"{4}\"><title>{5}</title>"
                        "</rect>\n",
                        x, y, w, h, colorOf(cause), escapeHtml(title));
  };
  auto open = [&](llvm::StringRef what) {
    os << llvm::formatv(
        "<p>{0}</p>\n<svg class=\"memory\" viewBox=\"0 0 {1} {2}\" "
        "width=\"{1}\" height=\"{2}\">\n",
        what, width, height);
  };
  os << "<p>arena " << report.arenaBytes << " bytes, most alive at one launch "
     << report.maxLiveBytes << ", arguments and results "
     << report.argumentBytes << "; the peak is launch " << report.peak
     << "</p>\n<p>";
  for (auto &[cause, bytes] : report.totals)
    os << llvm::formatv("<span style=\"color:{0}\">&#9632;</span> {1} {2} ",
                        colorOf(cause), escapeHtml(cause), bytes);
  os << "</p>\n";

  open("Bytes alive at each launch, by cause");
  std::map<std::string, std::vector<int64_t>> change;
  for (const MemoryBuffer &buffer : report.buffers) {
    std::vector<int64_t> &bytes = change[buffer.cause];
    bytes.resize(numLaunches + 1);
    bytes[buffer.first] += buffer.bytes;
    bytes[buffer.last + 1] -= buffer.bytes;
  }
  std::vector<double> top(numLaunches, height);
  for (auto &[cause, bytes] : change) {
    int64_t live = 0;
    for (size_t launch = 0; launch < numLaunches; ++launch) {
      live += bytes[launch];
      if (live == 0)
        continue;
      top[launch] -= live * perByte;
      rectangle(launch * perLaunch, top[launch], perLaunch, live * perByte,
                cause,
                llvm::formatv("{0} bytes of {1} at launch {2}, {3}", live,
                              cause, launch, report.launches[launch]));
    }
  }
  os << "</svg>\n";

  open("Buffers: launches from left to right, places in the arena from below");
  for (const MemoryBuffer &buffer : report.buffers)
    rectangle(buffer.first * perLaunch,
              height - (buffer.offset + buffer.bytes) * perByte,
              (buffer.last - buffer.first + 1) * perLaunch,
              buffer.bytes * perByte, buffer.cause,
              llvm::formatv("{0} of {1}: {2}, {3} bytes at {4}, launches {5} "
                            "to {6}",
                            buffer.name, buffer.owner, buffer.cause,
                            buffer.bytes, buffer.offset, buffer.first,
                            buffer.last));
  os << llvm::formatv("<line x1=\"{0:f2}\" x2=\"{0:f2}\" y1=\"0\" "
                      "y2=\"{1}\" stroke=\"#000\"/>\n</svg>\n",
                      (report.peak + 0.5) * perLaunch, height);
}

void mlir::te::printMemoryPage(const MemoryReport &report,
                               llvm::raw_ostream &os) {
  openPage("memory of '" + report.function + "'", os);
  printMemoryPicture(report, os);
  os << "</html>\n";
}
