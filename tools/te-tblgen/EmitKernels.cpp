//===- EmitKernels.cpp - the kernel list as C++ ---------------------------===//
//
// The list that compiled code is planned against, as macros; rows of facts and
// sizes (KernelRows.h in include/TEDialect/Support); the checks of parameters.
// The runtime is built from them without LLVM.
//
//===----------------------------------------------------------------------===//

#include "KernelList.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace te::tblgen {

/// The first lines of a file that is written from Kernels.td.
static void banner(StringRef name, StringRef what, raw_ostream &os) {
  std::string first = ("//===- " + name + " - " + what + " ").str();
  first.resize(std::max<size_t>(first.size(), 75), '-');
  os << first
     << "===//\n"
        "// Written by scripts/gen_docs.sh; a test compares it with the .td "
        "files.\n";
}

/// `items` in lines of up to `most` columns that begin with `indent`.
static void wrapped(ArrayRef<std::string> items, StringRef separator,
                    StringRef indent, raw_ostream &os, StringRef gap = " ",
                    size_t most = 79) {
  size_t column = 0;
  for (auto [index, item] : enumerate(items)) {
    const bool isLast = index + 1 == items.size();
    const size_t width = item.size() + (isLast ? 0 : separator.size());
    if (column == 0 || column + gap.size() + width > most) {
      os << (column == 0 ? "" : "\n") << indent;
      column = indent.size();
    } else {
      os << gap;
      column += gap.size();
    }
    os << item << (isLast ? "" : separator);
    column += width;
  }
}

void emitKernelList(const RecordKeeper &records, raw_ostream &os) {
  const KernelList list = KernelList::read(records);
  banner("te_runtime_kernels.inc", "the kernel list, of Kernels.td", os);
  os << R"(//
// Each row
//
//   TE_RT_KERNEL(name, parameters, buffers)
//
// declares one kernel: `parameters` are fixed when a plan is made (at load),
// `buffers` are the pointers of one launch, in this order. What each computes is
// in include/TEDialect/Support/Kernels and in docs/generated/kernels.md. Rows are
// sorted by name.
//
// Includers define the macros they need; the rest default to nothing:
//   TE_RT_I64(name) TE_RT_I32(name) TE_RT_F32(name)   parameters
//   TE_RT_IN(name) TE_RT_OUT(name)                    required buffers
//   TE_RT_IN_OPT(name) TE_RT_OUT_OPT(name)            buffers that may be null
//
//===----------------------------------------------------------------------===//

)";
  const StringRef macros[] = {"I64", "I32",    "F32",    "IN",
                              "OUT", "IN_OPT", "OUT_OPT"};
  for (StringRef macro : macros)
    os << "#ifndef TE_RT_" << macro << "\n#define TE_RT_" << macro
       << "(name)\n#endif\n";
  for (const KernelRow &row : list.rows) {
    os << "\nTE_RT_KERNEL(" << row.name << ",\n";
    std::vector<std::string> parameters, buffers;
    for (const Named &each : row.parameters)
      parameters.push_back(
          ("TE_RT_" + each.type->getValueAsString("C") + "(" + each.name + ")")
              .str());
    for (const Named &each : row.buffers)
      buffers.push_back(
          (Twine("TE_RT_") +
           (each.type->getValueAsBit("IsOutput") ? "OUT" : "IN") +
           (each.type->getValueAsBit("IsOptional") ? "_OPT" : "") + "(" +
           each.name + ")")
              .str());
    wrapped(parameters, "", "  ", os);
    os << ",\n";
    wrapped(buffers, "", "  ", os);
    os << ")\n";
  }
  os << "\n#undef TE_RT_KERNEL\n";
  for (StringRef macro : macros)
    os << "#undef TE_RT_" << macro << "\n";
}

/// "b[0] = {p[0] * p[1], p[2]};" for each buffer. Short ones share a line.
static void emitSizes(const KernelList &list, const KernelRow &row,
                      raw_ostream &os) {
  auto place = [](unsigned i) { return ("p[" + Twine(i) + "]").str(); };
  os << "inline void " << row.name
     << "_sizes(const int64_t *p, BufferSize *b) {\n";
  std::vector<std::string> sizes;
  for (auto [index, buffer] : enumerate(row.buffers)) {
    std::string count;
    for (StringRef extent : buffer.type->getValueAsListOfStrings("Shape")) {
      std::string text = list.expand(row, extent, place);
      if (extent.contains(' ') && !extent.ends_with(")"))
        text = "(" + text + ")";
      if (text != "1" || count.empty())
        count += (count.empty() ? "" : " * ") + text;
    }
    sizes.push_back(formatv(
        "b[{0}] = {{{1}, {2}};", index, count,
        list.expand(row, buffer.type->getValueAsString("Type"), place)));
  }
  wrapped(sizes, "", "  ", os);
  os << "\n}\n";
}

static void emitDeterminism(const Record *bits, raw_ostream &os) {
  os << "inline constexpr Determinism " << bits->getName() << " = {\n    \""
     << bits->getName() << "\"";
  for (StringRef field : {"EachRun", "EachProcess", "NeedsChoice", "IsLibrary"})
    os << ", " << (bits->getValueAsBit(field) ? "true" : "false");
  for (StringRef field : {"Why", "Remedy"}) {
    os << ",\n    \"";
    os.write_escaped(bits->getValueAsString(field)) << "\"";
  }
  os << "};\n";
}

/// The function of a row with cases.
static void emitBits(const KernelList &list, const KernelRow &row,
                     raw_ostream &os) {
  const auto cases = row.record->getValueAsListOfDefs("Cases");
  if (cases.empty())
    return;
  os << "inline const Determinism *" << row.name
     << "_bits(const int64_t *p, [[maybe_unused]] Target target) {\n";
  for (const Record *each : cases)
    os << "  if ("
       << list.expand(row, each->getValueAsString("Condition"),
                      [](unsigned i) { return ("p[" + Twine(i) + "]").str(); })
       << ")\n    return &" << each->getValueAsDef("Bits")->getName() << ";\n";
  os << "  return &" << row.record->getValueAsDef("Bits")->getName()
     << ";\n}\n";
}

void emitKernelRows(const RecordKeeper &records, raw_ostream &os) {
  const KernelList list = KernelList::read(records);
  banner("KernelRows.inc", "facts and sizes, of Kernels.td", os);
  os << "\n";
  for (const Record *bits : records.getAllDerivedDefinitions("Determinism"))
    emitDeterminism(bits, os);
  for (const KernelRow &row : list.rows) {
    std::vector<std::string> names;
    for (const Named &each : row.parameters)
      names.push_back(each.name.str());
    os << "\n";
    wrapped(names, ",", "// ", os);
    os << "\n";
    emitSizes(list, row, os);
    if (StringRef bytes = row.record->getValueAsString("Workspace");
        !bytes.empty())
      os << "inline int64_t " << row.name
         << "_workspace(const int64_t *p) {\n  return "
         << list.expand(
                row, bytes,
                [](unsigned i) { return ("p[" + Twine(i) + "]").str(); })
         << ";\n}\n";
    emitBits(list, row, os);
    if (!row.reuses.empty()) {
      os << "inline constexpr KernelReuse " << row.name << "_reuses[] = {";
      interleaveComma(row.reuses, os, [&](std::pair<unsigned, unsigned> each) {
        os << "{" << each.first << ", " << each.second << "}";
      });
      os << "};\n";
    }
  }
  os << "\ninline constexpr KernelRow kKernelRows[] = {\n";
  for (const KernelRow &row : list.rows) {
    const bool hasWorkspace =
        !row.record->getValueAsString("Workspace").empty();
    os << formatv(
        "  {{\"{0}\", 0x{1}, {2}, {3}, {4}, {5}_sizes, {6}, "
        "{7}},\n",
        row.name, utohexstr(row.hash(), /*LowerCase=*/true, 16),
        row.record->getValueAsBit("IsCollective") ? "true" : "false",
        row.reuses.empty() ? "nullptr" : (row.name + "_reuses").str(),
        row.reuses.size(), row.name,
        hasWorkspace ? (row.name + "_workspace").str() : "nullptr",
        row.record->getValueAsListOfDefs("Cases").empty()
            ? ("always<" + row.record->getValueAsDef("Bits")->getName() + ">")
                  .str()
            : (row.name + "_bits").str());
  }
  os << "};\n";
}

void emitKernelChecks(const RecordKeeper &records, raw_ostream &os) {
  const KernelList list = KernelList::read(records);
  banner("KernelChecks.inc", "what parameters may be, of Kernels.td", os);
  for (const KernelRow &row : list.rows) {
    auto member = [&](unsigned i) {
      return ("p." + row.parameters[i].name).str();
    };
    // Checks are members that give the object again, so that each list of
    // conditions stops at the first that fails.
    std::vector<std::string> each, conditions;
    for (const Named &parameter : row.parameters) {
      StringRef check = parameter.type->getValueAsString("Check"),
                rest = parameter.type->getValueAsString("Arguments");
      if (!check.empty())
        each.push_back(formatv(".{0}(\"{1}\", p.{1}{2}{3})", check,
                               parameter.name, rest.empty() ? "" : ", ", rest));
    }
    if (!each.empty()) {
      each.front() = "checks" + each.front();
      each.back() += ".failed()";
      std::string condition;
      raw_string_ostream text(condition);
      wrapped(each, "", "          ", text, "", 99);
      conditions.push_back(StringRef(condition).ltrim().str());
    }
    for (const Record *relation :
         row.record->getValueAsListOfDefs("Relations")) {
      std::vector<std::string> arguments;
      for (StringRef argument : relation->getValueAsListOfStrings("Arguments"))
        arguments.push_back(list.expand(row, argument, member));
      conditions.push_back(("checks." + relation->getValueAsString("Check") +
                            "(" + join(arguments, ", ") + ").failed()")
                               .str());
    }
    os << "\nStatus checkSupported(const " << row.name << "_params &p) {\n";
    if (!conditions.empty())
      os << "  Checks checks;\n  if (" << join(conditions, " ||\n      ")
         << ")\n    return checks;\n";
    os << (row.record->getValueAsBit("HasRule") ? "  return checkRule(p);\n"
                                                : "  return Status::ok();\n")
       << "}\n";
  }
}

} // namespace te::tblgen
