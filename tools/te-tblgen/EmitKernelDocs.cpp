//===- EmitKernelDocs.cpp - the kernel list as a page ---------------------===//

#include "KernelList.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace te::tblgen {

/// The text of a record without its common indentation. Paragraphs stay as they
/// are written; lines further in are formulas and tables, shown as they are.
static void emitText(StringRef text, raw_ostream &os) {
  SmallVector<StringRef> lines;
  text.rtrim().split(lines, '\n');
  size_t margin = StringRef::npos;
  for (StringRef line : lines)
    if (!line.trim().empty())
      margin = std::min(margin, line.find_first_not_of(' '));
  bool isFenced = false;
  SmallVector<StringRef> shown;
  for (StringRef line : lines)
    if (!shown.empty() || !line.trim().empty())
      shown.push_back(line.trim().empty() ? "" : line.drop_front(margin));
  for (size_t i = 0; i < shown.size(); ++i) {
    const bool isFormula = shown[i].starts_with("  ");
    if (isFormula != isFenced && (isFormula || !shown[i].empty())) {
      os << (isFormula ? (i != 0 && !shown[i - 1].empty() ? "\n```text\n"
                                                          : "```text\n")
                       : "```\n\n");
      isFenced = isFormula;
    } else if (isFenced && shown[i].empty()) {
      os << "```\n";
      isFenced = false;
    }
    os << (isFenced ? shown[i].drop_front(2) : shown[i]) << "\n";
  }
  if (isFenced)
    os << "```\n";
}

/// What a buffer holds: "rows × cols of `type`".
static std::string contents(const Record *buffer) {
  std::string text;
  for (StringRef extent : buffer->getValueAsListOfStrings("Shape"))
    text += (text.empty() ? "`" : " × `") + extent.str() + "`";
  return text + " of `" + buffer->getValueAsString("Type").str() + "`";
}

/// `name` without the number that it ends with.
static StringRef stemOf(StringRef name) { return name.rtrim("0123456789"); }

/// The lines of a table about numbered entries: those that differ only in the
/// number are one line, "`in0` to `in7`".
static void emitEntries(ArrayRef<Named> entries, raw_ostream &os,
                        function_ref<std::string(const Named &)> describe) {
  for (size_t first = 0; first < entries.size();) {
    StringRef name = entries[first].name, stem = stemOf(name);
    auto generic = [&](const Named &entry) {
      const StringRef number = entry.name.drop_front(stem.size());
      std::string text = describe(entry);
      for (size_t at = 0;
           !number.empty() &&
           (at = text.find((number + "`").str(), at)) != std::string::npos;
           ++at)
        if (at == 0 || !isDigit(text[at - 1]))
          text.replace(at, number.size(), "<i>");
      return text;
    };
    size_t end = first + 1;
    while (name != stem && end < entries.size() &&
           entries[end].name == (stem + Twine(end - first)).str() &&
           generic(entries[end]) == generic(entries[first]))
      ++end;
    os << "| `" << name << "`";
    if (end != first + 1)
      os << " to `" << entries[end - 1].name << "`";
    os << " | "
       << (end == first + 1 ? describe(entries[first])
                            : generic(entries[first]))
       << " |\n";
    first = end;
  }
}

/// Which outputs may be the memory of which inputs. What holds for each number
/// is said once.
static void emitReuses(const KernelRow &row, raw_ostream &os) {
  auto numberOf = [](StringRef name) {
    return name.drop_front(stemOf(name).size());
  };
  for (auto [output, input] : row.reuses) {
    StringRef to = row.buffers[output].name, from = row.buffers[input].name;
    const bool isOfEach =
        !numberOf(to).empty() && numberOf(to) == numberOf(from) &&
        none_of(row.reuses, [&](std::pair<unsigned, unsigned> other) {
          StringRef otherTo = row.buffers[other.first].name,
                    otherFrom = row.buffers[other.second].name;
          return stemOf(otherTo) == stemOf(to) &&
                 numberOf(otherTo) != numberOf(otherFrom);
        });
    if (!isOfEach)
      os << "`" << to << "` may be the memory of `" << from << "`. ";
    else if (numberOf(to) == "0")
      os << "`" << stemOf(to) << "<i>` may be the memory of `" << stemOf(from)
         << "<i>`. ";
  }
}

static void emitRow(const KernelRow &row, raw_ostream &os) {
  os << "\n### " << row.name << "\n\n";
  emitText(row.record->getValueAsString("Description"), os);
  os << "\n| parameter | passed as | takes |\n|---|---|---|\n";
  emitEntries(row.parameters, os, [](const Named &parameter) {
    return parameter.type->getValueAsString("C").lower() + " | " +
           parameter.type->getValueAsString("Takes").str();
  });
  os << "\n| buffer | | holds |\n|---|---|---|\n";
  emitEntries(row.buffers, os, [](const Named &buffer) {
    return std::string(buffer.type->getValueAsBit("IsOptional") ? "optional "
                                                                : "") +
           (buffer.type->getValueAsBit("IsOutput") ? "output" : "input") +
           " | " + contents(buffer.type);
  });
  os << "\n";
  emitReuses(row, os);
  if (StringRef bytes = row.record->getValueAsString("Workspace");
      !bytes.empty())
    os << "The cuda backend takes at most `" << bytes
       << "` bytes of scratch memory. ";
  if (row.record->getValueAsBit("IsCollective"))
    os << "It is a collective. ";
  os << "Bits: ";
  for (const Record *each : row.record->getValueAsListOfDefs("Cases"))
    os << each->getValueAsDef("Bits")->getName() << " if `"
       << each->getValueAsString("Condition") << "`, else ";
  os << row.record->getValueAsDef("Bits")->getName() << ". ";
  os << "Hash of the row: `" << utohexstr(row.hash(), /*LowerCase=*/true, 16)
     << "`.\n";
}

/// The table that explains "Bits:" of the rows.
static void emitDeterminism(const RecordKeeper &records, raw_ostream &os) {
  os << "\n## Same bits\n\n"
        "Whether launches with the same inputs have the same bits: in each "
        "run of one process, and in each process on GPUs of one\nmodel, with "
        "one version of driver and libraries. On the reference backend all "
        "have. The [report](../reference/te-opt.md#determinism)\nof a step "
        "lists its launches by these rows.\n\n"
        "| bits | in each run | in each process | why |\n|---|---|---|---|\n";
  auto yes = [](bool is) { return is ? "yes" : "no"; };
  for (const Record *bits : records.getAllDerivedDefinitions("Determinism"))
    os << "| " << bits->getName() << " | "
       << yes(bits->getValueAsBit("EachRun")) << " | "
       << (bits->getValueAsBit("NeedsChoice")
               ? "with one choice of algorithms"
               : yes(bits->getValueAsBit("EachProcess")))
       << " | " << bits->getValueAsString("Why") << " |\n";
}

void emitKernelDocs(const RecordKeeper &records, raw_ostream &os) {
  const KernelList list = KernelList::read(records);
  os << "# Kernels\n\n"
        "Written by `te-tblgen` from `include/TEDialect/Support/Kernels.td` "
        "and the files beside it. These are the kernels that compiled\ncode "
        "can plan and launch. A row defines every bit of its outputs, on both "
        "backends unless it says otherwise. Parameters are fixed\nwhen a plan "
        "is made, while a module is loaded; buffers are the pointers of one "
        "launch, in this order. A compiled module names\nthe rows it uses with "
        "their hashes, and a runtime refuses it only where one of those rows "
        "has changed: see\n[the design of the runtime's ABI]"
        "(../how_it_works/design_runtime_abi.md).\n\n"
        "Sizes of buffers are expressions over the parameters. `scales(scheme, "
        "rows, cols, axis)` is the number of scales of a value of\nthat shape "
        "for contraction along `axis`; `inputs(kind)` is 2 for gated "
        "activations, else 1. "
        "`include/TEDialect/Support/KernelRows.h`\nhas these functions.\n";
  for (const Record *convention : list.conventions) {
    os << "\n## " << convention->getValueAsString("Title") << "\n\n";
    emitText(convention->getValueAsString("Text"), os);
  }
  emitDeterminism(records, os);
  for (const Record *family : list.families) {
    os << "\n## " << family->getValueAsString("Title") << "\n";
    for (const KernelRow &row : list.rows)
      if (row.record->getValueAsDef("Of") == family)
        emitRow(row, os);
  }
}

} // namespace te::tblgen
