// Folds text into a narrow column, between its words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace safetensors::cli {

// Fits the name of a tensor or module into `columns` columns (1 or more). An ellipsis replaces whole words: first the
// parts between dots from the left, but neither numbers nor the last two parts, then the last part, then words between
// underscores. "model.layers.10.self_attn.q_proj.weight" becomes "…10…q_proj.weight". Only a name without other words
// to give breaks inside of a word. name: UTF-8 from printable(), perhaps indented.
[[nodiscard]] std::string fold_name(std::string_view name, std::size_t columns);

// Fits text into `columns` columns (1 or more). An ellipsis replaces words in the middle, which end at spaces and
// commas. text: UTF-8 from printable().
[[nodiscard]] std::string fold_words(std::string_view text, std::size_t columns);

// Breaks text into lines of at most `columns` columns, at spaces. Lines that are made have `indent` spaces before them.
// A word that is wider than a line stays whole. columns 0: the text as it is.
[[nodiscard]] std::string wrap_words(std::string_view text, std::size_t columns, std::size_t indent);

}  // namespace safetensors::cli
