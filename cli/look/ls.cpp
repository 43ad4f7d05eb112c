// The subcommand ls: lists the tensors of files, selected by patterns and sorted.
#include "arguments.h"
#include "command.h"
#include "folders.h"
#include "input.h"
#include "json_output.h"
#include "module_tree.h"
#include "rows.h"
#include "selection.h"
#include "text/text.h"

#include <algorithm>
#include <map>
#include <span>

namespace safetensors::cli {
namespace {

// Each column is a row of one table: its name, its heading and the function that makes a cell.

// A tensor in the list.
struct ListRow {
  const TensorInfo& tensor;
  const Input& input;
  std::size_t file;           // index in input.files()
  std::uint64_t total_bytes;  // of all tensors in the list
};

struct ListColumn {
  std::string_view name;  // for --columns
  const char* key;        // in JSON, or nullptr
  const char* heading;
  Table::Align align;
  Table::Narrow narrow;
  Cell (*cell)(const ListRow& row);
};

// A number whose digits are not grouped.
Cell plain(std::uint64_t number) {
  return Cell(number).shown(std::to_string(number));
}

constexpr ListColumn kColumns[] = {
    {"name", "name", "NAME", kLeft, Table::Narrow::name, [](const ListRow& row) { return Cell(row.tensor.name); }},
    {"dtype", "dtype", "DTYPE", kLeft, kKeep,
     [](const ListRow& row) { return Cell(row.input.files()[row.file].header().dtype_name(row.tensor)); }},
    {"shape", "shape", "SHAPE", kLeft, kKeep, [](const ListRow& row) { return Cell(ShapeView(row.tensor.shape)); }},
    {"rank", nullptr, "RANK", kRight, kHide, [](const ListRow& row) { return plain(row.tensor.shape.size()); }},
    {"parameters", nullptr, "PARAMETERS", kRight, kHide,
     [](const ListRow& row) { return Cell(parameters(row.tensor)); }},
    {"size", nullptr, "SIZE", kRight, kKeep, [](const ListRow& row) { return Cell::bytes(row.tensor.nbytes()); }},
    {"bytes", "nbytes", "BYTES", kRight, kHide, [](const ListRow& row) { return Cell(row.tensor.nbytes()); }},
    {"share", nullptr, "SHARE", kRight, kHide,
     [](const ListRow& row) { return Cell().shown(share_text(row.tensor.nbytes(), row.total_bytes)); }},
    {"begin", nullptr, "BEGIN", kRight, kHide, [](const ListRow& row) { return plain(row.tensor.begin); }},
    {"end", nullptr, "END", kRight, kHide, [](const ListRow& row) { return plain(row.tensor.end); }},
    {"offset", "file_offset", "FILE OFFSET", kRight, kHide,
     [](const ListRow& row) { return plain(row.tensor.file_offset); }},
    {"alignment", nullptr, "ALIGNMENT", kRight, kHide,
     [](const ListRow& row) { return plain(alignment_of(row.tensor.file_offset)); }},
    {"file", "file", "FILE", kLeft, kHide,
     [](const ListRow& row) {
       const std::string name = row.input.file_name(row.file);
       return Cell(row.file).shown(printable(name.empty() ? shown_path(std::string(kStandardInput)) : name));
     }},
};

// Only in JSON.
constexpr ListColumn kOffsets = {
    "",      "data_offsets",
    nullptr, kLeft,
    kKeep,   [](const ListRow& row) {
                                   return Cell::raw(formatted("[{}, {}]", row.tensor.begin, row.tensor.end)); }};

const ListColumn* find_column(std::string_view name) {
  const auto* const found = std::ranges::find(kColumns, name, &ListColumn::name);
  return found == std::end(kColumns) ? nullptr : found;
}

// Finds the columns of a list of names such as "name,size". Throws UsageError.
std::vector<const ListColumn*> parse_columns(std::string_view list) {
  std::vector<const ListColumn*> columns;
  std::string known;
  for (const ListColumn& column : kColumns) (known += known.empty() ? "" : ", ") += column.name;
  for (const std::string_view name : split(list, ',')) {
    const ListColumn* const column = find_column(name);
    if (column == nullptr)
      throw UsageError(formatted("--columns: unknown column `{}` (known: {})", printable(name), known));
    if (std::ranges::find(columns, column) != columns.end())
      throw UsageError(formatted("--columns: {} is given more than once", name));
    columns.push_back(column);
  }
  return columns;
}

// The columns without --columns. several: whether the tensors may be in several files.
std::vector<const ListColumn*> default_columns(bool several, bool wide, bool json) {
  if (json) {
    std::vector<const ListColumn*> columns =
        parse_columns(several ? "name,dtype,shape,bytes,offset,file" : "name,dtype,shape,bytes,offset");
    columns.insert(columns.begin() + 4, &kOffsets);
    return columns;
  }
  static constexpr std::string_view kShort = "name,dtype,shape,size,begin,end,offset";
  static constexpr std::string_view kLong = "name,dtype,shape,parameters,size,share,begin,end,offset,alignment";
  std::vector<const ListColumn*> columns = parse_columns(wide ? kLong : kShort);
  if (several) columns.push_back(find_column("file"));
  return columns;
}

constexpr const char kLsDescription[] =
    R"(A PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input, which may end after the header. Reads headers
only. Control, bidirectional and invisible characters in names are escaped.
--json gives the exact names. The heading and the totals are for a terminal: in
a pipe or a file there are only rows.)";

constexpr Option kLsTable[] = {
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kLayersOption,
    {"-s,--sort", "KEY",
     "name    natural order, layer.2 before layer.10 (default)\n"
     "offset  order of the files and of their bytes\n"
     "size    largest first\n"
     "dtype   by dtype, then name\n"
     "shape   by dimensions, then name",
     "name|offset|size|dtype|shape"},
    {"-r,--reverse", nullptr, "reverse the order"},
    {"--top", "N", "show only the first N lines of each list"},
    {"-t,--tree", nullptr,
     "group tensors by module: the parts of names between\n"
     "dots. Modules with the same content are one line, such\n"
     "as layers.{0..31}. --sort is then name or size"},
    {"-c,--columns", "LIST",
     "show these columns in this order: name, dtype, shape,\n"
     "rank, parameters, size, bytes, share, begin, end,\n"
     "offset, alignment, file; commas between them"},
    {"-l,--long", nullptr, "show parameters, share and alignment, too"},
    {"-1,--names", nullptr, "print names alone, one per line"},
    kAcceptOption,
    kRecursiveOption,
    kJsonOption,
};

constexpr Apart kLsApart[] = {
    {"top", "tree|json"},
    {"columns|long", "tree|json"},
    {"columns", "long"},
    {"names", "tree|json|columns|long"},
};

constexpr const char kLsDetails[] = R"(BEGIN and END count bytes from the start of the data. FILE OFFSET counts bytes
from the start of the file. FILE is the file of a tensor, if there are several.
ALIGNMENT is the largest power of two up to 65536 that divides FILE OFFSET.)";

constexpr const char* kLsExamples[] = {
    "safetensors ls model.safetensors",
    "safetensors ls llama-7b/ --match '*.k_proj.*'",
    "safetensors ls llama-7b/ --layers 0-3,31 --dtype f32",
    "safetensors ls llama-7b/ --tree --sort size",
    "safetensors ls llama-7b/ --sort size --top 10",
    "safetensors ls llama-7b/ -1 | grep norm",
    "safetensors ls model.safetensors --match 'h.[0-5].*' --match '*.bias'",
    "safetensors ls llama-7b/ --columns size,name,file --sort size",
    "safetensors ls *.safetensors --sort size --json",
    "curl -s -r 0-9999999 https://example.org/model.safetensors | safetensors ls -",
};

using Less = bool (*)(const TensorInfo&, const TensorInfo&);
using List = std::vector<Listed>;

bool less_by_name(const TensorInfo& a, const TensorInfo& b) {
  return natural_less(a.name, b.name);
}

// The orders by their names for --sort. nullptr: by offset, which is the order of Input::tensors().
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
  std::vector<std::string> paths;
  Selection names;
  std::string sort;
  Less less = less_by_name;
  bool reverse = false;
  std::optional<std::uint64_t> top;
  bool tree = false;
  std::vector<const ListColumn*> columns;  // empty: the default
  bool wide = false;
  bool names_only = false;
  bool json = false;
  ParseOptions parse = {};
};

struct LsTotals {
  std::uint64_t files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;

  void add(const LsTotals& other) {
    files += other.files;
    tensors += other.tensors;
    parameters += other.parameters;
    bytes += other.bytes;
  }
  [[nodiscard]] std::string text() const {
    const std::string in_files = files < 2 ? "" : formatted(" in {}", counted(files, "file"));
    return formatted("{}, {}, {}{}\n", counted(tensors, "tensor"), counted(parameters, "parameter"), size_text(bytes),
                     in_files);
  }
};

List select(const Input& input, const LsOptions& options) {
  List list = input.tensors();
  std::erase_if(list, [&](const Listed& listed) { return !options.names.selects(*listed.info); });
  if (options.less != nullptr) {
    std::stable_sort(list.begin(), list.end(),
                     [&](const Listed& a, const Listed& b) { return options.less(*a.info, *b.info); });
  }
  if (options.reverse) std::reverse(list.begin(), list.end());
  return list;
}

LsTotals total(const Input& input, const List& list) {
  LsTotals totals;
  std::vector<bool> holds(input.files().size());
  for (const auto& [info, file] : list) {
    holds[file] = true;
    ++totals.tensors;
    totals.parameters += parameters(*info);
    totals.bytes += info->nbytes();
  }
  totals.files = static_cast<std::uint64_t>(std::ranges::count(holds, true));
  return totals;
}

// Whether the list gets a heading and totals, for people. Programs want rows alone.
bool has_totals(const Console& console, const LsOptions& options) {
  return console.out_is_terminal() && !options.names_only;
}

void print_totals_json(Json& json, const Input& input, const LsTotals& totals) {
  if (input.is_file()) {
    const Header& header = input.files()[0].header();
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    json_missing(json, input);
    json_tolerated(json, header);
  } else {
    json_files(json, input);
  }
  json.field("tensor_count", totals.tensors).field("parameters", totals.parameters).field("nbytes", totals.bytes);
}

// In a pipe, each row of several paths begins with its path, as grep prints it. Otherwise, the paths are headings.
bool has_path_in_rows(const Console& console, const LsOptions& options) {
  return options.paths.size() > 1 && !options.names_only && !options.tree && !console.out_is_terminal();
}

void print_list(Console& console, Json* json, const std::string& path, const Input& input, const List& list,
                const LsOptions& options) {
  const LsTotals totals = total(input, list);
  if (json != nullptr) print_totals_json(*json, input, totals);
  const std::vector<const ListColumn*> shown =
      options.columns.empty() ? default_columns(!input.is_file(), options.wide, json != nullptr) : options.columns;
  std::vector<Rows::Column> columns;
  for (const ListColumn* column : shown) {
    const bool sorted = column->name == options.sort && column->narrow != Table::Narrow::name;
    columns.push_back({column->key, column->heading, column->align, sorted ? kKeep : column->narrow});
  }
  const std::string before = has_path_in_rows(console, options) ? printable(path) + "  " : "";
  Rows rows(console, json, "tensors", std::move(columns), before);
  const std::size_t count = std::min<std::uint64_t>(list.size(), options.top.value_or(list.size()));
  std::vector<Cell> cells;
  for (const auto& [info, file] : std::span(list).first(count)) {
    cells.clear();
    for (const ListColumn* column : shown) cells.push_back(column->cell({*info, input, file, totals.bytes}));
    rows.row(cells);
  }
  const bool whole = has_totals(console, options);
  rows.finish(whole);
  if (json != nullptr || !whole) return;
  if (count < list.size()) console.out(formatted("... and {}\n", counted(list.size() - count, "more tensor")));
  console.out(totals.text());
}

void print_tree(const Input& input, const List& list, const LsOptions& options, Console& console, Json* json) {
  const LsTotals totals = total(input, list);
  std::vector<const TensorInfo*> tensors;
  tensors.reserve(list.size());
  for (const Listed& listed : list) tensors.push_back(listed.info);
  const std::vector<ModuleNode> modules = make_module_tree(tensors, options.sort == "size");
  if (json == nullptr) {
    cli::print_tree(console, modules, totals.bytes, has_totals(console, options));
    if (has_totals(console, options)) console.out(totals.text());
    return;
  }
  print_totals_json(*json, input, totals);
  cli::print_tree(json->key("modules"), modules);
}

Exit list_path(const std::string& path, const LsOptions& options, LsTotals& totals, Console& console, Json* json) {
  const Result<Input> input = Input::open(path, console, options.parse, PipeData::part);
  if (!input) {
    const Error& error = input.error();
    if (json != nullptr) json_input_error(*json, path, error);
    return input_error(path, error, console);
  }
  const List list = select(*input, options);
  totals.add(total(*input, list));
  if (json == nullptr && options.paths.size() > 1 && !options.names_only && !has_path_in_rows(console, options))
    console.heading(formatted("{}:", printable(shown_path(path))));
  if (options.tree) {
    print_tree(*input, list, options, console, json);
  } else {
    print_list(console, json, shown_path(path), *input, list, options);
  }
  std::uint64_t bytes = 0;
  for (const File& file : input->files()) bytes += file.header().data_bytes();
  if (const std::string_view what = emptiness(infos(*input).size(), bytes); !what.empty())
    console.message(formatted("{}: notice: holds {}", printable(shown_path(path)), what));
  if (!list.empty() || options.names.empty()) return Exit::good;
  console.message(formatted("{}: {}", printable(shown_path(path)), options.names.nothing(infos(*input))));
  return Exit::negative;
}

Exit run_ls(const Arguments& given, Console& console) {
  given.need_path(true);
  LsOptions options;
  options.names = Selection(given);
  options.sort = given.value("sort").value_or("name");
  options.tree = given.has("tree");
  options.reverse = given.has("reverse");
  options.less = orders().at(options.sort);
  if (options.tree && (options.reverse || (options.sort != "name" && options.sort != "size")))
    throw UsageError("--tree goes with --sort name or size, and not with --reverse");
  if (options.tree) options.less = less_by_name;
  options.top = given.number("top");
  options.wide = given.has("long");
  options.names_only = given.has("names");
  options.json = given.json();
  options.parse.accept = accept_of(given);
  const auto columns = options.names_only ? "name" : given.value("columns");
  if (columns) options.columns = parse_columns(*columns);
  options.paths = expand_folders(given.positionals, given.has("recursive"));
  LsTotals totals;
  const Exit code = for_each_file("ls", options.paths, options.json, console, [&](const std::string& path, Json* json) {
    return list_path(path, options, totals, console, json);
  });
  if (!options.json && options.paths.size() > 1 && has_totals(console, options))
    console.out("\ntotal: " + totals.text());
  return code;
}

}  // namespace

const Command kLs = {
    .name = "ls",
    .summary = "list tensors: names, dtypes, shapes, sizes, offsets",
    .title = "List the tensors of files.",
    .usage =
        "safetensors ls PATH... [--match GLOB]... [--exclude GLOB]...\n"
        "               [--dtype LIST] [--layers LIST]\n"
        "               [--sort KEY] [--reverse] [--top N]\n"
        "               [--tree | --columns LIST | --long | --names]\n"
        "               [--accept LIST] [--recursive]\n"
        "               [--json]",
    .description = kLsDescription,
    .options = kLsTable,
    .apart = kLsApart,
    .details = kLsDetails,
    .examples = kLsExamples,
    .exits =
        "0 listed; 1 a file is invalid, or nothing in it matches; 2 usage;\n"
        "3 a file cannot be read",
    .run = run_ls,
};

}  // namespace safetensors::cli
