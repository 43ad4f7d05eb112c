// Writes the page of inspect: the constant parts (page.h), and between them one JSON document with the data of a model.
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
  std::vector<Listed> tensors;  // the tensors that the page shows
  std::vector<TensorStats> stats;
  bool has_stats = false;  // true: `stats` has one element per element of `tensors`
  std::vector<LintFinding> findings;
  std::vector<ValueSample> samples;
  std::uint64_t more_samples = 0;  // count of the tensors of --values without a sample
  ShownConfig config;
};

// Writes the whole page. Ask PageWriter::finish() for errors.
void write_page(PageWriter& page, const Input& input, const PageContent& content);

}  // namespace safetensors::cli
