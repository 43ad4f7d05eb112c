// Reports in the C interface: each field, and fallbacks. The fallbacks are made here, because no system is sure to need
// one.
#include <gtest/gtest.h>

#include <string>

#include "c/support.h"

namespace {

safetensors_read_report report_with_everything() {
  return {safetensors::ReadReport{.bytes = 1,
                                  .bytes_buffered = 2,
                                  .bytes_direct = 3,
                                  .bytes_mapped = 4,
                                  .bytes_device = 10,
                                  .pinned_bytes = 11,
                                  .reads = 5,
                                  .page_faults = 6,
                                  .threads = 7,
                                  .seconds = 8.5,
                                  .cpu_seconds = 9.5,
                                  .cache = safetensors::Cache::fill,
                                  .fallbacks = {"first", "second"}}};
}

TEST(CReport, GivesEachField) {
  const safetensors_read_report report = report_with_everything();
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  ASSERT_EQ(safetensors_read_report_get_info(&report, &info, nullptr), SAFETENSORS_OK);
  EXPECT_EQ(info.bytes, 1U);
  EXPECT_EQ(info.bytes_buffered, 2U);
  EXPECT_EQ(info.bytes_direct, 3U);
  EXPECT_EQ(info.bytes_mapped, 4U);
  EXPECT_EQ(info.bytes_device, 10U);
  EXPECT_EQ(info.pinned_bytes, 11U);
  EXPECT_EQ(info.reads, 5U);
  EXPECT_EQ(info.page_faults, 6U);
  EXPECT_EQ(info.threads, 7U);
  EXPECT_EQ(info.seconds, 8.5);
  EXPECT_EQ(info.cpu_seconds, 9.5);
  EXPECT_EQ(info.fallback_count, 2U);
  EXPECT_EQ(info.cache, SAFETENSORS_CACHE_FILL);
}

TEST(CReport, GivesFallbacksByIndex) {
  const safetensors_read_report report = report_with_everything();
  const char* text = nullptr;
  size_t length = 0;
  ASSERT_EQ(safetensors_read_report_fallback(&report, 1, &text, &length, nullptr), SAFETENSORS_OK);
  EXPECT_EQ(std::string(text, length), report.report.fallbacks[1]);
  safetensors_error error;
  EXPECT_EQ(safetensors_read_report_fallback(&report, 2, &text, &length, &error), SAFETENSORS_ERROR_NOT_FOUND);
  EXPECT_STREQ(error.message, "there is no fallback 2, there are 2");
  EXPECT_EQ(text, nullptr);
}

}  // namespace
