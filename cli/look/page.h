// The page of the verb `page`, from the files of cli/look/page. The build embeds them in a .cpp file.
#pragma once

#include <string_view>

namespace safetensors::cli {

extern const std::string_view kPageHtml;    // the body
extern const std::string_view kPageStyle;   // CSS
extern const std::string_view kPageScript;  // JavaScript, which reads the element "data"
// For the Content-Security-Policy: "sha256-...".
extern const std::string_view kPageStyleHash;
extern const std::string_view kPageScriptHash;

}  // namespace safetensors::cli
