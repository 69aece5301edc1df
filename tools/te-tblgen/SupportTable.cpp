//===- SupportTable.cpp - the rows of TESupport.td, checked ---------------===//

#include "SupportTable.h"

#include "llvm/TableGen/Error.h"

#include <map>

using namespace llvm;

namespace te::tblgen {

static int64_t number(const Record *record) {
  return record->getValueAsInt("Value");
}

/// The records of `kind`, by number.
static Rows numbered(const RecordKeeper &records, StringRef kind) {
  Rows rows(records.getAllDerivedDefinitions(kind));
  llvm::sort(rows, [](const Record *a, const Record *b) {
    return number(a) < number(b);
  });
  for (auto [a, b] : llvm::zip(rows, llvm::drop_begin(rows)))
    if (number(a) == number(b))
      PrintFatalError(b, "expected a number that '" + spelling(a) +
                             "' does not have, but got " + Twine(number(b)));
  return rows;
}

/// `list` holds each of `targets` once, in their order.
static void checkTargets(const Record *row, StringRef list,
                         const Rows &targets) {
  auto entries = row->getValueAsListOfDefs(list);
  Rows named;
  for (const Record *entry : entries)
    named.push_back(entry->getValueAsDef("Machine"));
  if (named != targets)
    PrintFatalError(row, "expected '" + list +
                             "' to name every target once, in their order");
  for (const Record *entry : entries) {
    StringRef how = entry->getValueAsDef("How")->getName();
    bool conditional =
        how == "Never" || how == "Emulated" || how == "ThroughMX";
    if (conditional != !entry->getValueAsString("Rule").empty() ||
        conditional != !entry->getValueAsString("Nearest").empty())
      PrintFatalError(row, "expected a rule and a nearest choice exactly where "
                           "'" +
                               spelling(entry->getValueAsDef("Machine")) +
                               "' asks for something");
  }
}

SupportTable SupportTable::read(const RecordKeeper &records) {
  SupportTable table;
  table.schemes = numbered(records, "Scheme");
  table.targets = numbered(records, "Target");
  table.overrides = numbered(records, "Override");
  table.types = numbered(records, "ElementType");
  table.paths = numbered(records, "Path");
  for (const Rows *rows :
       {&table.schemes, &table.targets, &table.overrides, &table.paths})
    for (auto [i, row] : llvm::enumerate(*rows))
      if (number(row) != static_cast<int64_t>(i))
        PrintFatalError(row, "expected numbers from 0 without gaps, but got " +
                                 Twine(number(row)) + " in place " + Twine(i));
  for (const Record *scheme : table.schemes)
    checkTargets(scheme, "Casts", table.targets);

  std::map<std::pair<int64_t, int64_t>, const Record *> decided;
  for (StringRef kind : {"Product", "NoProduct"})
    for (const Record *pair : records.getAllDerivedDefinitions(kind)) {
      auto [entry, isNew] = decided.try_emplace(
          {number(pair->getValueAsDef("A")), number(pair->getValueAsDef("B"))},
          pair);
      if (!isNew)
        PrintFatalError(pair, "expected one row for " + describePair(pair) +
                                  ", but got two");
      if (!isProduct(pair))
        continue;
      checkTargets(pair, "Machines", table.targets);
      checkTargets(pair, "Groups", table.targets);
      bool own = llvm::any_of(
          pair->getValueAsListOfDefs("Machines"), [](const Record *entry) {
            return entry->getValueAsDef("How")->getName() == "OwnKernel";
          });
      if (own == pair->getValueAsListOfDefs("OwnResults").empty())
        PrintFatalError(pair, "expected 'OwnResults' exactly where a target "
                              "has an own kernel");
    }
  for (const Record *a : table.schemes)
    for (const Record *b : table.schemes) {
      auto entry = decided.find({number(a), number(b)});
      if (entry == decided.end())
        PrintFatalError("expected a row for '" + spelling(a) + "' and '" +
                        spelling(b) + "', but got none");
      table.pairs.push_back(entry->second);
    }
  auto plain = records.getAllDerivedDefinitions("PlainGroups");
  if (plain.size() != 1)
    PrintFatalError("expected one row of groups in high precision, but got " +
                    Twine(plain.size()));
  table.plainGroups = plain.front();
  checkTargets(table.plainGroups, "Machines", table.targets);
  table.refusedTypes = Rows(records.getAllDerivedDefinitions("NoTypes"));
  table.recipes = Rows(records.getAllDerivedDefinitions("Recipe"));
  // As written: anonymous records are otherwise sorted as text.
  llvm::sort(table.recipes, [](const Record *a, const Record *b) {
    return a->getID() < b->getID();
  });
  return table;
}

std::string describePair(const Record *pair) {
  return ("'" + spelling(pair->getValueAsDef("A")) + "' and '" +
          spelling(pair->getValueAsDef("B")) + "'")
      .str();
}

std::string cublasLtText(int64_t version) {
  if (version == 0)
    return "";
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100);
}

} // namespace te::tblgen
