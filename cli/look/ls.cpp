// The subcommand ls: lists the tensors of files, selected by patterns and sorted.
#include "arguments.h"
#include "command.h"
#include "folders.h"
#include "input.h"
#include "json_output.h"
#include "rows.h"
#include "selection.h"
#include "text/text.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace safetensors::cli {
namespace {

// A tensor in the list.
struct ListRow {
  const TensorInfo& tensor;
  const Input& input;
  std::size_t file;           // index in input.files()
  std::uint64_t total_bytes;  // of all tensors in the list
};

// A column of the list: its name, its heading and the function that makes a cell.
struct ListColumn {
  std::string_view name;  // for --columns
  const char* key;        // in JSON, or nullptr
  const char* heading;
  Align align;
  Narrow narrow;
  Cell (*cell)(const ListRow& row);
};

// A number whose digits are not grouped.
Cell plain(std::uint64_t number) {
  return Cell(number).shown(std::to_string(number));
}

constexpr ListColumn kColumns[] = {
    {"name", "name", "NAME", kLeft, Narrow::name, [](const ListRow& row) { return Cell(row.tensor.name); }},
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

// Finds the columns of a list of names such as "name,size". Throws UsageError.
std::vector<const ListColumn*> parse_columns(std::string_view list) {
  std::vector<const ListColumn*> columns;
  const std::string known = joined_texts(kColumns, [](const ListColumn& column) { return column.name; });
  for (const std::string_view name : split(list, ',')) {
    const ListColumn* const column = std::ranges::find(kColumns, name, &ListColumn::name);
    if (column == std::end(kColumns))
      throw UsageError(formatted("--columns: unknown column `{}` (known: {})", printable(name), known));
    if (std::ranges::find(columns, column) != columns.end())
      throw UsageError(formatted("--columns: {} is given more than once", name));
    columns.push_back(column);
  }
  return columns;
}

// The columns without --columns. several: whether the tensors may be in several files.
std::vector<const ListColumn*> default_columns(bool several, bool wide, bool json) {
  const std::string list = json   ? "name,dtype,shape,bytes,offset"
                           : wide ? "name,dtype,shape,parameters,size,share,begin,end,offset,alignment"
                                  : "name,dtype,shape,size,begin,end,offset";
  std::vector<const ListColumn*> columns = parse_columns(several ? list + ",file" : list);
  if (json) columns.insert(columns.begin() + 4, &kOffsets);
  return columns;
}

constexpr auto kLsTable =
    joined(kChoiceOptions, {
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
                                "group tensors by module: the parts of names between dots. Modules with the same "
                                "content are one line, such as layers.{0..31}. --sort is then name or size"},
                               {"-c,--columns", "LIST",
                                "show these columns in this order: name, dtype, shape, rank, parameters, size, bytes, "
                                "share, begin, end, offset, alignment, file; commas between them"},
                               {"-l,--long", nullptr, "show parameters, share and alignment, too"},
                               {"-1,--names", nullptr, "print names alone, one per line"},
                               kAcceptOption,
                               kRecursiveOption,
                               kJsonOption,
                           });

constexpr Apart kLsApart[] = {
    {"top", "tree|json"},
    {"columns|long", "tree|json"},
    {"columns", "long"},
    {"names", "tree|json|columns|long"},
};

// --tree splits names at their dots, level by level. The names and the contents of its children describe the content of
// a module. Each description has one number, so equal contents have equal numbers, and two layers are compared in one
// step. Children become one node if their names are numbers and their contents are equal.

// A module, a tensor, or several of them with the same content.
struct ModuleNode {
  // One component of names, or several that follow each other. In braces: the numbers of folded modules, such as
  // "layers.{0..31}". A long list of numbers is cut.
  std::string name;
  std::uint64_t modules = 1;  // number of modules or tensors that this node stands for, in one parent
  Totals totals = {};
  const TensorInfo* tensor = nullptr;  // null for a module; of several tensors it is the first
  std::string_view dtype = {};         // of the tensor
  std::vector<ModuleNode> children = {};
  std::size_t content = 0;  // equal for the same names, dtypes and shapes of tensors
};

constexpr unsigned kMaxLevels = 16;     // a name may have millions of dots
constexpr std::size_t kMaxDigits = 18;  // of a name that is a number

struct NameRest {
  std::string_view rest;  // of the name
  const TensorInfo* tensor;
  std::string_view dtype;  // as in the file
};

void add_counts(ModuleNode& to, const ModuleNode& from) {
  to.totals.add(from.totals);
  for (std::size_t i = 0; i < to.children.size(); ++i) add_counts(to.children[i], from.children[i]);
}

// Whether a range may go from one number to the other: 9 to 10, 09 to 10, but not 0 to 01.
bool follows(const std::string& before, const std::string& number) {
  const bool alike = before.size() == number.size() || (before[0] != '0' && number[0] != '0');
  return alike && *parse_number(number) == *parse_number(before) + 1;
}

// The name of children that became one: "{0..2,4}". numbers: their names. limit: the number of ranges shown.
std::string folded_name(const std::vector<std::string>& numbers, std::size_t limit) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    if (limit-- == 0) return "{" + text + ",...}";
    for (end = begin + 1; end < numbers.size(); ++end) {
      if (!follows(numbers[end - 1], numbers[end])) break;
    }
    text += (text.empty() ? "" : ",") + numbers[begin];
    if (end - begin > 1) text += ".." + numbers[end - 1];
  }
  return "{" + text + "}";
}

class TreeBuilder {
 public:
  explicit TreeBuilder(bool by_size) : by_size_(by_size) {}

  // Makes the children of a module, which has these tensors.
  void build(ModuleNode& module, const std::vector<NameRest>& items, unsigned level) {
    std::vector<ModuleNode> found;
    std::vector<std::vector<NameRest>> inside;  // of the modules
    std::map<std::string_view, std::size_t> places;
    for (const NameRest& item : items) {
      module.totals.add(*item.tensor);
      const std::size_t dot = level + 1 < kMaxLevels ? item.rest.find('.') : std::string_view::npos;
      const std::string_view name = item.rest.substr(0, dot);
      const bool is_leaf = dot == std::string_view::npos;
      const std::size_t at = is_leaf ? found.size() : places.emplace(name, found.size()).first->second;
      if (at == found.size()) {
        found.push_back({.name = std::string(name)});
        inside.emplace_back();
      }
      if (is_leaf) {
        found[at].tensor = item.tensor;
        found[at].dtype = item.dtype;
        found[at].totals.add(*item.tensor);
        found[at].content = number_of(
            formatted("tensor {} {} {}", dimensions_text(item.tensor->shape), item.tensor->nbytes(), item.dtype));
      } else {
        inside[at].push_back({item.rest.substr(dot + 1), item.tensor, item.dtype});
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].tensor == nullptr) build(found[i], std::exchange(inside[i], {}), level + 1);
    }
    fold(module, std::move(found));
  }

 private:
  // Makes one node of children with numbers for names and with equal contents. Joins each module with its only child.
  void fold(ModuleNode& module, std::vector<ModuleNode> children) {
    std::vector<ModuleNode>& folded = module.children;
    std::vector<std::vector<std::string>> names;  // of the children that each node stands for
    std::map<std::size_t, std::size_t> first;     // by content: the node of children with numbers
    for (ModuleNode& child : children) {
      std::string name = child.name;
      std::size_t at = folded.size();
      if (name.size() <= kMaxDigits && parse_number(name)) at = first.emplace(child.content, at).first->second;
      if (at < folded.size()) {
        add_counts(folded[at], child);
      } else {
        folded.push_back(std::move(child));
        names.emplace_back();
      }
      names[at].push_back(std::move(name));
    }
    std::string description = "module";
    for (std::size_t i = 0; i < folded.size(); ++i) {
      ModuleNode& node = folded[i];
      node.modules = names[i].size();
      const bool one = node.modules == 1;
      const std::string name = one ? node.name : folded_name(names[i], SIZE_MAX);
      description += formatted(" {}{} {}{}", one ? "name" : "numbers", name.size(), name, node.content);
      if (!one) node.name = folded_name(names[i], 8);
      join_only_child(node);
    }
    module.content = number_of(std::move(description));
    if (by_size_)
      std::ranges::stable_sort(folded, std::greater<>(), [](const ModuleNode& node) { return node.totals.bytes; });
  }

  // A module with one child becomes one node with it.
  static void join_only_child(ModuleNode& node) {
    if (node.children.size() != 1) return;
    ModuleNode child = std::move(node.children[0]);
    child.name = node.name + "." + child.name;
    child.modules *= node.modules;
    node = std::move(child);
  }

  // The number of a description.
  std::size_t number_of(std::string text) { return numbers_.emplace(std::move(text), numbers_.size()).first->second; }

  const bool by_size_;
  std::map<std::string, std::size_t> numbers_;
};

void add_rows(Rows& rows, const std::vector<ModuleNode>& nodes, std::uint64_t bytes, const std::string& indent) {
  for (const ModuleNode& node : nodes) {
    const Rows::Row row = {Cell(node.name).shown(indent + printable(node.name)),
                           node.modules > 1 ? Cell(node.modules) : Cell(),
                           node.totals.tensors,
                           node.totals.parameters,
                           Cell::bytes(node.totals.bytes),
                           Cell().shown(share_text(node.totals.bytes, bytes)),
                           node.tensor == nullptr ? Cell() : Cell(node.dtype),
                           node.tensor == nullptr ? Cell() : Cell(ShapeView(node.tensor->shape))};
    if (node.tensor != nullptr) {
      rows.row(row);
    } else {
      rows.row(row, "children", [&] { add_rows(rows, node.children, bytes, indent + "  "); });
    }
  }
}

using List = std::vector<Listed>;

// Shows the modules of tensors: a table with one line per module, or the member "modules". tensors: in natural order,
// so that modules with the same content have it in the same order. Children have this order, or with by_size the
// largest comes first. At most 16 levels are split.
void show_modules(Console& console, Json* json, const Input& input, const List& tensors, bool by_size, bool heading) {
  std::vector<NameRest> items;
  items.reserve(tensors.size());
  for (const Listed& listed : tensors)
    items.push_back({listed.info->name, listed.info, input.files()[listed.file].header().dtype_name(*listed.info)});
  ModuleNode all;
  TreeBuilder(by_size).build(all, items, 0);
  Rows rows(console, json, "modules",
            {{"name", "MODULE", kLeft, Narrow::name},
             {"modules", nullptr},
             {"tensor_count", "TENSORS", kRight},
             {"parameters", "PARAMETERS", kRight, kHide},
             {"nbytes", "SIZE", kRight},
             {nullptr, "SHARE", kRight, kHide},
             {"dtype", "DTYPE"},
             {"shape", "SHAPE"}});
  add_rows(rows, all.children, all.totals.bytes, "");
  rows.finish(heading);
}

struct LsTotals : Totals {
  std::uint64_t files = 0;

  [[nodiscard]] std::string text() const {
    const std::string in_files = files < 2 ? "" : formatted(" in {}", counted(files, "file"));
    return formatted("{}, {}, {}{}\n", counted(tensors, "tensor"), counted(parameters, "parameter"), size_text(bytes),
                     in_files);
  }
};

struct LsRequest {
  const Arguments& given;
  std::vector<std::string> paths;
  Selection names;
  std::string sort;
  std::vector<const ListColumn*> columns;  // empty: the default
  bool totals;                             // whether the list gets a heading and totals, for people
  LsTotals all = {};                       // of all paths
};

// Whether a comes before b. Equal keys are in the order of the names.
bool comes_before(std::string_view sort, const TensorInfo& a, const TensorInfo& b) {
  if (sort == "size" && a.nbytes() != b.nbytes()) return a.nbytes() > b.nbytes();
  if (sort == "dtype" && a.dtype != b.dtype) return to_string(a.dtype) < to_string(b.dtype);
  if (sort == "shape" && !std::ranges::equal(a.shape, b.shape))
    return std::ranges::lexicographical_compare(a.shape, b.shape);
  return natural_less(a.name, b.name);
}

List select(const Input& input, const LsRequest& request) {
  List list = input.tensors();
  const std::string_view sort = request.given.has("tree") ? "name" : std::string_view(request.sort);
  std::erase_if(list, [&](const Listed& listed) { return !request.names.selects(*listed.info); });
  if (sort != "offset") {
    std::ranges::stable_sort(list,
                             [&](const Listed& a, const Listed& b) { return comes_before(sort, *a.info, *b.info); });
  }
  if (request.given.has("reverse")) std::ranges::reverse(list);
  return list;
}

LsTotals total(const Input& input, const List& list) {
  LsTotals totals;
  std::vector<bool> holds(input.files().size());
  for (const auto& [info, file] : list) {
    holds[file] = true;
    totals.add(*info);
  }
  totals.files = static_cast<std::uint64_t>(std::ranges::count(holds, true));
  return totals;
}

// before: comes before each row.
void print_list(Console& console, Json* json, const std::string& before, const Input& input, const List& list,
                const LsRequest& request, std::uint64_t bytes) {
  const std::vector<const ListColumn*> shown =
      request.columns.empty() ? default_columns(!input.is_file(), request.given.has("long"), json != nullptr)
                              : request.columns;
  std::vector<Rows::Column> columns;
  for (const ListColumn* column : shown) {
    const bool sorted = column->name == request.sort && column->narrow != Narrow::name;
    columns.push_back({column->key, column->heading, column->align, sorted ? kKeep : column->narrow});
  }
  Rows rows(console, json, "tensors", std::move(columns), before);
  const std::span<const Listed> first = top_of(list, request.given);
  std::vector<Cell> cells;
  for (const auto& [info, file] : first) {
    cells.clear();
    for (const ListColumn* column : shown) cells.push_back(column->cell({*info, input, file, bytes}));
    rows.row(cells);
  }
  rows.finish(request.totals);
  if (json == nullptr && request.totals) print_rest(console, list.size() - first.size());
}

Result<Exit> list_path(const std::string& path, LsRequest& request, Console& console, Json* json) {
  const Arguments& given = request.given;
  const Result<Input> input = Input::open(path, console, {.accept = accept_of(given)}, PipeData::part);
  if (!input) return input.error();
  const List list = select(*input, request);
  const LsTotals totals = total(*input, list);
  request.all.files += totals.files;
  request.all.add(totals);
  // If there are several paths, each path is a heading. In a pipe, it begins each row instead, as grep prints it.
  const bool named = request.paths.size() > 1 && !given.has("names");
  const bool in_rows = named && !given.has("tree") && !console.out_is_terminal();
  const std::string shown = printable(shown_path(path));
  if (json != nullptr) {
    json_files(*json, *input);
    json->field("tensor_count", totals.tensors).field("parameters", totals.parameters).field("nbytes", totals.bytes);
  } else if (named && !in_rows) {
    console.heading(shown + ":");
  }
  if (given.has("tree")) {
    show_modules(console, json, *input, list, request.sort == "size", request.totals);
  } else {
    print_list(console, json, in_rows ? shown + "  " : "", *input, list, request, totals.bytes);
  }
  if (json == nullptr && request.totals) console.out(totals.text());
  std::uint64_t bytes = 0;
  for (const File& file : input->files()) bytes += file.header().data_bytes();
  if (const std::string_view what = emptiness(infos(*input).size(), bytes); !what.empty())
    console.message(formatted("{}: notice: holds {}", shown, what));
  if (!list.empty() || request.names.empty()) return Exit::good;
  console.message(formatted("{}: {}", shown, request.names.nothing(infos(*input))));
  return Exit::negative;
}

Exit run_ls(const Arguments& given, Console& console) {
  given.need_path();
  const bool names_only = given.has("names");
  LsRequest request{.given = given,
                    .paths = {},
                    .names = Selection(given),
                    .sort = given.value("sort").value_or("name"),
                    .columns = {},
                    .totals = console.out_is_terminal() && !names_only};
  if (given.has("tree") && (given.has("reverse") || (request.sort != "name" && request.sort != "size")))
    throw UsageError("--tree goes with --sort name or size, and not with --reverse");
  (void)given.number("top");  // errors of usage come first
  (void)accept_of(given);
  const auto columns = names_only ? "name" : given.value("columns");
  if (columns) request.columns = parse_columns(*columns);
  request.paths = expand_folders(given.positionals, given.has("recursive"));
  const Exit code = for_each_file("ls", request.paths, given.json(), console, [&](const std::string& path, Json* json) {
    return list_path(path, request, console, json);
  });
  if (!given.json() && request.paths.size() > 1 && request.totals) console.out("\ntotal: " + request.all.text());
  return code;
}

}  // namespace

const Command kLs = {
    .heading = "look",
    .name = "ls",
    .summary = "list tensors: names, dtypes, shapes, sizes, offsets",
    .title = "List the tensors of files.",
    .usage = "PATH...",
    .description = R"(A PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or -
for standard input, which may end after the header. Reads headers only. Control, bidirectional and invisible
characters in names are escaped. --json gives the exact names. The heading and the totals are for a terminal: in a
pipe or a file there are only rows.)",
    .options = kLsTable,
    .apart = kLsApart,
    .details = R"(BEGIN and END count bytes from the start of the data. FILE OFFSET counts bytes from the start of
the file. FILE is the file of a tensor, if there are several. ALIGNMENT is the largest power of two up to 65536 that
divides FILE OFFSET.)",
    .examples = R"(safetensors ls model.safetensors
safetensors ls llama-7b/ --match '*.k_proj.*'
safetensors ls llama-7b/ --layers 0-3,31 --dtype f32
safetensors ls llama-7b/ --tree --sort size
safetensors ls llama-7b/ --sort size --top 10
safetensors ls llama-7b/ -1 | grep norm
safetensors ls model.safetensors --match 'h.[0-5].*' --match '*.bias'
safetensors ls llama-7b/ --columns size,name,file --sort size
safetensors ls *.safetensors --sort size --json
curl -s -r 0-9999999 https://example.org/model.safetensors | safetensors ls -)",
    .exits = "0 listed; 1 a file is invalid, or nothing in it matches; 2 usage; 3 a file cannot be read",
    .run = run_ls,
};

}  // namespace safetensors::cli
