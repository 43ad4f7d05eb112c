// model_index.json of a pipeline: the members that are components, and the errors.
#include "format/checkpoint/pipeline_index.h"

#include <gtest/gtest.h>

#include <string>

#include "support/io_support.h"

namespace safetensors::format {
namespace {

using test::error_of;

std::string names_of(std::string text) {
  const Result<std::vector<PipelineComponent>> components = parse_pipeline_index(std::move(text));
  if (!components) return components.error().message;
  std::string names;
  for (const PipelineComponent& one : *components) names += one.name + "=" + one.library + "." + one.class_name + ";";
  return names;
}

TEST(PipelineIndex, ReturnsPairsOfStrings) {
  EXPECT_EQ(names_of("{}"), "");
  EXPECT_EQ(
      names_of(R"({"_class_name": "P", "_x": ["a", "b"], "unet": ["diffusers", "UNet"], "v\u0061e": ["a", "b"]})"),
      "unet=diffusers.UNet;vae=a.b;");
  EXPECT_EQ(names_of(R"({"a": [null, null], "b": ["x"], "c": ["x", "y", "z"], "d": ["x", 1], "e": [1, "x"], "f": [],)"
                     R"( "g": [["x", "y"], {"x": ["y", "z"]}], "h": {"i": ["x", "y"]}, "j": true, "k": ["", ""]})"),
            "k=.;");
}

TEST(PipelineIndex, RefusesInvalidText) {
  for (const char* text : {"", "{", "[]", "{} x", R"({"a": ["x", "y"],})", R"({"a": ["x", "y"})", R"({"a": ["x" "y"]})",
                           R"({"a" ["x", "y"]})", "{\"a\": [\"\x01\", \"y\"]}"})
    EXPECT_NE(error_of(parse_pipeline_index(text)).code, Errc::ok) << text;
  EXPECT_EQ(error_of(parse_pipeline_index("{\"a\": [\"\xff\", \"y\"]}")).code, Errc::invalid_utf8);
  EXPECT_EQ(error_of(parse_pipeline_index(R"({"a": )" + std::string(1000, '['))).offset, 6U + 126U);
}

}  // namespace
}  // namespace safetensors::format
