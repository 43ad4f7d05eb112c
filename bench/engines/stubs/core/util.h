// What the reader of stable-diffusion.cpp uses of its engine.
#pragma once

#include <string>

#define LOG_INFO(...) static_cast<void>(0)

inline bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
