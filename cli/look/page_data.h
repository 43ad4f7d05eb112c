// The page of inspect: the constant parts (page.h), and the data of a file as one JSON document between them.
#pragma once

#include "input.h"
#include "page_config.h"
#include "page_values.h"
#include "page_writer.h"

#include <safetensors/lint.h>
#include <safetensors/stats.h>

#include <string>
#include <vector>

namespace safetensors::cli {

struct PageContent {
  std::string path;             // for display, not escaped
  std::vector<Listed> tensors;  // those that the page shows
  std::vector<TensorStats> stats;
  bool has_stats = false;  // then `stats` has one element per element of `tensors`
  std::vector<LintFinding> findings;
  std::vector<ValueSample> samples;
  std::uint64_t more_samples = 0;  // tensors of --values that are left out
  ShownConfig config;
};

void write_page(PageWriter& page, const Input& input, const PageContent& content);

}  // namespace safetensors::cli
