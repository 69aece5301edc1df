//===- HtmlPage.h - single-file HTML pages --------------------------------===//
//
// Every page of this project has these parts: a head with the style, tables,
// and escaped text. Pages have no scripts and load no other files.
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

/// Prints a table. Cells are text; numbers are aligned to the right.
void printHtmlTable(llvm::ArrayRef<llvm::StringRef> header,
                    llvm::ArrayRef<std::vector<std::string>> rows,
                    llvm::raw_ostream &os);

} // namespace mlir::te

#endif // TEDIALECT_TRANSFORMS_REPORT_HTMLPAGE_H
