//===- EmitCpp.cpp - the support table as constant C++ rows ---------------===//
//
// Rows in the layout of the structs of SupportTable.h (include/TEDialect/
// Support): plain aggregates, so that the runtime can use them without LLVM.
//
//===----------------------------------------------------------------------===//

#include "SupportTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace te::tblgen {

static std::string quoted(StringRef text) {
  std::string result;
  raw_string_ostream os(result);
  os << '"';
  os.write_escaped(text);
  os << '"';
  return result;
}

static std::string bits(std::vector<const Record *> records) {
  uint64_t mask = 0;
  for (const Record *record : records)
    mask |= uint64_t(1) << record->getValueAsInt("Value");
  return "0x" + utohexstr(mask, /*LowerCase=*/true);
}

/// "{Path::Native, 120800, "", ""}" for each target.
static void emitTargets(ArrayRef<const Record *> entries, raw_ostream &os) {
  os << "{";
  interleave(
      entries, os,
      [&](const Record *entry) {
        os << "{Path::" << entry->getValueAsDef("How")->getName() << ", "
           << entry->getValueAsInt("CublasLt") << ", "
           << quoted(entry->getValueAsString("Rule")) << ", "
           << quoted(entry->getValueAsString("Nearest")) << "}";
      },
      ",\n    ");
  os << "}";
}

static void emitPair(const Record *pair, raw_ostream &os) {
  auto index = [](const Record *record, StringRef field) {
    return record->getValueAsDef(field)->getValueAsInt("Value");
  };
  os << "  {" << index(pair, "A") << ", " << index(pair, "B") << ", ";
  if (!isProduct(pair)) {
    const Record *nearest = pair->getValueAsDef("Nearest");
    os << quoted(pair->getValueAsString("Rule")) << ", " << index(nearest, "A")
       << ", " << index(nearest, "B")
       << ", 0, 0, 0, false, 1, 1, 1, {}, {}, 0},\n";
    return;
  }
  os << "\"\", " << index(pair, "A") << ", " << index(pair, "B") << ", "
     << bits(pair->getValueAsListOfDefs("Results")) << ", "
     << bits(pair->getValueAsListOfDefs("BiasResults")) << ", "
     << bits(pair->getValueAsListOfDefs("OwnResults")) << ", "
     << (pair->getValueAsBit("FastAccumulation") ? "true" : "false");
  for (StringRef axis : {"M", "N", "K"})
    os << ", " << pair->getValueAsInt(axis);
  os << ",\n   ";
  emitTargets(pair->getValueAsListOfDefs("Machines"), os);
  os << ",\n   ";
  emitTargets(pair->getValueAsListOfDefs("Groups"), os);
  os << ",\n   " << bits(pair->getValueAsListOfDefs("GroupResults")) << "},\n";
}

void emitCpp(const RecordKeeper &records, raw_ostream &os) {
  SupportTable table = SupportTable::read(records);
  os << "//===- SupportRows.inc - generated from TESupport.td by te-tblgen "
        "---------===//\n"
        "// Written by scripts/gen_docs.sh; a test compares it with the .td "
        "file.\n\n"
        "inline constexpr const char *kTargetNames[] = {";
  interleaveComma(table.targets, os,
                  [&](const Record *r) { os << quoted(spelling(r)); });
  os << "};\n\ninline constexpr TypeName kTypeNames[] = {\n";
  for (const Record *type : table.types)
    os << "  {" << type->getValueAsInt("Value") << ", "
       << quoted(spelling(type)) << "},\n";
  os << "};\n\ninline constexpr SchemeRow kSchemes[] = {\n";
  for (const Record *scheme : table.schemes) {
    os << "  {" << quoted(spelling(scheme)) << ", "
       << bits(scheme->getValueAsListOfDefs("Types")) << ", "
       << scheme->getValueAsDef("ScaleType")->getValueAsInt("Value") << ", "
       << scheme->getValueAsInt("Multiple") << ", "
       << scheme->getValueAsInt("GroupAlignment") << ",\n   "
       << quoted(scheme->getValueAsString("NoTranspose")) << ",\n   ";
    emitTargets(scheme->getValueAsListOfDefs("Casts"), os);
    os << "},\n";
  }
  os << "};\n\ninline constexpr ProductRow kProducts[] = {\n";
  for (const Record *pair : table.pairs)
    emitPair(pair, os);
  os << "};\n\ninline constexpr TargetRow kPlainGroups[] =\n   ";
  emitTargets(table.plainGroups->getValueAsListOfDefs("Machines"), os);
  os << ";\ninline constexpr uint32_t kPlainGroupTypes = "
     << bits(table.plainGroups->getValueAsListOfDefs("Types"))
     << ", kPlainGroupResults = "
     << bits(table.plainGroups->getValueAsListOfDefs("Results"))
     << ";\n\ninline constexpr RefusedTypes kRefusedTypes[] = {\n";
  for (const Record *row : table.refusedTypes)
    os << "  {" << row->getValueAsDef("A")->getValueAsInt("Value") << ", "
       << row->getValueAsDef("B")->getValueAsInt("Value") << ", "
       << quoted(row->getValueAsString("Rule")) << ", "
       << row->getValueAsDef("NearestA")->getValueAsInt("Value") << "},\n";
  os << "};\n\ninline constexpr const char *kOverrideNames[] = {";
  interleaveComma(table.overrides, os,
                  [&](const Record *r) { os << quoted(spelling(r)); });
  os << "};\n\ninline constexpr RecipeRow kRecipes[] = {\n";
  for (const Record *recipe : table.recipes) {
    os << "  {" << quoted(spelling(recipe)) << ", "
       << quoted(recipe->getValueAsString("Variant"));
    for (StringRef tensor : {"X", "W", "Dy"})
      os << ", " << recipe->getValueAsDef(tensor)->getValueAsInt("Value");
    os << ", " << (recipe->getValueAsBit("Pow2") ? "true" : "false") << ", "
       << bits(recipe->getValueAsListOfDefs("Overrides")) << ",\n   "
       << quoted(recipe->getValueAsString("OverrideRule")) << "},\n";
  }
  os << "};\n";
}

} // namespace te::tblgen
