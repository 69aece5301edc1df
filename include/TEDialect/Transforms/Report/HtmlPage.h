//===- HtmlPage.h - pages that need no other file -------------------------===//
//
// What every page of this project is made of: a head with the style, tables,
// and text that is only text. Pages have no scripts and load nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TEDIALECT_TRANSFORMS_REPORT_HTMLPAGE_H
#define TEDIALECT_TRANSFORMS_REPORT_HTMLPAGE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mlir::te {

/// `text` as the content of an element; not for attributes.
std::string escapeHtml(llvm::StringRef text);

/// Begins a page called `title` and prints the title as its heading.
void openPage(llvm::StringRef title, llvm::raw_ostream &os);

/// A table; cells are text. Numbers are set to the right.
void printHtmlTable(llvm::ArrayRef<llvm::StringRef> header,
                    llvm::ArrayRef<std::vector<std::string>> rows,
                    llvm::raw_ostream &os);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_HTMLPAGE_H
