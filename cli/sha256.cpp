// SHA-256 by libcrypto of OpenSSL, which picks the instructions of the processor. The build finds libcrypto or leaves
// it out.
//
// With a shared libcrypto, its EVP interface chooses the implementation, as the machine's configuration says. With a
// static one, EVP would link 3.8 MB for one hash function. There, the functions of SHA-256 are called directly, which
// link about 20 KB.
#define OPENSSL_SUPPRESS_DEPRECATED  // OpenSSL 3 calls the direct functions deprecated
#include "sha256.h"

#include "interrupt.h"

#include "os/regular_file.h"

#if defined(SAFETENSORS_STATIC_LIBCRYPTO)
#include <openssl/crypto.h>
#include <openssl/sha.h>
#elif defined(SAFETENSORS_HAVE_LIBCRYPTO)
#include <openssl/crypto.h>
#include <openssl/evp.h>
#endif

#include <algorithm>
#include <array>

namespace safetensors::cli {

#if defined(SAFETENSORS_STATIC_LIBCRYPTO)

// The library is that of the headers. OpenSSL_version() would link nearly all of it.
std::string sha256_library() {
  return "OpenSSL " OPENSSL_VERSION_STR;
}

struct Sha256::State {
  SHA256_CTX context{};
  bool good = SHA256_Init(&context) == 1;

  bool update(std::span<const std::byte> bytes) { return SHA256_Update(&context, bytes.data(), bytes.size()) == 1; }
  bool finish(unsigned char* digest) { return SHA256_Final(digest, &context) == 1; }
};

#elif defined(SAFETENSORS_HAVE_LIBCRYPTO)

std::string sha256_library() {
  return std::string("OpenSSL ") + OpenSSL_version(OPENSSL_VERSION_STRING);
}

struct Sha256::State {
  std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> algorithm{EVP_MD_fetch(nullptr, "SHA256", nullptr), &EVP_MD_free};
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  bool good = algorithm && context && EVP_DigestInit_ex2(context.get(), algorithm.get(), nullptr) == 1;

  bool update(std::span<const std::byte> bytes) {
    return EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
  }
  bool finish(unsigned char* digest) { return EVP_DigestFinal_ex(context.get(), digest, nullptr) == 1; }
};

#else

std::string sha256_library() {
  return "none";
}

struct Sha256::State {
  bool good = false;

  static bool update(std::span<const std::byte>) { return false; }
  static bool finish(unsigned char*) { return false; }
};

#endif

Error sha256_missing() {
  return fault(Errc::unsupported, "this build has no SHA-256: build it with OpenSSL 3 (Debian: libssl-dev)");
}

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  state_->good = state_->good && state_->update(bytes);
}

Result<std::string> Sha256::finish() {
  std::array<unsigned char, 32> digest{};
  if (!state_->good || !state_->finish(digest.data()))
    return fault(Errc::unsupported, "OpenSSL cannot compute SHA-256");
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

Result<std::string> sha256_of(const Source& source, std::uint64_t begin, std::uint64_t end,
                              const std::function<bool(std::uint64_t bytes)>& read) {
  constexpr std::size_t kBytes = 128 << 10;  // stays in the cache of a core, but may exceed the stack of a thread
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  Sha256 hash;
  for (std::uint64_t offset = begin; offset < end;) {
    const auto bytes = std::span(buffer.get(), static_cast<std::size_t>(std::min<std::uint64_t>(kBytes, end - offset)));
    if (Status status = os::read_exactly(source, offset, bytes); !status) return status.error();
    hash.update(bytes);
    offset += bytes.size();
    if (!read(bytes.size())) return Interrupt::error();
  }
  return hash.finish();
}

}  // namespace safetensors::cli
