/** @file
 * The version of the library, the visibility of its symbols, and a check of the byte order. Every public header
 * includes this one. */
#pragma once

/* Tensors are little-endian on every machine, in files and in memory. On a big-endian machine, a program that passes
 * its own elements unchanged would write wrong numbers. Therefore it does not compile until you define
 * SAFETENSORS_LITTLE_ENDIAN_BYTES. With this macro you state that your program swaps bytes. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && !defined(SAFETENSORS_LITTLE_ENDIAN_BYTES)
#error "tensors are little-endian, this machine is not: swap bytes, and define SAFETENSORS_LITTLE_ENDIAN_BYTES"
#endif

/** First number of the version: MAJOR.MINOR.PATCH. */
#define SAFETENSORS_VERSION_MAJOR 0
/** Second number of the version. */
#define SAFETENSORS_VERSION_MINOR 8
/** Third number of the version. */
#define SAFETENSORS_VERSION_PATCH 0

/** The version with the number of this release, as safetensors_version_string() returns it. */
#define SAFETENSORS_VERSION_STRING "0.8.0+cpp.1"

/** @def SAFETENSORS_API
 * Marks a function that the library exports. A shared library exports it, and SAFETENSORS_SHARED says that the library
 * is shared: CMake and pkg-config define it for you. Without it the function is hidden: a program or a plugin with a
 * static copy of the library exports no function of that copy, and uses no function of another copy. */
/** @def SAFETENSORS_API_CLASS
 * Marks a class whose type information the shared library exports. In a static library the class has the visibility of
 * your own classes, so that you can derive from it without a warning. */
#if defined(_WIN32)
#define SAFETENSORS_API_CLASS
#if !defined(SAFETENSORS_SHARED)
#define SAFETENSORS_API
#elif defined(safetensors_EXPORTS)
#define SAFETENSORS_API __declspec(dllexport)
#else
#define SAFETENSORS_API __declspec(dllimport)
#endif
#elif defined(__GNUC__) && defined(SAFETENSORS_SHARED)
#define SAFETENSORS_API __attribute__((visibility("default")))
#define SAFETENSORS_API_CLASS SAFETENSORS_API
#elif defined(__GNUC__)
#define SAFETENSORS_API __attribute__((visibility("hidden")))
#define SAFETENSORS_API_CLASS
#else
#define SAFETENSORS_API
#define SAFETENSORS_API_CLASS
#endif
