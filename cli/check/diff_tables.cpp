// Sorts the tensors that differ, and sums them up by layer. A mean error of a layer weighs each tensor by its elements.
#include "diff_tables.h"

#include "input.h"
#include "text/formatted.h"
#include "text/natural_order.h"
#include "text/size.h"
#include "text/table.h"

#include <algorithm>
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

std::string elements_text(const TensorDiff& found) {
  return formatted("{} of {}", grouped(found.differing), grouped(found.first->numel()));
}

// A NaN on one side only is the largest error.
double max_error_of(const TensorDiff& found) {
  return found.nan_differing > 0 ? std::numeric_limits<double>::infinity() : found.max_error;
}

std::string error_text(double error, std::uint64_t nan_differing) {
  return nan_differing > 0 ? "nan" : formatted("{:.4g}", error);
}

// The relative change. Without a magnitude it is infinite, and never NaN, which has no order.
double relative_error(double error, double magnitude) {
  return error == 0 || std::isinf(error) ? error : error / magnitude;
}

std::size_t rows_of(std::size_t count, const DiffView& view) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(count, view.top.value_or(count)));
}

void print_rest(Console& console, std::size_t count, const DiffView& view, const char* noun) {
  const std::size_t rows = rows_of(count, view);
  if (rows < count) console.out(formatted("... and {}\n", counted(count - rows, noun)));
}

// The beginning of a name that stands for its layer.
std::string_view layer_of(std::string_view name) {
  std::size_t last = std::string_view::npos;  // the last dot
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) return name.substr(0, end);
    if (end < name.size()) last = end;
    begin = end + 1;
  }
  return last == std::string_view::npos ? name : name.substr(0, last);
}

struct Layer {
  std::string_view name;
  std::uint64_t tensors = 0;
  std::uint64_t different = 0;  // tensors
  std::uint64_t differing = 0;  // elements
  std::uint64_t elements = 0;   // of the tensors that differ
  std::uint64_t nan_differing = 0;
  double max_error = 0;
  double error_sum = 0;
  double magnitude_sum = 0;

  void add(const TensorDiff& found) {
    ++different;
    if (!compares_values(found)) return;
    const std::uint64_t count = found.first->numel();
    differing += found.differing;
    elements += count;
    nan_differing += found.nan_differing;
    max_error = std::max(max_error, found.max_error);
    error_sum += found.mean_error * static_cast<double>(count);
    magnitude_sum += found.mean_magnitude * static_cast<double>(count);
  }
};

// The layers with differences.
std::vector<Layer> layers_of(const std::vector<TensorDiff>& tensors, std::span<const std::string_view> all,
                             std::string_view sort) {
  std::map<std::string_view, std::size_t> places;
  std::vector<Layer> layers;
  const auto layer = [&](std::string_view name) -> Layer& {
    const auto [place, added] = places.emplace(layer_of(name), layers.size());
    if (added) layers.push_back({.name = place->first});
    return layers[place->second];
  };
  for (const std::string_view name : all) ++layer(name).tensors;
  for (const TensorDiff& found : tensors) layer(name_of(found)).add(found);
  std::erase_if(layers, [](const Layer& one) { return one.different == 0; });
  std::ranges::sort(layers, [](const Layer& a, const Layer& b) { return natural_less(a.name, b.name); });
  if (sort == "max-error" || sort == "relative") {
    std::ranges::stable_sort(layers, std::greater<>(), [&](const Layer& one) {
      if (one.nan_differing > 0) return std::numeric_limits<double>::infinity();
      return sort == "relative" ? relative_error(one.error_sum, one.magnitude_sum) : one.max_error;
    });
  }
  if (sort == "differing") std::ranges::stable_sort(layers, std::greater<>(), &Layer::differing);
  return layers;
}

}  // namespace

std::vector<std::uint64_t> index_of(std::uint64_t element, ShapeView shape) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = element % shape[i];
    element /= shape[i];
  }
  return index;
}

double relative_of(const TensorDiff& found) {
  return found.nan_differing > 0 ? std::numeric_limits<double>::infinity()
                                 : relative_error(found.mean_error, found.mean_magnitude);
}

bool compares_values(const TensorDiff& found) {
  return found.kind == DiffKind::values || found.kind == DiffKind::dtype;
}

void sort_differences(std::vector<TensorDiff>& tensors, std::string_view sort) {
  if (sort.empty()) return;
  std::ranges::stable_sort(
      tensors, [](const TensorDiff& a, const TensorDiff& b) { return natural_less(name_of(a), name_of(b)); });
  if (sort == "max-error") std::ranges::stable_sort(tensors, std::greater<>(), max_error_of);
  if (sort == "relative") std::ranges::stable_sort(tensors, std::greater<>(), relative_of);
  if (sort == "differing") std::ranges::stable_sort(tensors, std::greater<>(), &TensorDiff::differing);
}

void print_differences(Console& console, const std::vector<TensorDiff>& tensors, const DiffView& view) {
  using Align = Table::Align;
  using Narrow = Table::Narrow;
  Table table({{"NAME", Align::left, Narrow::name},
               {"DIFFERENCE"},
               {"ELEMENTS", Align::right},
               {"MAX ERROR", Align::right},
               {"RELATIVE", Align::right},
               {"MEAN ERROR", Align::right, Narrow::hide},
               {"FIRST", Align::left, Narrow::hide}});
  for (const TensorDiff& found : std::span(tensors).first(rows_of(tensors.size(), view))) {
    std::vector<std::string> cells = {printable(name_of(found)), difference_text(found), "", "", "", "", ""};
    if (compares_values(found) && view.values) cells[2] = elements_text(found);
    if (compares_values(found) && found.differing > 0) {
      cells[3] = error_text(found.max_error, found.nan_differing);
      cells[4] = error_text(relative_of(found), found.nan_differing);
      cells[5] = error_text(found.mean_error, found.nan_differing);
      const std::vector<std::uint64_t> index = index_of(found.first_differing, found.first->shape());
      cells[6] = shape_text(index);
    }
    table.row(std::move(cells));
  }
  if (tensors.empty()) return;
  table.print(console);
  print_rest(console, tensors.size(), view, "more tensor");
}

void print_layers(Console& console, const std::vector<TensorDiff>& tensors, std::span<const std::string_view> all,
                  const DiffView& view) {
  using Align = Table::Align;
  Table table({{"LAYER", Align::left, Table::Narrow::name},
               {"TENSORS", Align::right},
               {"ELEMENTS", Align::right},
               {"MAX ERROR", Align::right},
               {"RELATIVE", Align::right},
               {"MEAN ERROR", Align::right, Table::Narrow::hide}});
  const std::vector<Layer> layers = layers_of(tensors, all, view.sort);
  if (layers.empty()) return;
  for (const Layer& one : std::span(layers).first(rows_of(layers.size(), view))) {
    std::vector<std::string> cells = {
        printable(one.name), formatted("{} of {}", grouped(one.different), grouped(one.tensors)), "", "", "", ""};
    if (view.values && one.elements > 0) {
      cells[2] = formatted("{} of {}", grouped(one.differing), grouped(one.elements));
      cells[3] = error_text(one.max_error, one.nan_differing);
      cells[4] = error_text(relative_error(one.error_sum, one.magnitude_sum), one.nan_differing);
      cells[5] = error_text(one.error_sum / static_cast<double>(one.elements), one.nan_differing);
    }
    table.row(std::move(cells));
  }
  table.print(console);
  print_rest(console, layers.size(), view, "more layer");
}

}  // namespace safetensors::cli
