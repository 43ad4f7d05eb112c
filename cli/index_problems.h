// Shows the problems of an index, for the verbs verify and index.
#pragma once

#include "console.h"
#include "json_output.h"

#include "write/checkpoint_index.h"

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Prints one line per problem: the path, `error` or `note`, and the message. Prints at most 20 problems of one kind,
// and then the number of the others.
void print_problems(Console& console, const std::string& path, std::string_view error, std::string_view note,
                    const std::vector<IndexProblem>& problems);

// Writes the member `key`, an array with one object per problem.
void json_problems(Json& json, std::string_view key, const std::vector<IndexProblem>& problems);

}  // namespace safetensors::cli
