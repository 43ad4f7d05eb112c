// A Result is not its value: you must check for an error first.
#include <safetensors/safetensors.h>

std::uint64_t total(std::string_view text) {
#ifdef MISUSE
  const safetensors::Header header = safetensors::Header::parse(text, 0);  // expect: conversion
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
#endif
  return header.data_bytes();
}
