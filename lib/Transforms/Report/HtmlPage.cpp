//===- HtmlPage.cpp - single-file HTML pages ------------------------------===//

#include "TEDialect/Transforms/Report/HtmlPage.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

std::string mlir::te::escapeHtml(llvm::StringRef text) {
  std::string escaped;
  for (char c : text)
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else
      escaped += c;
  return escaped;
}

void mlir::te::openPage(llvm::StringRef title, llvm::raw_ostream &os) {
  const std::string text = escapeHtml(title);
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        "<title>"
     << text
     << "</title>\n<style>\nbody { font: 14px sans-serif; margin: 1.5em; "
        "color: "
        "#222 }\nsvg { border: 1px solid #ccc; max-width: none }\n.memory rect "
        "{ stroke: #fff; stroke-width: 0.3 }\n.wide { overflow: auto; "
        "max-height: 80vh }\ntable { border-collapse: collapse; margin: 0.5em "
        "0 }\nth, td { border-bottom: 1px solid #ddd; padding: 2px 10px; "
        "text-align: left; font: 12px monospace; vertical-align: top }\nth { "
        "background: #f2f2f2; position: sticky; top: 0 }\ntd.n { text-align: "
        "right }\nsummary { cursor: pointer; margin: 0.5em 0 }\n</style>\n<h1>"
     << text << "</h1>\n";
}

void mlir::te::printHtmlTable(llvm::ArrayRef<llvm::StringRef> header,
                              llvm::ArrayRef<std::vector<std::string>> rows,
                              llvm::raw_ostream &os) {
  os << "<table>\n<tr>";
  for (llvm::StringRef cell : header)
    os << "<th>" << escapeHtml(cell);
  os << "\n";
  for (const std::vector<std::string> &row : rows) {
    os << "<tr>";
    for (const std::string &cell : row) {
      const bool isNumber = !cell.empty() && llvm::all_of(cell, [](char c) {
        return llvm::isDigit(c) || c == '-';
      });
      os << (isNumber ? "<td class=\"n\">" : "<td>") << escapeHtml(cell);
    }
    os << "\n";
  }
  os << "</table>\n";
}
