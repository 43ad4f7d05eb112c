// SHA-256 by OpenSSL, which picks the instructions of the processor, and BLAKE3 by its C library. Each hasher has a
// context of its own, so threads share nothing.
//
// With a shared OpenSSL, its EVP interface chooses the implementation, as the machine's configuration says. With a
// static one, EVP would link 3.8 MB for one hash function. There, the functions of SHA-256 are called directly, which
// link about 20 KB.
#define OPENSSL_SUPPRESS_DEPRECATED  // OpenSSL 3 calls the direct functions deprecated
#include "hash/hasher.h"

#include <openssl/crypto.h>
#if defined(SAFETENSORS_STATIC_OPENSSL)
#include <openssl/sha.h>
#else
#include <openssl/evp.h>
#endif

#include <string>
#include <utility>

#include "base/error.h"

#if defined(SAFETENSORS_HAVE_BLAKE3)
#include <blake3.h>
#endif

namespace safetensors {
namespace hash {
namespace {

Error openssl_failed() noexcept {
  return base::guarded([] { return base::make_error(Errc::unsupported, "OpenSSL cannot compute SHA-256"); });
}

#if defined(SAFETENSORS_STATIC_OPENSSL)
class Sha256 final : public Hasher {
 public:
  // Returns false if OpenSSL refuses.
  [[nodiscard]] bool begin() noexcept { return SHA256_Init(&context_) == 1; }
  void update(std::span<const std::byte> bytes) noexcept override {
    good_ = good_ && SHA256_Update(&context_, bytes.data(), bytes.size()) == 1;
  }
  [[nodiscard]] Result<Digest> finish() noexcept override {
    Digest digest;
    const bool good = std::exchange(good_, true) && SHA256_Final(digest.bytes.data(), &context_) == 1;
    if (!begin() || !good) return openssl_failed();
    return digest;
  }

 private:
  SHA256_CTX context_{};
  bool good_ = true;
};
#else
class Sha256 final : public Hasher {
 public:
  // Returns false if OpenSSL refuses.
  [[nodiscard]] bool begin() noexcept {
    digest_.reset(EVP_MD_fetch(nullptr, "SHA256", nullptr));
    context_.reset(EVP_MD_CTX_new());
    return digest_ && context_ && restart();
  }
  void update(std::span<const std::byte> bytes) noexcept override {
    good_ = good_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
  }
  [[nodiscard]] Result<Digest> finish() noexcept override {
    Digest digest;
    const bool good = good_ && EVP_DigestFinal_ex(context_.get(), digest.bytes.data(), nullptr) == 1;
    if (!restart() || !good) return openssl_failed();
    return digest;
  }

 private:
  bool restart() noexcept {
    good_ = EVP_DigestInit_ex2(context_.get(), digest_.get(), nullptr) == 1;
    return good_;
  }
  std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> digest_{nullptr, &EVP_MD_free};
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{nullptr, &EVP_MD_CTX_free};
  bool good_ = false;
};
#endif

#if defined(SAFETENSORS_HAVE_BLAKE3)
class Blake3 final : public Hasher {
 public:
  Blake3() noexcept { blake3_hasher_init(&state_); }
  void update(std::span<const std::byte> bytes) noexcept override {
    blake3_hasher_update(&state_, bytes.data(), bytes.size());
  }
  [[nodiscard]] Result<Digest> finish() noexcept override {
    Digest digest;
    blake3_hasher_finalize(&state_, digest.bytes.data(), digest.bytes.size());
    blake3_hasher_init(&state_);
    return digest;
  }

 private:
  blake3_hasher state_;
};
#endif

}  // namespace

Result<std::unique_ptr<Hasher>> make_hasher(HashAlgorithm algorithm) noexcept {
  return base::guarded([&]() -> Result<std::unique_ptr<Hasher>> {
    if (algorithm == HashAlgorithm::sha256) {
      auto hasher = std::make_unique<Sha256>();
      if (!hasher->begin()) return openssl_failed();
      return std::unique_ptr<Hasher>(std::move(hasher));
    }
#if defined(SAFETENSORS_HAVE_BLAKE3)
    if (algorithm == HashAlgorithm::blake3) return std::unique_ptr<Hasher>(std::make_unique<Blake3>());
#else
    if (algorithm == HashAlgorithm::blake3)
      return base::make_error(Errc::unsupported, "this build has no BLAKE3: build with the BLAKE3 C library");
#endif
    return base::make_error(Errc::unsupported,
                            "unknown hash algorithm " + std::to_string(static_cast<unsigned>(algorithm)));
  });
}

}  // namespace hash

inline namespace v0 {

std::string hash_library(HashAlgorithm algorithm) {
#if defined(SAFETENSORS_STATIC_OPENSSL)
  // The library is that of the headers. OpenSSL_version() would link nearly all of it.
  if (algorithm == HashAlgorithm::sha256) return "OpenSSL " OPENSSL_VERSION_STR;
#else
  if (algorithm == HashAlgorithm::sha256) return std::string("OpenSSL ") + OpenSSL_version(OPENSSL_VERSION_STRING);
#endif
#if defined(SAFETENSORS_HAVE_BLAKE3)
  if (algorithm == HashAlgorithm::blake3) return std::string("BLAKE3 ") + blake3_version();
#endif
  return {};
}

Result<Digest> hash_bytes(std::span<const std::byte> bytes, HashAlgorithm algorithm) noexcept {
  Result<std::unique_ptr<hash::Hasher>> hasher = hash::make_hasher(algorithm);
  if (!hasher) return std::move(hasher).error();
  (*hasher)->update(bytes);
  return (*hasher)->finish();
}

}  // namespace v0
}  // namespace safetensors
