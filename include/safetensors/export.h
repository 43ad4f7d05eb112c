// Visibility of the library's symbols, its version, and the byte order. Included by every public header.
#pragma once

// Bytes of tensors are little-endian, in files and in memory, on every machine. Where elements in memory are
// big-endian, a program that handed them over as they are would write wrong numbers, so it does not compile until it
// says that it swaps bytes itself.
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && !defined(SAFETENSORS_LITTLE_ENDIAN_BYTES)
#error "tensors are little-endian, this machine is not: swap bytes, and define SAFETENSORS_LITTLE_ENDIAN_BYTES"
#endif

#define SAFETENSORS_VERSION_MAJOR 0
#define SAFETENSORS_VERSION_MINOR 8
#define SAFETENSORS_VERSION_PATCH 0

#if defined(_WIN32) && defined(SAFETENSORS_SHARED)
#if defined(SAFETENSORS_BUILDING)
#define SAFETENSORS_API __declspec(dllexport)
#else
#define SAFETENSORS_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define SAFETENSORS_API __attribute__((visibility("default")))
#else
#define SAFETENSORS_API
#endif
