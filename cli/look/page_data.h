// Writes the page: the constant parts (page.h), and between them one JSON document with the data of a model.
#pragma once

#include "input.h"
#include "page_writer.h"

#include <safetensors/stats.h>

#include <string>
#include <vector>

namespace safetensors::cli {

struct PageContent {
  std::string path;             // for display, not escaped
  std::vector<Listed> tensors;  // the tensors that the page shows
  std::vector<TensorStats> stats;
  bool has_stats = false;  // true: `stats` has one element per element of `tensors`
};

// Writes the whole page. Ask PageWriter::finish() for errors.
void write_page(PageWriter& page, const Input& input, const PageContent& content);

}  // namespace safetensors::cli
