// Reads at most 1 MiB of model_index.json, because it comes from strangers. Then lists the folder of each component
// that is a model.
#include "pipeline.h"

#include "console.h"
#include "text/formatted.h"
#include "text/size.h"

#include "format/checkpoint/pipeline_index.h"
#include "os/regular_file.h"

#include <safetensors/error.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kMaxBytes = 1 << 20;  // of model_index.json; those of diffusers have 0.5 to 2 KiB

// The names of classes of diffusers and transformers that have no weights end in one of these words.
constexpr std::string_view kWithoutWeights[] = {
    "Scheduler",      "Tokenizer",          "TokenizerFast", "FeatureExtractor", "FeatureExtractorFast",
    "ImageProcessor", "ImageProcessorFast", "Processor",
};
constexpr std::string_view kOtherFormats[] = {".bin", ".msgpack", ".onnx", ".pt", ".pth", ".ckpt", ".h5"};

bool ends_in_one_of(std::string_view name, std::span<const std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

using format::PipelineComponent;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find_first_of(std::string_view("/\\:\0", 4)) == name.npos;
}

// Reads the components in model_index.json. The offset of an error counts from the start of the file.
Result<std::vector<PipelineComponent>> read_components(const std::string& path) {
  const auto file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->identity().size;
  if (size > kMaxBytes)
    return Error{.code = Errc::invalid_argument,
                 .message = formatted("{}, at most {} are read", counted(size, "byte"), grouped(kMaxBytes))};
  std::string text(static_cast<std::size_t>(size), '\0');
  const Status status = os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text)));
  if (!status) return status.error();
  return format::parse_pipeline_index(std::move(text));
}

// Returns whether a loader fails without the weights of the class. The classes of other libraries are unknown.
bool needs_weights(const PipelineComponent& component) {
  return component.library == "diffusers" || component.library == "transformers" ||
         component.class_name.ends_with("SafetyChecker");
}

std::optional<Lack> lack_of(const std::string& folder, const PipelineComponent& component) {
  const std::string path = path_in_folder(folder, component.name);
  const auto note = [&](std::string text) { return Lack{path, Lack::Kind::note, "not checked: " + std::move(text)}; };
  const FolderNames inside = names_in(path);
  std::error_code failed;
  if (!inside.whole && std::filesystem::exists(path, failed)) return std::nullopt;  // has an error of its own
  if (holds_models(inside)) {
    if (!std::filesystem::is_symlink(path, failed)) return std::nullopt;
    return note("a symlink to a folder");
  }
  const auto other =
      std::ranges::find_if(inside.files, [](const std::string& name) { return ends_in_one_of(name, kOtherFormats); });
  if (other != inside.files.end()) return note(formatted("its weights have another format: {}", printable(*other)));
  if (!needs_weights(component))
    return note(formatted("no weights, and the class {} of {} is unknown", printable(component.class_name),
                          printable(component.library)));
  return Lack{path, Lack::Kind::missing, formatted("no weights, but {} lists it", kPipelineIndex)};
}

}  // namespace

std::vector<Lack> pipeline_lacks(const std::string& folder, const FolderNames& names) {
  if (!std::ranges::binary_search(names.files, std::string(kPipelineIndex))) return {};
  const std::string path = path_in_folder(folder, kPipelineIndex);
  const Result<std::vector<PipelineComponent>> components = read_components(path);
  if (!components) {
    Error error = components.error();
    if (format_rule(error.code) != 0) error.code = Errc::invalid_argument;  // the rules are those of headers
    return {{path, Lack::Kind::invalid, describe(error)}};
  }
  std::vector<Lack> lacks;
  for (const PipelineComponent& component : *components) {
    if (!is_plain_name(component.name) || ends_in_one_of(component.class_name, kWithoutWeights)) continue;
    if (auto lack = lack_of(folder, component)) lacks.push_back(*std::move(lack));
  }
  return lacks;
}

}  // namespace safetensors::cli
