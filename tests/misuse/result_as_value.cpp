// A Result is not its value: the error has to be looked at.
#include <safetensors/safetensors.h>

std::uint64_t total(std::string_view text) {
#ifdef MISUSE
  const safetensors::Header header = safetensors::Header::parse(text, 0);  // expect: conversion
#else
  const safetensors::Header header = safetensors::Header::parse(text, 0).value();
#endif
  return header.data_bytes();
}
