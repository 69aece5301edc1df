//===- KernelList.cpp - the rows of Kernels.td, checked -------------------===//

#include "KernelList.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TableGen/Error.h"

using namespace llvm;

namespace te::tblgen {

/// The entries of a list `(op type:$name, ...)`, each of class `kind`.
static SmallVector<Named> readEntries(const Record *row, StringRef list,
                                      StringRef kind) {
  const DagInit *dag = row->getValueAsDag(list);
  SmallVector<Named> entries;
  for (unsigned i = 0; i < dag->getNumArgs(); ++i) {
    const auto *def = dyn_cast<DefInit>(dag->getArg(i));
    const StringRef name = dag->getArgNameStr(i);
    if (!def || !def->getDef()->isSubClassOf(kind) || name.empty())
      PrintFatalError(row, "expected '" + list + "' to hold a " + kind +
                               " with a name in place " + Twine(i));
    if (any_of(entries, [&](const Named &each) { return each.name == name; }))
      PrintFatalError(row, "expected one entry '" + name + "' in '" + list +
                               "', but got two");
    entries.push_back({name, def->getDef()});
  }
  return entries;
}

static unsigned findBuffer(const KernelRow &row, StringRef name,
                           bool isOutput) {
  for (auto [index, buffer] : enumerate(row.buffers))
    if (buffer.name == name &&
        buffer.type->getValueAsBit("IsOutput") == isOutput)
      return index;
  PrintFatalError(row.record, Twine("expected ") +
                                  (isOutput ? "an output" : "an input") +
                                  " called '" + name + "' in 'Buffers'");
}

static SmallVector<const Record *> byPlace(const RecordKeeper &records,
                                           StringRef kind) {
  SmallVector<const Record *> found(records.getAllDerivedDefinitions(kind));
  sort(found, [](const Record *a, const Record *b) {
    return a->getValueAsInt("Place") < b->getValueAsInt("Place");
  });
  return found;
}

KernelList KernelList::read(const RecordKeeper &records) {
  KernelList list;
  list.families = byPlace(records, "Family");
  list.conventions = byPlace(records, "Convention");
  for (StringRef kind : {"ElementType", "Scheme"})
    for (const Record *each : records.getAllDerivedDefinitions(kind))
      list.constants[each->getValueAsString("Spelling").str()] =
          each->getValueAsInt("Value");
  for (const Record *record : records.getAllDerivedDefinitions("Kernel")) {
    KernelRow row;
    row.name = record->getName();
    row.record = record;
    row.parameters = readEntries(record, "Parameters", "ParameterType");
    row.buffers = readEntries(record, "Buffers", "Buffer");
    if (row.buffers.empty())
      PrintFatalError(record, "expected a kernel to have buffers");
    for (const Record *reuse : record->getValueAsListOfDefs("Reuses"))
      row.reuses.push_back(
          {findBuffer(row, reuse->getValueAsString("Output"), true),
           findBuffer(row, reuse->getValueAsString("Input"), false)});
    list.rows.push_back(std::move(row));
  }
  sort(list.rows,
       [](const KernelRow &a, const KernelRow &b) { return a.name < b.name; });
  return list;
}

std::string KernelRow::contract() const {
  std::string text = name.str() + "(";
  for (const Named &parameter : parameters)
    text +=
        (parameter.type->getValueAsString("C") + " " + parameter.name + ", ")
            .str();
  text += ";";
  for (const Named &buffer : buffers) {
    text += buffer.type->getValueAsBit("IsOutput") ? " out" : " in";
    text += buffer.type->getValueAsBit("IsOptional") ? "? " : " ";
    text += buffer.name.str() + " [";
    for (StringRef size : buffer.type->getValueAsListOfStrings("Shape"))
      text += (size + ",").str();
    text += ("] " + buffer.type->getValueAsString("Type") + ",").str();
  }
  text += ") reuses";
  for (auto [output, input] : reuses)
    text += " " + std::to_string(output) + ":" + std::to_string(input);
  if (record->getValueAsBit("IsCollective"))
    text += " collective";
  return text + " meaning " + std::to_string(record->getValueAsInt("Meaning"));
}

uint64_t KernelRow::hash() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : contract())
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string
KernelList::expand(const KernelRow &row, StringRef expression,
                   function_ref<std::string(unsigned)> spell) const {
  std::string text;
  auto isWord = [](char c) { return isAlnum(c) || c == '_'; };
  for (size_t i = 0; i < expression.size();) {
    if (expression[i] == '"') { // A text of its own.
      const size_t end = expression.find('"', i + 1);
      text += expression.slice(i, end + 1);
      i = end + 1;
      continue;
    }
    if (!isWord(expression[i])) {
      text += expression[i++];
      continue;
    }
    const StringRef word = expression.substr(i).take_while(isWord);
    i += word.size();
    const auto *parameter = find_if(
        row.parameters, [&](const Named &each) { return each.name == word; });
    if (parameter != row.parameters.end())
      text += spell(parameter - row.parameters.begin());
    else if (auto constant = constants.find(word); constant != constants.end())
      text += std::to_string(constant->second);
    else
      text += word;
  }
  return text;
}

} // namespace te::tblgen
