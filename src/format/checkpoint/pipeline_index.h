// model_index.json of a pipeline of diffusers, which lists the components of the pipeline.
#pragma once

#include <safetensors/error.h>

#include <string>
#include <vector>

namespace safetensors::format {

struct PipelineComponent {
  std::string name;        // of its folder, if the file is one of diffusers. Strangers choose it
  std::string library;     // "diffusers"
  std::string class_name;  // "AutoencoderKL"
};

// Returns the members `"NAME": ["LIBRARY", "CLASS"]` of the object, in the order of the text. Skips other members, such
// as `[null, null]` of a component that is left out, and members whose names begin with `_`. Errors: those
// of JSON and UTF-8, with the offset in the text. Throws std::bad_alloc.
[[nodiscard]] Result<std::vector<PipelineComponent>> parse_pipeline_index(std::string text);

}  // namespace safetensors::format
