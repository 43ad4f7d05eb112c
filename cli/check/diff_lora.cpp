// Finds the pairs of matrices by their names. To find the tensor that a pair changes, leading parts of the pair's name
// are removed one by one until the rest is the name of a tensor. Kohya joins the parts of a name by "_", so the names
// of tensors are compared in this form, too.
//
// The norm of a product needs no product: |up x down|^2 is the sum over all i, j of (down x down^T)[i, j] x
// (up^T x up)[i, j], two matrices of rank x rank, which are summed block by block. The norm of a tensor comes from the
// mean and the deviation that stats() computes.
#include "diff_lora.h"

#include "interrupt.h"
#include "lora_scale.h"
#include "progress.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/natural_order.h"
#include "text/size.h"
#include "text/table.h"

#include <safetensors/recognize.h>
#include <safetensors/stats.h>

#include "format/checkpoint/lora_names.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kMaxRank = 1024;           // larger ones take too long
constexpr std::uint64_t kBlockElements = 1 << 20;  // elements of a matrix that are read at once
using TensorsByName = std::map<std::string_view, Tensor>;

TensorsByName tensors_by_name(const Input& input) {
  TensorsByName names;
  for (const Tensor& tensor : input.set()) names.emplace(tensor.name(), tensor);
  return names;
}

std::uint64_t elements_from(ShapeView shape, std::size_t begin) {
  std::uint64_t count = 1;
  for (std::size_t i = begin; i < shape.size(); ++i) count *= shape[i];  // the header was checked: no overflow
  return count;
}

bool is_pair(const Tensor& down, const Tensor& up) {
  return down.shape().size() >= 2 && up.shape().size() >= 2 && down.nbytes() != 0 && up.nbytes() != 0 &&
         down.shape()[0] == up.shape()[1];
}

// Returns the pairs in the order of the adapter, and adds the names of their tensors to `used`.
std::vector<LoraPair> find_pairs(const Input& adapter, const TensorsByName& names, std::set<std::string_view>& used) {
  std::vector<LoraPair> pairs;
  for (const Tensor& down : adapter.set()) {
    for (const format::LoraNames& words : format::kLoraNames) {
      const std::size_t at = down.name().rfind(words.first);
      if (at == std::string_view::npos) continue;
      const std::string module(down.name().substr(0, at));
      const std::string_view rest = down.name().substr(at + words.first.size());
      const auto up = names.find(formatted("{}{}{}", module, words.second, rest));
      if (up == names.end() || !is_pair(down, up->second)) continue;
      used.insert({down.name(), up->first});
      pairs.push_back(
          {.module = module, .down = down, .up = up->second, .base = std::nullopt, .rank = down.shape()[0]});
      break;
    }
  }
  return pairs;
}

// The tensors of a model by the names that a pair may have for them.
class Modules {
 public:
  explicit Modules(const TensorsByName& names) {
    for (const auto& [name, tensor] : names) {
      std::string module(name.substr(0, name.ends_with(".weight") ? name.size() - 7 : name.size()));
      std::string joined = module;
      std::ranges::replace(joined, '.', '_');
      modules_.emplace(std::move(module), tensor);
      joined_.emplace(std::move(joined), tensor);
    }
  }
  [[nodiscard]] std::optional<Tensor> find(std::string_view module) const {
    const bool dotted = module.find('.') != std::string_view::npos;
    const auto& names = dotted ? modules_ : joined_;
    while (!module.empty()) {
      if (const auto found = names.find(module); found != names.end()) return found->second;
      const std::size_t end = module.find(dotted ? '.' : '_');
      module.remove_prefix(end == std::string_view::npos ? module.size() : end + 1);
    }
    return std::nullopt;
  }

 private:
  std::map<std::string, Tensor, std::less<>> modules_;
  std::map<std::string, Tensor, std::less<>> joined_;
};

// Returns the scales of pairs without an alpha of their own: from the metadata that kohya's trainer writes, or from
// adapter_config.json. The trainer writes "None" if each pair has an alpha of its own.
LoraScales common_scales(const Input& adapter, const std::string& path, Console& console) {
  for (const File& file : adapter.files()) {
    const auto noted = file.metadata().find("ss_network_alpha");
    if (noted && parse_alpha(*noted)) return LoraScales(ModelConfig{.lora_alpha = std::string(*noted)});
  }
  if (path == kStandardInput || adapter.files().empty()) return LoraScales({});
  const std::string& file = adapter.files()[0].path();
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  const Result<ModelConfig> config = read_model_config(folder);
  if (!config) {
    console.message(formatted("notice: {}: using a scale of 1", config.error().to_string()));
    return LoraScales({});
  }
  LoraScales scales(*config);
  if (scales.unknown())
    console.message(
        formatted("notice: the expression {} of alpha_pattern cannot be used: modules that it fits have "
                  "another scale",
                  printable(*scales.unknown())));
  return scales;
}

// Returns the alphas that pairs have of their own, by the name of the tensor. The tensors may have any dtype: trainers
// store a whole number as I64, which read_as<float>() refuses.
Result<std::map<std::string_view, double>> own_alphas(const std::vector<LoraPair>& pairs, const Input& adapter,
                                                      const TensorsByName& names) {
  std::set<std::string_view> wanted;
  for (const LoraPair& pair : pairs) {
    const auto found = names.find(pair.module + ".alpha");
    if (found != names.end() && found->second.numel() == 1) wanted.insert(found->first);
  }
  StatsOptions options;
  options.select = [&](const Tensor& tensor) { return wanted.contains(tensor.name()); };
  const Result<std::vector<TensorStats>> found = stats(adapter.set(), options);
  if (!found) return found.error();
  std::map<std::string_view, double> alphas;
  for (const TensorStats& one : *found) alphas.emplace(one.tensor.name(), one.finite() == 1 ? one.mean : std::nan(""));
  return alphas;
}

Status set_scales(std::vector<LoraPair>& pairs, const Input& adapter, const TensorsByName& names,
                  const LoraScales& common, std::set<std::string_view>& used) {
  const Result<std::map<std::string_view, double>> alphas = own_alphas(pairs, adapter, names);
  if (!alphas) return alphas.error();
  for (LoraPair& pair : pairs) {
    if (const auto own = alphas->find(pair.module + ".alpha"); own != alphas->end()) {
      pair.scale = own->second / static_cast<double>(pair.rank);
      used.insert(names.find(own->first)->first);
    } else {
      pair.scale = common.scale(pair.module, pair.rank);
    }
  }
  return {};
}

// Adds the lower half of X x X^T to the sums. Row i of X begins at x[i * stride] and has `count` elements, which are
// `step` apart.
void add_products(std::vector<double>& sums, const std::vector<float>& x, std::size_t rank, std::size_t stride,
                  std::size_t step, std::size_t count) {
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) {
        sum += static_cast<double>(x[i * stride + k * step]) * static_cast<double>(x[j * stride + k * step]);
      }
      sums[i * rank + j] += sum;
    }
  }
}

// Returns the lower half of down x down^T if `first` is true (the rank is the first dimension), otherwise of up^T x up.
// Reads the other dimension in blocks.
Result<std::vector<double>> gram_matrix(const Tensor& matrix, bool first) {
  const auto rank = static_cast<std::size_t>(matrix.shape()[first ? 0 : 1]);
  const std::uint64_t length = matrix.shape()[first ? 1 : 0];
  const std::uint64_t rest = elements_from(matrix.shape(), 2);
  const std::uint64_t step = std::max<std::uint64_t>(1, kBlockElements / (rank * rest));
  std::vector<double> sums(rank * rank);
  for (std::uint64_t begin = 0; begin < length; begin += step) {
    if (Interrupt::caught()) return Error{.code = Errc::cancelled, .path = {}, .message = "cancelled"};
    const std::uint64_t end = std::min(length, begin + step);
    const auto from = static_cast<std::int64_t>(begin);
    const DimSlice part = DimSlice::range(from, static_cast<std::int64_t>(end));
    const Result<std::vector<float>> block = matrix.read_as<float>(first ? Slice{DimSlice::all(), part} : Slice{part});
    if (!block) return block.error();
    const auto count = static_cast<std::size_t>((end - begin) * rest);
    if (first) {
      add_products(sums, *block, rank, count, 1, count);
    } else {
      add_products(sums, *block, rank, 1, rank, count);
    }
  }
  return sums;
}

// Returns whether the matrices are small enough, and all dimensions of `up` after the second are 1.
bool computable(const LoraPair& pair) {
  return pair.rank <= kMaxRank && pair.rank * elements_from(pair.down.shape(), 2) <= 16 * kBlockElements &&
         elements_from(pair.up.shape(), 2) == 1;
}

Status set_change(LoraPair& pair) {
  if (!computable(pair)) return {};
  const Result<std::vector<double>> down = gram_matrix(pair.down, true);
  if (!down) return down.error();
  const Result<std::vector<double>> up = gram_matrix(pair.up, false);
  if (!up) return up.error();
  const auto rank = static_cast<std::size_t>(pair.rank);
  double sum = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t j = 0; j <= i; ++j) sum += (i == j ? 1 : 2) * (*down)[i * rank + j] * (*up)[i * rank + j];
  }
  pair.change = std::abs(pair.scale) * std::sqrt(sum < 0 ? 0 : sum);  // rounding can make a sum of 0 negative
  return {};
}

Status set_base_norms(std::vector<LoraPair>& pairs, const Input& model, Console& console) {
  std::map<std::string_view, std::vector<LoraPair*>> wanted;
  for (LoraPair& pair : pairs) {
    if (pair.base) wanted[pair.base->name()].push_back(&pair);
  }
  StatsOptions options;
  options.select = [&](const Tensor& tensor) { return wanted.contains(tensor.name()); };
  options.progress = shown_progress(console);
  const Result<std::vector<TensorStats>> found = stats(model.set(), options);
  if (!found) return found.error();
  for (const TensorStats& one : *found) {
    // stats() leaves out NaN and infinities, but no norm of the other elements is that of the tensor.
    const double finite = static_cast<double>(one.finite());
    const double squares = one.finite() == one.count ? finite * (one.variance() + one.mean * one.mean) : std::nan("");
    for (LoraPair* const pair : wanted[one.tensor.name()]) pair->base_norm = std::sqrt(squares);
  }
  return {};
}

std::string relative_text(const LoraPair& pair) {
  if (!pair.base) return "no tensor in A";
  const std::optional<double> relative = pair.relative();
  if (!relative) return "-";
  return std::isnan(*relative) ? "nan" : formatted("{:.3g} %", 100 * *relative);
}

void json_number(Json& json, const char* key, const std::optional<double>& value) {
  json.key(key);
  if (!value) {
    json.null();
  } else if (std::isfinite(*value)) {
    json.raw(formatted("{}", *value));
  } else {
    json.string(std::isnan(*value) ? "nan" : "inf");
  }
}

}  // namespace

std::optional<double> LoraPair::relative() const {
  if (!change || !base_norm || *base_norm == 0) return std::nullopt;
  return *change / *base_norm;
}

Result<LoraDiff> diff_lora(const Input& model, const Input& adapter, const std::string& path,
                           const Selection& selection, Console& console) {
  const TensorsByName names = tensors_by_name(adapter);
  const Modules modules(tensors_by_name(model));
  std::set<std::string_view> used;
  LoraDiff result{.pairs = find_pairs(adapter, names, used)};
  if (result.pairs.empty()) {
    return Error{
        .code = Errc::invalid_argument,
        .path = {},
        .message = "no low-rank adapter: no two tensors are called like lora_A and lora_B, or lora_down and lora_up"};
  }
  Status status = set_scales(result.pairs, adapter, names, common_scales(adapter, path, console), used);
  for (LoraPair& pair : result.pairs) {
    const std::optional<Tensor> base = modules.find(pair.module);
    const std::uint64_t elements = pair.up.shape()[0] * elements_from(pair.down.shape(), 1);
    if (base && base->numel() == elements) pair.base = base;
  }
  if (!selection.empty()) {
    std::erase_if(result.pairs,
                  [&](const LoraPair& pair) { return !pair.base || !selection.selects(pair.base->info()); });
  }
  for (LoraPair& pair : result.pairs) {
    if (status) status = set_change(pair);
  }
  if (status) status = set_base_norms(result.pairs, model, console);
  if (!status) return status.error();
  result.others = names.size() - used.size();
  return result;
}

void sort_pairs(std::vector<LoraPair>& pairs, std::string_view sort) {
  if (sort.empty()) return;
  std::ranges::stable_sort(pairs,
                           [](const LoraPair& a, const LoraPair& b) { return natural_less(a.module, b.module); });
  if (sort != "max-error") return;
  // NaN comes first, unknown numbers last.
  std::ranges::stable_sort(pairs, std::greater<>(), [](const LoraPair& pair) {
    const double relative = pair.relative().value_or(-1);
    return std::isnan(relative) ? HUGE_VAL : relative;
  });
}

void print_lora(Console& console, const LoraDiff& found, const DiffView& view, bool brief) {
  using Align = Table::Align;
  using Narrow = Table::Narrow;
  const std::uint64_t rows = std::min<std::uint64_t>(found.pairs.size(), view.top.value_or(found.pairs.size()));
  Table table({{"NAME", Align::left, Narrow::name},
               {"RANK", Align::right},
               {"SCALE", Align::right},
               {"CHANGE", Align::right},
               {"RELATIVE", Align::right}});
  std::uint64_t without = 0;
  for (std::size_t i = 0; i < found.pairs.size(); ++i) {
    const LoraPair& pair = found.pairs[i];
    if (!pair.base) ++without;
    if (i >= rows) continue;
    const std::string_view name = pair.base ? pair.base->name() : std::string_view(pair.module);
    table.row({printable(name), grouped(pair.rank), formatted("{:.4g}", pair.scale),
               pair.change ? formatted("{:.4g}", *pair.change) : "-", relative_text(pair)});
  }
  if (!brief && rows > 0) table.print(console);
  if (!brief && rows < found.pairs.size())
    console.out(formatted("... and {}\n", counted(found.pairs.size() - rows, "adapter")));
  std::string text = counted(found.pairs.size(), "adapter");
  if (without > 0) text += formatted(", {} for no tensor in A", grouped(without));
  if (found.others > 0) text += formatted("; {} in B in no pair", counted(found.others, "tensor"));
  console.line(text, 2);
}

void json_lora(Json& json, const LoraDiff& found) {
  json.line().key("adapters").open('[');
  for (const LoraPair& pair : found.pairs) {
    json.line().open('{').field("module", pair.module).key("tensor");
    if (pair.base) {
      json.string(pair.base->name());
    } else {
      json.null();
    }
    json.field("rank", pair.rank);
    json_number(json, "scale", pair.scale);
    json_number(json, "change", pair.change);
    json_number(json, "relative", pair.relative());
    json.close('}');
  }
  json.close(']').field("other_tensors", found.others);
}

}  // namespace safetensors::cli
