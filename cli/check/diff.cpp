// The subcommand diff: compares two files or models, and shows the differences by tensor or by layer.
#include "values/diff.h"
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "json_output.h"
#include "rows.h"
#include "selection.h"
#include "text/text.h"

#include "format/header/merged_metadata.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

namespace safetensors::cli {
namespace {

std::string described(const Tensor& tensor) {
  return formatted("{} {}", to_string(tensor.dtype()), shape_text(tensor.shape()));
}

std::string difference_text(const TensorDiff& found) {
  switch (found.kind) {
    case DiffKind::only_first:
      return "only in A: " + described(*found.first);
    case DiffKind::only_second:
      return "only in B: " + described(*found.second);
    case DiffKind::shape:
      return formatted("{}, B has {}", described(*found.first), described(*found.second));
    case DiffKind::dtype:
      return formatted("{}, B has {}", to_string(found.first->dtype()), to_string(found.second->dtype()));
    case DiffKind::values:
      break;
  }
  return "values";
}

std::string_view name_of(const TensorDiff& found) {
  return (found.first ? found.first : found.second)->name();
}

std::string share(std::uint64_t part, std::uint64_t all) {
  return formatted("{} of {}", grouped(part), grouped(all));
}

std::string error_text(double error, const Differences& found) {
  return found.nan_differing > 0 ? "nan" : formatted("{:.4g}", error);
}

// A NaN on one side only is the largest error.
double max_error_of(const Differences& found) {
  return found.nan_differing > 0 ? std::numeric_limits<double>::infinity() : found.max_error;
}

// The relative change: the sum of all |a - b| divided by the sum of all |b|. Without a magnitude it is infinite, and
// never NaN, which has no order.
double relative_of(const Differences& found) {
  if (found.nan_differing > 0) return std::numeric_limits<double>::infinity();
  return found.errors.empty()             ? 0
         : std::isinf(found.errors.large) ? found.errors.large
                                          : found.errors.over(found.magnitudes);
}

// Sorts tensors or layers: the largest come first, and equal ones in natural order of their names.
template <class List>
void sort_differences(List& list, std::string_view sort) {
  std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return natural_less(name_of(a), name_of(b)); });
  const auto by = [&](auto key) {
    std::ranges::stable_sort(list, std::greater<>(),
                             [&](const auto& one) { return key(one.values.value_or(Differences())); });
  };
  if (sort == "max-error") by(max_error_of);
  if (sort == "relative") by(relative_of);
  if (sort == "differing") by([](const Differences& found) { return found.differing; });
}

// The beginning of a name that stands for its layer.
std::string_view layer_of(std::string_view name) {
  const std::string_view number = layer_part(name);
  return number.empty() ? name.substr(0, name.rfind('.'))
                        : name.substr(0, static_cast<std::size_t>(number.end() - name.begin()));
}

struct Layer {
  std::string_view name;
  std::uint64_t tensors = 0;
  std::uint64_t different = 0;             // tensors
  std::uint64_t elements = 0;              // of the tensors that differ
  std::optional<Differences> values = {};  // of the tensors that differ

  void add(const TensorDiff& found) {
    ++different;
    if (!found.values) return;
    if (!values) values.emplace();
    values->add(*found.values);
    elements += found.first->numel();
  }
};

std::string_view name_of(const Layer& layer) {
  return layer.name;
}

// The layers with differences. A layer is the beginning of names up to the first number, such as "model.layers.10", or
// else up to the last dot. all: the names of all compared tensors, each once.
std::vector<Layer> layers_of(const std::vector<TensorDiff>& tensors, std::span<const std::string_view> all,
                             std::string_view sort) {
  std::map<std::string_view, Layer> layers;
  const auto layer = [&](std::string_view name) -> Layer& {
    return layers.emplace(layer_of(name), Layer{layer_of(name)}).first->second;
  };
  for (const std::string_view name : all) ++layer(name).tensors;
  for (const TensorDiff& found : tensors) layer(name_of(found)).add(found);
  std::vector<Layer> found;
  for (const auto& [name, one] : layers)
    if (one.different > 0) found.push_back(one);
  sort_differences(found, sort);
  return found;
}

// The index of an element by its place in C order.
std::vector<std::uint64_t> index_of(std::uint64_t element, ShapeView shape) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = element % shape[i];
    element /= shape[i];
  }
  return index;
}

void print_layers(Console& console, const std::vector<Layer>& layers, const Arguments& given) {
  Rows rows(console, nullptr, "",
            {{nullptr, "LAYER", kLeft, Narrow::name},
             {nullptr, "TENSORS", kRight},
             {nullptr, "ELEMENTS", kRight},
             {nullptr, "MAX ERROR", kRight},
             {nullptr, "RELATIVE", kRight},
             {nullptr, "MEAN ERROR", kRight, kHide}});
  const std::span<const Layer> shown = top_of(layers, given);
  for (const Layer& one : shown) {
    const Differences values = one.values.value_or(Differences());
    const auto known = [&](std::string text) { return one.elements > 0 ? Cell().shown(std::move(text)) : Cell(); };
    const auto error = [&](double value) { return known(error_text(value, values)); };
    rows.row({one.name, Cell().shown(share(one.different, one.tensors)), known(share(values.differing, one.elements)),
              error(values.max_error), error(relative_of(values)),
              error(values.errors.over(static_cast<double>(one.elements)))});
  }
  rows.finish();
  print_rest(console, layers.size() - shown.size(), "more layer");
}

constexpr auto kDiffTable = joined(
    {
        {"--rtol", "R", "relative tolerance: equal if |a - b| <= D + R x |b|"},
        {"--atol", "D", "absolute tolerance D in this formula (default 0)"},
        {"--no-values", nullptr, "compare headers only; reads no tensor"},
        {"--map", "FILE", "tensors with other names in B: lines of OLD, a tab and NEW, the exact names", nullptr,
         Values::path},
    },
    kChoiceOptions,
    {
        {"-s,--sort", "KEY",
         "name       natural order, layer.2 before layer.10\n"
         "max-error  largest error first\n"
         "relative   largest relative change first\n"
         "differing  most elements that differ first\n"
         "(default: the order of A)",
         "name|max-error|relative|differing"},
        {"--top", "N", "show only the first N lines of the table"},
        {"--by-layer", nullptr, "one line per layer: the layers that changed"},
        {"--exit-zero", nullptr, "return 0 even if A and B differ"},
        {"-b,--brief", nullptr, "print only the last line"},
        kJsonOption,
    });

constexpr Apart kDiffApart[] = {{"brief", "json"}, {"top|by-layer", "json|brief"}};

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

  // Calls visit(MetadataDiff) in the order of the keys. Both lists are sorted by them.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::size_t a = 0, b = 0; a < first_.size() || b < second_.size();) {
      const bool in_first = b == second_.size() || (a < first_.size() && first_[a].key <= second_[b].key);
      const bool in_second = a == first_.size() || (b < second_.size() && second_[b].key <= first_[a].key);
      MetadataDiff found{in_first ? first_[a].key : second_[b].key, std::nullopt, std::nullopt};
      if (in_first) found.first = first_[a].value;
      if (in_second) found.second = second_[b].value;
      if (found.first != found.second) visit(found);
      if (in_first) a = first_.next_key(a);
      if (in_second) b = second_.next_key(b);
    }
  }

 private:
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

// The tensor of one side, in JSON.
std::string side_json(const std::optional<Tensor>& tensor) {
  if (!tensor) return "null";
  return formatted("{{\"name\": \"{}\", \"dtype\": \"{}\", \"shape\": [{}]}}", json_escaped(tensor->name()),
                   to_string(tensor->dtype()), dimensions_text(tensor->shape()));
}

// Shows a row per tensor that differs. tensors: sorted.
void show_differences(Console& console, Json* json, const std::vector<TensorDiff>& tensors, const Arguments& given) {
  static constexpr const char* kKinds[] = {"only_first", "only_second", "shape", "dtype", "values"};
  Rows rows(console, json, "tensors",
            {{nullptr, "NAME", kLeft, Narrow::name},
             {"kind", "DIFFERENCE"},
             {"first", nullptr},
             {"second", nullptr},
             {"differing", "ELEMENTS", kRight},
             {"nan_differing", nullptr},
             {"max_error", "MAX ERROR", kRight},
             {"relative_error", "RELATIVE", kRight},
             {"mean_error", "MEAN ERROR", kRight, kHide},
             {"first_differing", "FIRST", kLeft, kHide}});
  const std::span<const TensorDiff> shown = top_of(tensors, given);
  for (const TensorDiff& found : shown) {
    const Differences values = found.values.value_or(Differences());
    const std::uint64_t elements = found.values ? found.first->numel() : 0;
    const bool differs = values.differing > 0;
    const auto known = [&](Cell cell) { return found.values ? std::move(cell) : Cell(); };
    const auto error = [&](double value) { return known(Cell(value).shown(differs ? error_text(value, values) : "")); };
    std::vector<std::uint64_t> index;
    if (differs) index = index_of(values.first_differing, found.first->shape());
    rows.row({name_of(found), Cell(kKinds[static_cast<std::size_t>(found.kind)]).shown(difference_text(found)),
              Cell::raw(side_json(found.first)), Cell::raw(side_json(found.second)),
              known(Cell(values.differing).shown(share(values.differing, elements))), known(values.nan_differing),
              error(values.max_error), error(relative_of(values)),
              error(values.errors.over(static_cast<double>(std::max<std::uint64_t>(elements, 1)))),
              differs ? Cell(ShapeView(index)) : Cell()});
  }
  rows.finish();
  if (json == nullptr) print_rest(console, tensors.size() - shown.size());
}

// Writes a JSON document.
void print_json(Console& console, const Arguments& given, const std::function<void(Json&)>& content) {
  Json json(console, "diff");
  json.field("first", given.positionals[0]).field("second", given.positionals[1]);
  content(json);
  json.finish();
}

void show(Console& console, const Arguments& given, const DiffResult& result, const MetadataDiffs& metadata,
          const std::vector<Layer>& layers) {
  if (!given.json()) {
    if (!given.has("brief")) {
      given.has("by-layer") ? print_layers(console, layers, given)
                            : show_differences(console, nullptr, result.tensors, given);
      print_metadata(console, metadata);
    }
    return print_summary(console, result, metadata);
  }
  print_json(console, given, [&](Json& json) {
    json.field("differ", !result.tensors.empty() || metadata.count() > 0).field("equal_tensors", result.equal_tensors);
    json.line().key("metadata").open('[');
    metadata.each([&](const MetadataDiff& found) {
      json.line().open('{').field("key", found.key).field("first", found.first).field("second", found.second);
      json.close('}');
    });
    json.close(']');
    show_differences(console, &json.line(), result.tensors, given);
  });
}

// The names of all compared tensors, each once.
std::vector<std::string_view> names_of(const Input& first, const DiffResult& result, const Selection& selection) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : first.set())
    if (selection.selects(tensor.info())) names.push_back(tensor.name());
  for (const TensorDiff& found : result.tensors)
    if (!found.first) names.push_back(found.second->name());
  return names;
}

Exit compare(const Arguments& given, DiffOptions options, Console& console) {
  const std::vector<std::string>& paths = given.positionals;
  const auto fail = [&](const std::string& path, const Error& error) {
    if (given.json()) print_json(console, given, [&](Json& json) { json_input_error(json, "", error); });
    return input_error(path, error, console);
  };
  const PipeData data = options.values ? PipeData::keep : PipeData::skip;
  const Result<Input> first = Input::open(paths[0], console, {}, data);
  if (!first) return fail(paths[0], first.error());
  const Result<Input> second = Input::open(paths[1], console, {}, data);
  if (!second) return fail(paths[1], second.error());
  const std::optional<std::string> map = given.value("map");
  if (map) {
    Result<NameMap> names = read_name_map(*map, *first, paths[0]);
    if (!names) return fail(*map, names.error());
    options.names = *std::move(names);
  }
  Result<DiffResult> result = diff(first->set(), second->set(), options, console);
  const bool by_map = !result && map && result.error().code == Errc::invalid_argument;
  if (!result) return fail(by_map ? *map : paths[0], result.error());
  const MetadataDiffs metadata(*first, *second);
  const std::string sort = given.value("sort").value_or("");
  if (!sort.empty()) sort_differences(result->tensors, sort);
  std::vector<Layer> layers;
  if (given.has("by-layer")) layers = layers_of(result->tensors, names_of(*first, *result, options.selection), sort);
  show(console, given, *result, metadata, layers);
  if (!options.selection.empty() && result->tensors.empty() && result->equal_tensors == 0) {
    std::vector<const TensorInfo*> all = infos(*first);
    for (const Listed& listed : second->tensors()) all.push_back(listed.info);
    console.message(options.selection.nothing(std::move(all), " in A or B"));
    return Exit::negative;
  }
  const bool same = result->tensors.empty() && metadata.count() == 0;
  return same || given.has("exit-zero") ? Exit::good : Exit::negative;
}

double tolerance(const Arguments& given, std::string_view name, std::string_view example) {
  const std::string text = given.value(name).value_or("0");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && std::isfinite(value)) return value;
  throw UsageError(formatted("--{} is a number from 0 on, such as {}", name, example));
}

Exit run_diff(const Arguments& given, Console& console) {
  if (given.positionals.size() != 2) throw UsageError("takes two paths, A and B");
  const bool values = !given.has("no-values");
  if (!values && (given.has("rtol") || given.has("atol"))) throw UsageError("--no-values does not go with a tolerance");
  const DiffOptions options{.rtol = tolerance(given, "rtol", "1e-3"),
                            .atol = tolerance(given, "atol", "1e-6"),
                            .values = values,
                            .selection = Selection(given)};
  (void)given.number("top");  // an error of usage comes before the work
  if (given.positionals[0] == kStandardInput && given.positionals[1] == kStandardInput)
    throw UsageError("only one of A and B can be standard input");
  return compare(given, options, console);
}

}  // namespace

const Command kDiff = {
    .name = "diff",
    .summary = "show how two files or models differ",
    .title = "Show how two files or models differ.",
    .usage = "A B",
    .description = R"(A and B are files, or folders, indexes or patterns of models of several files. One of them may
be - for standard input. Compares names, dtypes, shapes, metadata and values. Memory stays bounded. Values of one
dtype are equal if their bytes are equal, unless a tolerance is given. Another dtype is always a difference, and the
values are compared as numbers.)",
    .options = kDiffTable,
    .apart = kDiffApart,
    .details = R"(MAX ERROR is the largest |a - b| in the tensor, MEAN ERROR the sum of all |a - b| divided by the
number of elements, and RELATIVE this sum divided by the sum of all |b|. They are nan if an element is NaN in only one
of A and B. FIRST is the index of the first element that differs. With --by-layer, a line is for all tensors whose names
begin alike up to the first number, such as model.layers.10, or else up to the last dot. ELEMENTS are those of the
tensors that differ.)",
    .examples = R"(safetensors diff before.safetensors after.safetensors
safetensors diff llama-7b/ llama-7b-tuned/ --brief
safetensors diff llama-7b/ llama-7b-tuned/ --by-layer --sort max-error --top 5
safetensors diff cpu.safetensors gpu.safetensors --rtol 1e-3 --atol 1e-6)",
    .exits = "0 no difference; 1 they differ, a file is invalid, or nothing matches; 2 usage; 3 a file cannot be read",
    .run = run_diff,
};

}  // namespace safetensors::cli
