// Loads the fake driver of the tests, and libraries that do not exist.
#include "os/dynamic_library.h"

#include <gtest/gtest.h>

#include <string>

namespace safetensors::os {
namespace {

TEST(DynamicLibrary, FindsFunctions) {
  const DynamicLibrary library(SAFETENSORS_FAKE_CUDA);
  ASSERT_TRUE(library.loaded()) << DynamicLibrary::last_error();
  EXPECT_NE(library.function<int(unsigned)>("cuInit"), nullptr);
  EXPECT_EQ(library.function<int(unsigned)>("cuNothing"), nullptr);
}

TEST(DynamicLibrary, NamesFailureOnce) {
  (void)DynamicLibrary::last_error();
  const DynamicLibrary library("libsafetensors-no-such-library.so");
  EXPECT_FALSE(library.loaded());
  const char* const error = DynamicLibrary::last_error();
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error).find("libsafetensors-no-such-library.so"), std::string::npos);
  EXPECT_EQ(DynamicLibrary::last_error(), nullptr);
}

}  // namespace
}  // namespace safetensors::os
