// The subcommand diff: compares two files or models. diff() of the library finds the differences of tensors.
#include "arguments.h"
#include "command.h"
#include "diff_tables.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "name_map.h"
#include "progress.h"
#include "selection.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/diff.h>

#include "format/header/merged_metadata.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace safetensors::cli {
namespace {

constexpr const char kDiffDescription[] =
    R"(A and B are files, or folders, indexes or patterns of models of several files.
One of them may be - for standard input. Compares names, dtypes, shapes,
metadata and values. Memory stays bounded. Values of one dtype are equal if
their bytes are equal, unless a tolerance is given. Another dtype is always a
difference, and the values are compared as numbers.)";

constexpr Option kDiffTable[] = {
    {"--rtol", "R", "relative tolerance: equal if |a - b| <= D + R x |b|"},
    {"--atol", "D", "absolute tolerance D in this formula (default 0)"},
    {"--ulps", "N",
     "floats of one dtype are equal if b is at most N floats\n"
     "away from a"},
    {"--no-values", nullptr, "compare headers only; reads no tensor"},
    {"--map", "FILE",
     "tensors with other names in B: lines of OLD, a tab and\n"
     "NEW, the exact names",
     nullptr, Values::path},
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kLayersOption,
    {"-s,--sort", "KEY",
     "name       natural order, layer.2 before layer.10\n"
     "max-error  largest error first\n"
     "relative   largest relative change first\n"
     "differing  most elements that differ first\n"
     "(default: the order of A)",
     "name|max-error|relative|differing"},
    {"--top", "N", "show only the first N lines of the table"},
    {"--by-layer", nullptr, "one line per layer: the layers that changed"},
    {"--exit-zero", nullptr, "return 0, too, if A and B differ"},
    {"-b,--brief", nullptr, "print only the last line"},
    kJsonOption,
};

constexpr const char kDiffDetails[] = R"(MAX ERROR is the largest |a - b| in the tensor, MEAN ERROR the sum of all
|a - b| divided by the number of elements, and RELATIVE this sum divided by the
sum of all |b|. They are nan if an element is NaN in A or B only. FIRST is the
index of the first element that differs. With --by-layer, a line is for all
tensors whose names begin alike up to the first number, such as model.layers.10,
or else up to the last dot. ELEMENTS are those of the tensors that differ.)";

constexpr const char* kDiffExamples[] = {
    "safetensors diff before.safetensors after.safetensors",
    "safetensors diff llama-7b/ llama-7b-tuned/ --brief",
    "safetensors diff llama-7b/ llama-7b-tuned/ --by-layer --sort max-error --top 5",
    "safetensors diff cpu.safetensors gpu.safetensors --rtol 1e-3 --atol 1e-6",
};

struct DiffRequest {
  std::vector<std::string> paths;
  DiffOptions options;
  std::optional<std::string> map;  // --map
  NameMap names;                   // its lines
  Selection selection;
  DiffView view;
  bool by_layer = false;
  bool exit_zero = false;
  bool brief = false;
  bool json = false;
};

std::optional<double> parse_tolerance(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool valid = error == std::errc() && end == text.data() + text.size() && value >= 0 && std::isfinite(value);
  return valid ? std::optional(value) : std::nullopt;
}

// A key of the metadata with different values. nullopt: the key is not there.
struct MetadataDiff {
  std::string_view key;
  std::optional<std::string_view> first;
  std::optional<std::string_view> second;
};

format::MergedMetadata merged_metadata(const Input& input) {
  std::vector<Metadata> headers;
  for (const File& file : input.files()) headers.push_back(file.metadata());
  return format::MergedMetadata(std::move(headers));
}

// The differences of the metadata of two inputs. If several files have the same key, the value of the first file
// counts. There is no list of them, because it could take several times the memory of the headers.
class MetadataDiffs {
 public:
  MetadataDiffs(const Input& first, const Input& second)
      : first_(merged_metadata(first)), second_(merged_metadata(second)) {
    each([this](const MetadataDiff&) { ++count_; });
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

  // Calls visit(MetadataDiff): the keys of the first input in their order, then those that only the second has.
  template <class Visit>
  void each(const Visit& visit) const {
    each_key(first_, second_, [&](std::string_view key, std::string_view value, const auto& other) {
      if (other != value) visit(MetadataDiff{key, value, other});
    });
    each_key(second_, first_, [&](std::string_view key, std::string_view value, const auto& other) {
      if (!other) visit(MetadataDiff{key, std::nullopt, value});
    });
  }

 private:
  // Calls visit(key, value, the value of the key in `others`) for each key of `list`. Both are sorted.
  template <class Visit>
  static void each_key(const format::MergedMetadata& list, const format::MergedMetadata& others, const Visit& visit) {
    std::size_t other = 0;
    for (std::size_t i = 0; i < list.size(); i = list.next_key(i)) {
      while (other < others.size() && others[other].key < list[i].key) ++other;
      const bool same = other < others.size() && others[other].key == list[i].key;
      visit(list[i].key, list[i].value, same ? std::optional(others[other].value) : std::nullopt);
    }
  }

  format::MergedMetadata first_;
  format::MergedMetadata second_;
  std::uint64_t count_ = 0;
};

void print_metadata(Console& console, const MetadataDiffs& metadata) {
  const auto shown = [](const std::optional<std::string_view>& value) {
    return value ? "`" + shortened(*value, 60) + "`" : std::string("no value");
  };
  metadata.each([&](const MetadataDiff& found) {
    console.out(
        formatted("metadata {}: {}, B has {}\n", shortened(found.key, 40), shown(found.first), shown(found.second)));
  });
}

void print_summary(Console& console, const DiffResult& result, const MetadataDiffs& metadata) {
  const auto count = [&](DiffKind kind) {
    return static_cast<std::uint64_t>(std::ranges::count(result.tensors, kind, &TensorDiff::kind));
  };
  std::string text = formatted("{} equal", counted(result.equal_tensors, "tensor"));
  const std::pair<DiffKind, const char*> kinds[] = {{DiffKind::values, "with other values"},
                                                    {DiffKind::dtype, "with another dtype"},
                                                    {DiffKind::shape, "with another shape"},
                                                    {DiffKind::only_first, "only in A"},
                                                    {DiffKind::only_second, "only in B"}};
  for (const auto& [kind, says] : kinds) {
    if (count(kind) > 0) text += formatted(", {} {}", grouped(count(kind)), says);
  }
  if (metadata.count() > 0) text += formatted("; {} of the metadata", counted(metadata.count(), "difference"));
  console.line(text, 2);
}

void json_value(Json& json, const char* key, double value) {
  json.key(key);
  if (std::isfinite(value)) {
    json.raw(formatted("{}", value));
  } else {
    json.string("inf");
  }
}

void json_side(Json& json, const char* key, const std::optional<Tensor>& tensor) {
  json.key(key);
  if (tensor) {
    json.open('{').field("name", tensor->name()).field("dtype", to_string(tensor->dtype()));
    json.field("shape", tensor->shape()).close('}');
  } else {
    json.null();
  }
}

void print_json(Json& json, const DiffResult& result, const MetadataDiffs& metadata, bool values) {
  static constexpr const char* kKinds[] = {"only_first", "only_second", "shape", "dtype", "values"};
  json.field("differ", !result.equal() || metadata.count() > 0).field("equal_tensors", result.equal_tensors);
  json.line().key("metadata").open('[');
  const auto text = [&](const char* key, const std::optional<std::string_view>& value) {
    json.key(key);
    if (value) {
      json.string(*value);
    } else {
      json.null();
    }
  };
  metadata.each([&](const MetadataDiff& found) {
    json.line().open('{').field("key", found.key);
    text("first", found.first);
    text("second", found.second);
    json.close('}');
  });
  json.close(']').line().key("tensors").open('[');
  for (const TensorDiff& found : result.tensors) {
    json.line().open('{').field("kind", kKinds[static_cast<std::size_t>(found.kind)]);
    json_side(json, "first", found.first);
    json_side(json, "second", found.second);
    if (compares_values(found) && values) {
      json.field("differing", found.differing).field("nan_differing", found.nan_differing);
      if (found.differing > 0) json.field("first_differing", index_of(found.first_differing, found.first->shape()));
      json_value(json, "max_error", found.max_error);
      json_value(json, "mean_error", found.mean_error);
      json_value(json, "relative_error", relative_of(found));
    }
    json.close('}');
  }
  json.close(']');
}

Exit fail(const DiffRequest& request, const std::string& path, const Error& error, Console& console) {
  if (request.json) {
    Json json(console, "diff");
    json.field("first", request.paths[0]).field("second", request.paths[1]);
    json_input_error(json, "", error);
    json.finish();
  }
  return input_error(path, error, console);
}

void print_table(Console& console, const DiffRequest& request, const DiffResult& result, const Input& first) {
  if (!request.by_layer) return print_differences(console, result.tensors, request.view);
  std::vector<std::string_view> names;
  for (const Tensor& tensor : first.set()) {
    if (request.selection.selects(tensor.info())) names.push_back(tensor.name());
  }
  for (const TensorDiff& found : result.tensors) {
    if (!found.first) names.push_back(found.second->name());
  }
  print_layers(console, result.tensors, names, request.view);
}

Exit compare(DiffRequest& request, Console& console) {
  if (request.paths[0] == kStandardInput && request.paths[1] == kStandardInput)
    return console.usage("diff", "only one of A and B can be standard input");
  const PipeData data = request.options.values ? PipeData::keep : PipeData::skip;
  const Result<Input> first = Input::open(request.paths[0], console, {}, data);
  if (!first) return fail(request, request.paths[0], first.error(), console);
  const Result<Input> second = Input::open(request.paths[1], console, {}, data);
  if (!second) return fail(request, request.paths[1], second.error(), console);
  if (request.map) {
    Status status = read_name_map(*request.map, request.names);
    if (status) status = check_name_map(*first, request.paths[0], *request.map, request.names);
    if (!status) return fail(request, *request.map, status.error(), console);
    request.options.rename = [&](std::string_view name) {
      const auto found = request.names.find(name);
      return found == request.names.end() ? std::string(name) : found->second;
    };
  }
  if (!request.selection.empty()) {
    request.options.select = [&](const Tensor& tensor) { return request.selection.selects(tensor.info()); };
  }
  const Interrupt interrupt;
  request.options.progress = shown_progress(console);
  Result<DiffResult> result = diff(first->set(), second->set(), request.options);
  if (!result && Interrupt::caught()) return Exit::good;
  const bool by_map = !result && request.map && result.error().code == Errc::invalid_argument;
  if (!result) return fail(request, by_map ? *request.map : request.paths[0], result.error(), console);
  const MetadataDiffs metadata(*first, *second);
  sort_differences(result->tensors, request.view.sort);
  if (request.json) {
    Json json(console, "diff");
    json.field("first", request.paths[0]).field("second", request.paths[1]);
    print_json(json, *result, metadata, request.options.values);
    json.finish();
  } else {
    if (!request.brief) print_table(console, request, *result, *first);
    if (!request.brief) print_metadata(console, metadata);
    print_summary(console, *result, metadata);
  }
  if (!request.selection.empty() && result->tensors.empty() && result->equal_tensors == 0) {
    std::vector<const TensorInfo*> all = infos(*first);
    for (const Listed& listed : second->tensors()) all.push_back(listed.info);
    console.message(request.selection.nothing(std::move(all), " in A or B"));
    return Exit::negative;
  }
  const bool same = result->tensors.empty() && metadata.count() == 0;
  return same || request.exit_zero ? Exit::good : Exit::negative;
}

// Returns nullopt, or the text of an error.
std::optional<std::string> parse(std::span<const std::string> given, DiffRequest& request) {
  std::optional<std::string> rtol;
  std::optional<std::string> atol;
  std::optional<std::string> ulps;
  bool no_values = false;
  Arguments arguments(kDiff);
  arguments.positionals(request.paths);
  arguments.value("rtol", rtol);
  arguments.value("atol", atol);
  arguments.value("ulps", ulps);
  arguments.value("map", request.map);
  arguments.flag("no-values", no_values);
  std::optional<std::string> sort;
  std::optional<std::string> top;
  request.selection.bind(arguments);
  arguments.value("sort", sort);
  arguments.value("top", top);
  arguments.flag("by-layer", request.by_layer);
  arguments.flag("exit-zero", request.exit_zero);
  arguments.flag("brief", request.brief);
  arguments.flag("json", request.json);
  if (auto wrong = arguments.parse(given)) return wrong;
  if (auto wrong = request.selection.take()) return wrong;
  if (request.paths.size() != 2) return "takes two paths, A and B";
  if (no_values && (rtol || atol || ulps)) return "--no-values does not go with a tolerance";
  if (request.brief && request.json) return "--brief does not go with --json";
  if ((top || request.by_layer) && (request.json || request.brief))
    return "--top and --by-layer do not go with --json and --brief";
  if (top) request.view.top = parse_number(*top);
  if (top && !request.view.top) return "--top is a number, such as 10";
  request.view.sort = sort.value_or("");
  request.view.values = !no_values;
  const auto relative = parse_tolerance(rtol.value_or("0"));
  const auto absolute = parse_tolerance(atol.value_or("0"));
  const auto units = parse_number(ulps.value_or("0"));
  if (!relative) return "--rtol is a number from 0 on, such as 1e-3";
  if (!absolute) return "--atol is a number from 0 on, such as 1e-6";
  if (!units) return "--ulps is a whole number, such as 4";
  request.options.rtol = *relative;
  request.options.atol = *absolute;
  request.options.ulps = *units;
  request.options.values = !no_values;
  return std::nullopt;
}

Exit run_diff(std::span<const std::string> given, Console& console) {
  DiffRequest request;
  if (const auto wrong = parse(given, request)) return console.usage("diff", *wrong);
  return compare(request, console);
}

}  // namespace

const Command kDiff = {
    .name = "diff",
    .summary = "show how two files or models differ",
    .title = "Show how two files or models differ.",
    .usage =
        "safetensors diff A B [--match GLOB]... [--exclude GLOB]...\n"
        "                 [--dtype LIST] [--layers LIST]\n"
        "                 [--rtol R] [--atol D] [--ulps N] [--no-values]\n"
        "                 [--map FILE] [--sort KEY] [--top N]\n"
        "                 [--by-layer | --brief] [--exit-zero] [--json]",
    .description = kDiffDescription,
    .options = kDiffTable,
    .details = kDiffDetails,
    .examples = kDiffExamples,
    .exits =
        "0 no difference; 1 they differ, a file is invalid, or nothing matches;\n"
        "2 usage; 3 a file cannot be read",
    .run = run_diff,
};

}  // namespace safetensors::cli
