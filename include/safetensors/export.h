// Visibility of the library's symbols and its version. Included by every public header.
#pragma once

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
