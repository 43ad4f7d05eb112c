// Recognizes quantized weights. The names are those that the tools document. Names are not enough: the dtypes must be
// right and the shapes must fit together, and they also give the bits per weight and the weights per scale:
//   GPTQ                [in x bits / 32, out] I32, scales [in / group, out], qzeros [in / group, out x bits / 32]
//   AWQ                 [in, out x bits / 32] I32, scales and qzeros as above
//   compressed-tensors  weight_packed [out, in x bits / 32] I32, weight_scale [out, in / group]
//   bitsandbytes        any bytes, one absmax per group; 8 bits: weight [out, in] I8, SCB [out]
//   MX                  blocks [..., groups, 16] U8 and scales [..., groups] U8, or F4, F6, F8 with scales in F8_E8M0
//   FP8                 weight F8, weight_scale_inv or weight_scale: one number, one per row, or one per block
#include <algorithm>
#include <bit>

#include "check/recognize.h"

namespace safetensors::check {
namespace {

using Entry = ModelTensors::Entry;

bool is_f8(Dtype dtype) noexcept {
  return dtype == Dtype::F8_E4M3 || dtype == Dtype::F8_E5M2 || dtype == Dtype::F8_E4M3FNUZ ||
         dtype == Dtype::F8_E5M2FNUZ;
}

bool may_be_scaled(Dtype dtype) noexcept {
  return is_f8(dtype) || dtype == Dtype::F4 || dtype == Dtype::F6_E2M3 || dtype == Dtype::F6_E3M2;
}

// Returns whether scales of this dtype may be powers of two. torch wrote them as U8 before it had a dtype for them.
bool is_power(Dtype dtype) noexcept {
  return dtype == Dtype::F8_E8M0 || dtype == Dtype::U8;
}

bool is_float(Dtype dtype) noexcept {
  return dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16 || dtype == Dtype::F64;
}

bool has_rank(const Entry* entry, std::size_t rank) noexcept {
  return entry != nullptr && entry->info->shape.size() == rank && entry->info->nbytes() != 0;
}

// a x b, or 0 if this is more than any tensor has.
std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
  return b != 0 && a > UINT64_MAX / b ? 0 : a * b;
}

std::uint64_t last_dimension(const Entry& entry) noexcept {
  return entry.info->shape[entry.info->shape.size() - 1];
}

// The number of weights per scale, if it divides.
std::uint64_t group_of(std::uint64_t weights, std::uint64_t scales) noexcept {
  return scales != 0 && weights % scales == 0 ? weights / scales : 0;
}

class Quantized {
 public:
  Quantized(ModelTensors& tensors, const ModelConfig& config) : tensors_(tensors), config_(config) {}

  // Looks at the tensor of this name as the main tensor of a module.
  void look(std::string_view name, Entry& entry) {
    const auto ends = [&](std::string_view suffix) {
      if (!name.ends_with(suffix)) return false;
      module_ = name.substr(0, name.size() - suffix.size());
      return true;
    };
    if (ends(".qweight")) return look_at_qweight(entry);
    if (ends(".weight_packed")) return look_at_packed(entry);
    if (ends("_blocks") || ends(".blocks")) return look_at_blocks(name.ends_with(".blocks") ? "." : "_", entry);
    if (ends(".weight") || ends("")) look_at_weight(entry);
  }

  void append(std::vector<ModelFinding>& findings) const {
    for (const auto& [trait, modules] : found_) {
      ModelFinding finding{.trait = trait, .modules = modules.count};
      finding.bits.assign(modules.bits.begin(), modules.bits.end());
      finding.group_sizes.assign(modules.group_sizes.begin(), modules.group_sizes.end());
      for (const std::string& text : modules.evidence)
        finding.evidence += (finding.evidence.empty() ? "" : "; ") + text;
      findings.push_back(std::move(finding));
    }
  }

 private:
  Entry* find(std::string_view suffix) { return tensors_.find(module_, suffix); }

  void add(ModelTrait trait, std::uint64_t bits, std::uint64_t group, std::string evidence) {
    Modules& modules = found_[trait];
    modules.add(bits, group);
    if (modules.evidence.size() < Modules::kMax) modules.evidence.insert(std::move(evidence));
  }

  void look_at_qweight(Entry& entry) {
    Entry* const scales = find(".scales");
    Entry* const zeros = find(".qzeros");
    if (!has_rank(&entry, 2) || !has_rank(scales, 2) || !has_rank(zeros, 2)) return;
    if (entry.info->dtype != Dtype::I32 || zeros->info->dtype != Dtype::I32 || !is_float(scales->info->dtype)) return;
    const std::uint64_t out = last_dimension(*scales);
    const std::uint64_t groups = scales->info->shape[0];
    const std::uint64_t width = last_dimension(entry);
    const std::uint64_t zeros_bits = product(last_dimension(*zeros), 32);
    if (zeros->info->shape[0] != groups || zeros_bits % out != 0) return;
    const std::uint64_t bits = zeros_bits / out;
    if (bits == 0 || bits > 8) return;
    const bool gptq = width == out;
    if (!gptq && width != last_dimension(*zeros)) return;
    const std::uint64_t packed_bits = product(entry.info->shape[0], gptq ? 32 : bits);
    const std::uint64_t in = packed_bits / bits;
    if (in < groups || product(in, out) == 0) return;
    entry.weights = in * out;
    Entry* const index = find(".g_idx");
    for (Entry* const helper : {scales, zeros, index}) tensors_.is_helper(helper);
    add(gptq ? ModelTrait::gptq : ModelTrait::awq, bits, group_of(in, groups),
        index != nullptr ? "`qweight`, `qzeros`, `scales`, `g_idx`" : "`qweight`, `qzeros`, `scales`");
  }

  void look_at_packed(Entry& entry) {
    Entry* const scale = find(".weight_scale");
    if (!has_rank(&entry, 2) || scale == nullptr || scale->info->nbytes() == 0) return;
    const Dtype scale_dtype = scale->info->dtype;
    const bool words = entry.info->dtype == Dtype::I32 && is_float(scale_dtype);
    const bool nibbles = entry.info->dtype == Dtype::U8 && (scale_dtype == Dtype::F8_E4M3 || is_power(scale_dtype));
    if (!words && !nibbles) return;
    std::uint64_t bits = nibbles ? 4 : config_.bits.value_or(0);
    if (bits > 8 || (words && bits == 0 && find(".weight_shape") == nullptr)) return;
    if (bits == 0) {
      entry.unknown = true;
      entry.weights = 0;
    } else {
      entry.weights = nibbles ? entry.info->numel() * 2 : product(entry.info->numel(), 32) / bits;
    }
    const std::uint64_t group = group_of(entry.weights, scale->info->numel());
    for (const char* const helper : {".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx",
                                     ".weight_global_scale", ".input_global_scale"})
      tensors_.is_helper(find(helper));
    add(ModelTrait::compressed_tensors, bits, group,
        bits == 0 ? "`weight_packed`, `weight_scale`; the configuration would tell the bits"
                  : "`weight_packed`, `weight_scale`");
  }

  void look_at_blocks(std::string_view separator, Entry& entry) {
    Entry* const scales = find(std::string(separator) + "scales");
    if (entry.info->dtype != Dtype::U8 || scales == nullptr || scales->info->nbytes() == 0) return;
    const ShapeView shape = entry.info->shape;
    const ShapeView groups = scales->info->shape;
    if (!is_power(scales->info->dtype)) return;
    if (shape.size() != groups.size() + 1 || !std::ranges::equal(groups, shape.first(groups.size()))) return;
    if (last_dimension(entry) != 16) return;
    entry.weights = entry.info->numel() * 2;
    tensors_.is_helper(scales);
    add(ModelTrait::mx, 4, 32, "MXFP4: `blocks`, `scales`");
  }

  void look_at_weight(Entry& entry) {
    if (entry.info->nbytes() == 0) return;
    const Dtype dtype = entry.info->dtype;
    const bool named = module_.size() != entry.info->name.size();  // the name ends in .weight
    if (look_at_bitsandbytes(entry)) return;
    if (may_be_scaled(dtype)) return look_at_scales(entry);
    Entry* const scale = named ? find(".weight_scale") : nullptr;
    if (scale == nullptr || !has_rank(&entry, 2)) return;
    if (dtype == Dtype::I8 && is_float(scale->info->dtype)) {
      tensors_.is_helper(scale);
      tensors_.is_helper(find(".weight_zero_point"));
      return add(ModelTrait::compressed_tensors, 8, group_of(entry.weights, scale->info->numel()),
                 "I8 `weight`, `weight_scale`");
    }
    // Two F4 per byte, and a scale per 16 of them.
    const bool nvfp4 = dtype == Dtype::U8 && scale->info->dtype == Dtype::F8_E4M3 && find(".weight_scale_2") != nullptr;
    if (!nvfp4 || group_of(entry.info->numel() * 2, scale->info->numel()) != 16) return;
    entry.weights = entry.info->numel() * 2;
    for (const char* const helper : {".weight_scale", ".weight_scale_2", ".input_scale"})
      tensors_.is_helper(find(helper));
    add(ModelTrait::nvfp4, 4, 16, "U8 `weight`, `weight_scale`, `weight_scale_2`");
  }

  bool look_at_bitsandbytes(Entry& entry) {
    const std::string_view name = entry.info->name;
    if (Entry* const statistics = find(".SCB"); statistics != nullptr && name.ends_with(".weight")) {
      if (entry.info->dtype != Dtype::I8 || !has_rank(&entry, 2) || !has_rank(statistics, 1)) return false;
      if (statistics->info->numel() != entry.info->shape[0]) return false;
      tensors_.is_helper(statistics);
      tensors_.is_helper(find(".weight_format"));
      add(ModelTrait::bitsandbytes, 8, last_dimension(entry), "I8 `weight`, `SCB`");
      return true;
    }
    Entry* const absmax = tensors_.find(name, ".absmax");
    Entry* const map = tensors_.find(name, ".quant_map");
    if (!has_rank(absmax, 1) || !has_rank(map, 1) || map->info->numel() != 16) return false;
    entry.weights = product(entry.info->nbytes(), 2);  // the bytes may have any dtype
    entry.unknown = false;
    std::string kind = "4 bits";
    for (const char* const word : {"nf4", "fp4"}) {
      Entry* const state = tensors_.find(name, std::string(".quant_state.bitsandbytes__") + word);
      if (state != nullptr) kind = word;
      tensors_.is_helper(state);
    }
    const bool nested = tensors_.find(name, ".nested_absmax") != nullptr;
    for (const char* const helper : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
      tensors_.is_helper(tensors_.find(name, helper));
    add(ModelTrait::bitsandbytes, 4, group_of(entry.weights, absmax->info->numel()),
        kind + ": `absmax`, `quant_map`" + (nested ? ", with quantized scales" : ""));
    return true;
  }

  // F4, F6 and F8 weights with scales.
  void look_at_scales(Entry& entry) {
    const std::string_view name = entry.info->name;
    for (const char* const suffix : {"_scale_inv", "_scale", "_scales"}) {
      Entry* const scale = tensors_.find(name, suffix);
      if (scale == nullptr || scale->info->nbytes() == 0) continue;
      const std::uint64_t group = group_of(entry.info->numel(), scale->info->numel());
      const std::string dtype(to_string(entry.info->dtype));
      if (is_power(scale->info->dtype) && group == 32) {
        tensors_.is_helper(scale);
        return add(ModelTrait::mx, bits(entry.info->dtype), 32,
                   "MX: " + dtype + " with scales in " + std::string(to_string(scale->info->dtype)));
      }
      if (scale->info->dtype == Dtype::F8_E4M3 && entry.info->dtype == Dtype::F4 && group == 16) {
        tensors_.is_helper(scale);
        tensors_.is_helper(tensors_.find(name, "_scale_2"));
        return add(ModelTrait::nvfp4, 4, 16, "F4 with scales in F8_E4M3");
      }
      if (!is_f8(entry.info->dtype) || !is_float(scale->info->dtype)) continue;
      const std::string per = scale_range(entry, *scale);
      if (per.empty()) continue;
      tensors_.is_helper(scale);
      tensors_.is_helper(find(".input_scale"));
      return add(ModelTrait::fp8, 8, 0, dtype + ", one `" + (suffix + 1) + "` per " + per);
    }
  }

  // "tensor", "row", "block of 128 x 128". Empty if the shapes do not fit.
  static std::string scale_range(const Entry& entry, const Entry& scale) {
    const ShapeView shape = entry.info->shape;
    const ShapeView scales = scale.info->shape;
    const std::uint64_t count = scale.info->numel();
    if (count == 1) return "tensor";
    if (shape.size() < 2) return {};
    if (count == shape[0] && scales[0] == shape[0]) return "row";
    if (scales.size() != shape.size()) return {};
    std::string text;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (scales[i] == 0 || scales[i] > shape[i]) return {};
      // The last block may be smaller, so the size is not in the shapes. Tools take powers of two.
      const std::uint64_t smallest = (shape[i] - 1) / scales[i] + 1;
      if (smallest > std::uint64_t{1} << 32) return {};
      const std::uint64_t block = std::bit_ceil(smallest);
      const bool fits = (shape[i] - 1) / block + 1 == scales[i];
      text += (i == 0 ? "" : " x ") + std::to_string(fits ? block : smallest);
    }
    return "block of " + text;
  }

  ModelTensors& tensors_;
  const ModelConfig& config_;
  std::string_view module_;
  std::map<ModelTrait, Modules> found_;
};

}  // namespace

void recognize_quantized(ModelTensors& tensors, const ModelConfig& config, std::vector<ModelFinding>& findings) {
  Quantized quantized(tensors, config);
  for (auto& [name, entry] : tensors.all()) quantized.look(name, entry);
  quantized.append(findings);
}

}  // namespace safetensors::check
