//===- EmitDocs.cpp - the support table as a page and as JSON -------------===//

#include "SupportTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace te::tblgen {

static std::string code(StringRef text) { return ("`" + text + "`").str(); }

static std::string spellings(std::vector<const Record *> records) {
  std::string text;
  for (const Record *record : records)
    text += (text.empty() ? "" : " ") + code(spelling(record));
  return text;
}

static std::string pathText(const Record *entry) {
  std::string text =
      entry->getValueAsDef("How")->getValueAsString("Name").str();
  if (int64_t version = entry->getValueAsInt("CublasLt"))
    text += ", cuBLASLt " + cublasLtText(version);
  return text;
}

static void row(raw_ostream &os, ArrayRef<std::string> cells) {
  os << "|";
  for (const std::string &cell : cells)
    os << " " << (cell.empty() ? "-" : cell) << " |";
  os << "\n";
}

static void header(raw_ostream &os, SmallVector<std::string> cells) {
  row(os, cells);
  os << "|";
  for (size_t i = 0; i < cells.size(); ++i)
    os << "---|";
  os << "\n";
}

/// `before`, a column for each target, `after`.
static SmallVector<std::string> withTargets(SmallVector<std::string> before,
                                            const SupportTable &table,
                                            ArrayRef<std::string> after = {}) {
  for (const Record *target : table.targets)
    before.push_back(spelling(target).str());
  before.append(after.begin(), after.end());
  return before;
}

/// The row that decides a product of two schemes.
static const Record *findPair(const SupportTable &table, const Record *a,
                              const Record *b) {
  return table.pairs[a->getValueAsInt("Value") * table.schemes.size() +
                     b->getValueAsInt("Value")];
}

/// What the products of fprop, dgrad and wgrad need on target `i`, each once.
static std::string recipePath(const SupportTable &table, const Record *recipe,
                              size_t i) {
  auto def = [&](StringRef name) { return recipe->getValueAsDef(name); };
  SmallVector<std::string> texts;
  for (const Record *pair : {findPair(table, def("X"), def("W")),
                             findPair(table, def("Dy"), def("W")),
                             findPair(table, def("Dy"), def("X"))}) {
    std::string text = isProduct(pair)
                           ? pathText(pair->getValueAsListOfDefs("Machines")[i])
                           : "no";
    if (!is_contained(texts, text))
      texts.push_back(text);
  }
  return join(texts, "; ");
}

static void emitProducts(const SupportTable &table, raw_ostream &os) {
  os << "\n## GEMMs\n\n"
        "`te.scaled_matmul` by the schemes of `a` and `b`. The sizes are "
        "multiples of the given numbers: rows and columns of\nthe result, "
        "contracted size. A bias can be added where the result is one of the "
        "types in the last column.\n\n";
  header(os, withTargets({"a", "b"}, table,
                         {"rows, columns, contracted", "fast accumulation",
                          "results", "with bias"}));
  for (const Record *pair : table.pairs) {
    if (!isProduct(pair))
      continue;
    SmallVector<std::string> cells = {code(spelling(pair->getValueAsDef("A"))),
                                      code(spelling(pair->getValueAsDef("B")))};
    for (const Record *entry : pair->getValueAsListOfDefs("Machines"))
      cells.push_back(pathText(entry));
    cells.push_back(formatv("{0}, {1}, {2}", pair->getValueAsInt("M"),
                            pair->getValueAsInt("N"),
                            pair->getValueAsInt("K")));
    cells.push_back(pair->getValueAsBit("FastAccumulation") ? "yes" : "no");
    cells.push_back(spellings(pair->getValueAsListOfDefs("Results")));
    cells.push_back(spellings(pair->getValueAsListOfDefs("BiasResults")));
    row(os, cells);
  }
  os << "\nElement types that are refused whatever the schemes:\n\n";
  header(os, {"a", "b", "why", "use for a"});
  for (const Record *refused : table.refusedTypes)
    row(os, {code(spelling(refused->getValueAsDef("A"))),
             code(spelling(refused->getValueAsDef("B"))),
             refused->getValueAsString("Rule").str(),
             code(spelling(refused->getValueAsDef("NearestA")))});
  os << "\nPairs that no target multiplies:\n\n";
  header(os, {"a", "b", "why", "nearest"});
  for (const Record *pair : table.pairs) {
    if (isProduct(pair))
      continue;
    const Record *nearest = pair->getValueAsDef("Nearest");
    row(os, {code(spelling(pair->getValueAsDef("A"))),
             code(spelling(pair->getValueAsDef("B"))),
             pair->getValueAsString("Rule").str(),
             code(spelling(nearest->getValueAsDef("A"))) + " by " +
                 code(spelling(nearest->getValueAsDef("B")))});
  }
}

static void emitGroups(const SupportTable &table, raw_ostream &os) {
  os << "\n## Groups of rows\n\n"
        "`te.grouped_linear` and its gradients. An own kernel reads and writes "
        "the types of its row.\n\n";
  header(os, withTargets({"a", "b"}, table, {"results"}));
  auto machines = [&](const Record *row, StringRef list,
                      SmallVector<std::string> cells, std::string results) {
    for (const Record *entry : row->getValueAsListOfDefs(list)) {
      std::string rule = entry->getValueAsString("Rule").str();
      cells.push_back(pathText(entry) + (rule.empty() ? "" : ": " + rule));
    }
    cells.push_back(results);
    te::tblgen::row(os, cells);
  };
  machines(table.plainGroups, "Machines",
           {spellings(table.plainGroups->getValueAsListOfDefs("Types")), ""},
           spellings(table.plainGroups->getValueAsListOfDefs("Results")));
  for (const Record *pair : table.pairs)
    if (isProduct(pair))
      machines(pair, "Groups",
               {code(spelling(pair->getValueAsDef("A"))),
                code(spelling(pair->getValueAsDef("B")))},
               spellings(pair->getValueAsListOfDefs("GroupResults")));
}

static void emitSchemes(const SupportTable &table, raw_ostream &os) {
  os << "\n## Casts\n\n"
        "`te.quantize` and `te.dequantize` by scheme, and whether "
        "`te.transpose` can derive the second usage from the first.\n\n";
  header(os, withTargets({"scheme", "elements", "scales", "sizes, multiples of",
                          "group alignment"},
                         table, {"transpose"}));
  for (const Record *scheme : table.schemes) {
    SmallVector<std::string> cells = {
        code(spelling(scheme)),
        spellings(scheme->getValueAsListOfDefs("Types")),
        code(spelling(scheme->getValueAsDef("ScaleType"))),
        std::to_string(scheme->getValueAsInt("Multiple")),
        std::to_string(scheme->getValueAsInt("GroupAlignment"))};
    for (const Record *entry : scheme->getValueAsListOfDefs("Casts"))
      cells.push_back(pathText(entry));
    StringRef why = scheme->getValueAsString("NoTranspose");
    cells.push_back(why.empty() ? "exact" : ("no: " + why).str());
    row(os, cells);
  }
}

static void emitRecipes(const SupportTable &table, raw_ostream &os) {
  os << "\n## Recipes\n\n"
        "Under default options; other block dimensions are other pairs of the "
        "first table, and every GEMM of a `custom`\nrecipe is one of its "
        "rows. The columns `none`, `high_precision` and `dequantized` are the "
        "backward overrides.\n\n";
  SmallVector<std::string> columns = {"recipe", "x, w, dy"};
  for (const Record *mode : table.overrides)
    columns.push_back(spelling(mode).str());
  header(os, withTargets(columns, table));
  for (const Record *recipe : table.recipes) {
    std::string name = code(spelling(recipe));
    if (StringRef variant = recipe->getValueAsString("Variant");
        !variant.empty())
      name += " with " + code(variant);
    SmallVector<std::string> cells = {
        name, spellings({recipe->getValueAsDef("X"), recipe->getValueAsDef("W"),
                         recipe->getValueAsDef("Dy")})};
    auto allowed = recipe->getValueAsListOfDefs("Overrides");
    for (const Record *mode : table.overrides)
      cells.push_back(
          is_contained(allowed, mode)
              ? "yes"
              : ("no: " + recipe->getValueAsString("OverrideRule")).str());
    for (size_t i = 0; i < table.targets.size(); ++i)
      cells.push_back(recipePath(table, recipe, i));
    row(os, cells);
  }
}

void emitMarkdown(const RecordKeeper &records, raw_ostream &os) {
  SupportTable table = SupportTable::read(records);
  os << "# What runs where\n\n"
        "Written by `te-tblgen` from `include/TEDialect/Support/TESupport.td`; "
        "verifiers, the policy of the quantise phase and\nthe runtime read the "
        "same rows. [`support.json`](support.json) is this page for programs. "
        "What was measured, and where, is\nin "
        "[Performance](../performance/tables.md): "
        "no row of sm_100 has been run.\n\n";
  header(os, {"entry", "meaning"});
  for (const Record *path : table.paths)
    row(os, {path->getValueAsString("Name").str(),
             path->getValueAsString("Meaning").str()});
  os << "\n\"cuBLASLt 12.9\" is the oldest library that has the mode.\n";
  emitProducts(table, os);
  emitGroups(table, os);
  emitSchemes(table, os);
  emitRecipes(table, os);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Array names(std::vector<const Record *> records) {
  json::Array array;
  for (const Record *record : records)
    array.push_back(spelling(record));
  return array;
}

static json::Object machines(std::vector<const Record *> entries) {
  json::Object object;
  for (const Record *entry : entries) {
    json::Object machine{
        {"how", entry->getValueAsDef("How")->getValueAsString("Name")}};
    if (int64_t version = entry->getValueAsInt("CublasLt"))
      machine["cublaslt"] = cublasLtText(version);
    for (auto [key, field] :
         {std::pair<const char *, const char *>{"rule", "Rule"},
          {"nearest", "Nearest"}})
      if (!entry->getValueAsString(field).empty())
        machine[key] = entry->getValueAsString(field);
    object[spelling(entry->getValueAsDef("Machine"))] = std::move(machine);
  }
  return object;
}

static json::Object pairJson(const Record *pair) {
  json::Object object{{"a", spelling(pair->getValueAsDef("A"))},
                      {"b", spelling(pair->getValueAsDef("B"))},
                      {"supported", isProduct(pair)}};
  if (!isProduct(pair)) {
    const Record *nearest = pair->getValueAsDef("Nearest");
    object["rule"] = pair->getValueAsString("Rule");
    object["nearest"] =
        names({nearest->getValueAsDef("A"), nearest->getValueAsDef("B")});
    return object;
  }
  object["targets"] = machines(pair->getValueAsListOfDefs("Machines"));
  object["groups"] = machines(pair->getValueAsListOfDefs("Groups"));
  object["results_of_groups"] =
      names(pair->getValueAsListOfDefs("GroupResults"));
  object["results"] = names(pair->getValueAsListOfDefs("Results"));
  object["results_with_bias"] =
      names(pair->getValueAsListOfDefs("BiasResults"));
  object["fast_accumulation"] = pair->getValueAsBit("FastAccumulation");
  object["multiples"] = json::Object{{"rows", pair->getValueAsInt("M")},
                                     {"columns", pair->getValueAsInt("N")},
                                     {"contracted", pair->getValueAsInt("K")}};
  return object;
}

void emitJson(const RecordKeeper &records, raw_ostream &os) {
  SupportTable table = SupportTable::read(records);
  json::Array schemes, products, refused, recipes;
  for (const Record *scheme : table.schemes)
    schemes.push_back(json::Object{
        {"scheme", spelling(scheme)},
        {"types", names(scheme->getValueAsListOfDefs("Types"))},
        {"scale_type", spelling(scheme->getValueAsDef("ScaleType"))},
        {"multiple", scheme->getValueAsInt("Multiple")},
        {"group_alignment", scheme->getValueAsInt("GroupAlignment")},
        {"exact_transpose", scheme->getValueAsString("NoTranspose").empty()},
        {"targets", machines(scheme->getValueAsListOfDefs("Casts"))}});
  for (const Record *pair : table.pairs)
    products.push_back(pairJson(pair));
  for (const Record *types : table.refusedTypes)
    refused.push_back(json::Object{{"a", spelling(types->getValueAsDef("A"))},
                                   {"b", spelling(types->getValueAsDef("B"))},
                                   {"rule", types->getValueAsString("Rule")}});
  for (const Record *recipe : table.recipes) {
    json::Object object{{"recipe", spelling(recipe)},
                        {"x", spelling(recipe->getValueAsDef("X"))},
                        {"w", spelling(recipe->getValueAsDef("W"))},
                        {"dy", spelling(recipe->getValueAsDef("Dy"))},
                        {"backward_override",
                         names(recipe->getValueAsListOfDefs("Overrides"))}};
    if (!recipe->getValueAsString("Variant").empty())
      object["variant"] = recipe->getValueAsString("Variant");
    recipes.push_back(std::move(object));
  }
  os << formatv(
      "{0:2}\n",
      json::Value(json::Object{
          {"schemes", std::move(schemes)},
          {"products", std::move(products)},
          {"groups_in_high_precision",
           machines(table.plainGroups->getValueAsListOfDefs("Machines"))},
          {"refused_types", std::move(refused)},
          {"recipes", std::move(recipes)}}));
}

} // namespace te::tblgen
