// The subcommand ls: lists the tensors of files, selected by patterns and sorted.
#include "arguments.h"
#include "base/glob.h"
#include "command.h"
#include "each_file.h"
#include "escape.h"
#include "formatted.h"
#include "json_output.h"
#include "natural_order.h"
#include "open_file.h"
#include "size.h"
#include "table.h"

#include <algorithm>
#include <map>

namespace safetensors::cli {
namespace {

constexpr const char kLsHelp[] = R"(List the tensors of files.

usage: safetensors ls FILE... [--match GLOB]... [--sort KEY] [--reverse]
                      [--json]

Reads headers only. Control, bidirectional and invisible characters in names are
escaped. --json gives the exact names.

  -m, --match GLOB   list names that match: * any text, ? one character,
                     [a-z] one of a set; may be given several times
  -s, --sort KEY     name    natural order, layer.2 before layer.10 (default)
                     offset  order of the bytes in the file
                     size    largest first
                     dtype   by dtype, then name
                     shape   by dimensions, then name
  -r, --reverse      reverse the order
      --json         one JSON document, schema safetensors.ls/1
  -h, --help         this text

BEGIN and END count bytes from the start of the data. FILE OFFSET counts bytes
from the start of the file.

examples:
  safetensors ls model.safetensors
  safetensors ls model.safetensors --match 'h.[0-5].*' --match '*.bias'
  safetensors ls *.safetensors --sort size --json

exit: 0 listed; 1 a file is invalid, or nothing in it matches; 2 usage;
      3 a file cannot be read
)";

using Less = bool (*)(const TensorInfo&, const TensorInfo&);

bool less_by_name(const TensorInfo& a, const TensorInfo& b) {
  return natural_less(a.name, b.name);
}

// The orders by their names for --sort. nullptr: by offset, which is the order of a Header.
const std::map<std::string_view, Less>& orders() {
  static const std::map<std::string_view, Less> kOrders = {
      {"name", less_by_name},
      {"offset", nullptr},
      {"size",
       [](const TensorInfo& a, const TensorInfo& b) {
         return a.nbytes() != b.nbytes() ? a.nbytes() > b.nbytes() : less_by_name(a, b);
       }},
      {"dtype",
       [](const TensorInfo& a, const TensorInfo& b) {
         return a.dtype != b.dtype ? to_string(a.dtype) < to_string(b.dtype) : less_by_name(a, b);
       }},
      {"shape",
       [](const TensorInfo& a, const TensorInfo& b) {
         if (std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end())) return less_by_name(a, b);
         return std::lexicographical_compare(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end());
       }},
  };
  return kOrders;
}

struct LsOptions {
  std::vector<std::string> files;
  std::vector<std::string> globs;
  Less less = less_by_name;
  bool reverse = false;
  bool json = false;
};

struct LsTotals {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};

// Whether a pattern matches the name, or there are no patterns.
bool selected(const std::vector<std::string>& globs, std::string_view name) {
  return globs.empty() ||
         std::ranges::any_of(globs, [&](const std::string& glob) { return base::glob_match(glob, name); });
}

std::vector<const TensorInfo*> select(const Header& header, const LsOptions& options) {
  std::vector<const TensorInfo*> list;
  for (const TensorInfo& tensor : header.tensors()) {
    if (selected(options.globs, tensor.name)) list.push_back(&tensor);
  }
  if (options.less != nullptr) {
    std::stable_sort(list.begin(), list.end(),
                     [&](const TensorInfo* a, const TensorInfo* b) { return options.less(*a, *b); });
  }
  if (options.reverse) std::reverse(list.begin(), list.end());
  return list;
}

LsTotals total(const std::vector<const TensorInfo*>& list) {
  LsTotals totals;
  for (const TensorInfo* tensor : list) {
    ++totals.tensors;
    totals.parameters += parameters(*tensor);
    totals.bytes += tensor->nbytes();
  }
  return totals;
}

void print_text(Console& console, const std::vector<const TensorInfo*>& list) {
  using Align = Table::Align;
  using Narrow = Table::Narrow;
  Table table({{"NAME", Align::left, Narrow::shorten},
               {"DTYPE"},
               {"SHAPE", Align::left, Narrow::shorten},
               {"SIZE", Align::right},
               {"BEGIN", Align::right, Narrow::hide},
               {"END", Align::right, Narrow::hide},
               {"FILE OFFSET", Align::right, Narrow::hide}});
  for (const TensorInfo* tensor : list) {
    table.row({printable(tensor->name), std::string(to_string(tensor->dtype)), shape_text(tensor->shape),
               size_text(tensor->nbytes()), std::to_string(tensor->begin), std::to_string(tensor->end),
               std::to_string(tensor->file_offset)});
  }
  table.print(console);
  const LsTotals totals = total(list);
  console.out(formatted("{}, {}, {}\n", counted(totals.tensors, "tensor"), counted(totals.parameters, "parameter"),
                        size_text(totals.bytes)));
}

void print_json(Json& json, const Header& header, const std::vector<const TensorInfo*>& list) {
  const LsTotals totals = total(list);
  json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
  json.field("tensor_count", totals.tensors)
      .field("parameters", totals.parameters)
      .field("nbytes", totals.bytes)
      .key("tensors")
      .open('[');
  for (const TensorInfo* tensor : list) {
    json.line().open('{').field("name", tensor->name).field("dtype", to_string(tensor->dtype));
    json.field("shape", tensor->shape).field("nbytes", tensor->nbytes());
    json.key("data_offsets").open('[').number(tensor->begin).number(tensor->end).close(']');
    json.field("file_offset", tensor->file_offset).close('}');
  }
  json.close(']');
}

Exit list_file(const std::string& path, const LsOptions& options, Console& console, Json* json) {
  const Result<File> file = open_file(path, console);
  Exit code = Exit::good;
  if (!file) {
    if (json != nullptr) json->error(file.error());
    code = console.error(path, file.error());
  } else {
    const Header& header = file->header();
    const std::vector<const TensorInfo*> list = select(header, options);
    if (json != nullptr) {
      print_json(*json, header, list);
    } else {
      if (options.files.size() > 1) console.heading(formatted("{}:", printable(path)));
      print_text(console, list);
    }
    if (list.empty() && !options.globs.empty()) {
      console.message(formatted("{}: no tensor's name matches", printable(path)));
      code = Exit::negative;
    }
  }
  return code;
}

Exit run_ls(std::span<const std::string> given, Console& console) {
  LsOptions options;
  std::optional<std::string> sort;
  Arguments arguments;
  arguments.positionals(options.files);
  arguments.values("-m,--match", options.globs);
  arguments.value("-s,--sort", sort);
  arguments.flag("-r,--reverse", options.reverse);
  arguments.flag("--json", options.json);
  if (const auto wrong = arguments.parse(given)) return console.usage("ls", *wrong);
  if (options.files.empty()) return console.usage("ls", "which FILE?");
  if (sort) {
    const auto order = orders().find(*sort);
    if (order == orders().end()) {
      return console.usage("ls", formatted("--sort is name, offset, size, dtype or shape, not {}", printable(*sort)));
    }
    options.less = order->second;
  }
  return for_each_file("ls", options.files, options.json, console,
                       [&](const std::string& path, Json* json) { return list_file(path, options, console, json); });
}

}  // namespace

const Command kLs = {"ls", "list tensors: names, dtypes, shapes, sizes, offsets", kLsHelp, run_ls};

}  // namespace safetensors::cli
