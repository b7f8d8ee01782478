#include "base/seal.h"

#include <sodium.h>

#include <cstdint>

#include "base/base64.h"
#include "base/check.h"

namespace kvern {
namespace {

constexpr char kVersion = 1;
constexpr std::size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kOverhead = 1 + kNonceBytes + kTagBytes;

static_assert(Seal::kKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
static_assert(Seal::kKeyBytes >= crypto_generichash_KEYBYTES_MIN && Seal::kKeyBytes <= crypto_generichash_KEYBYTES_MAX);

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

/// What the tag covers beside the text.
std::string bound_data(std::string_view purpose) { return kVersion + std::string(purpose); }

void hash(std::string_view key, std::string_view purpose, std::string_view text, unsigned char* out, std::size_t size) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, bytes(key), key.size(), size);
  // The length keeps purpose and text apart.
  const auto length = static_cast<std::uint64_t>(purpose.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&length), sizeof length);
  crypto_generichash_update(&state, bytes(purpose), purpose.size());
  crypto_generichash_update(&state, bytes(text), text.size());
  crypto_generichash_final(&state, out, size);
}

}  // namespace

Seal::Seal(const Secret& key) {
  KV_CHECK(sodium_init() >= 0);  // may be called again, on any thread
  KV_CHECK(key.reveal().size() == kKeyBytes);
  hash(key.reveal(), "kvern seal: text", {}, text_key_.data(), text_key_.size());
  hash(key.reveal(), "kvern seal: nonce", {}, nonce_key_.data(), nonce_key_.size());
}

Seal::~Seal() {
  sodium_memzero(text_key_.data(), text_key_.size());
  sodium_memzero(nonce_key_.data(), nonce_key_.size());
}

std::string Seal::seal(std::string_view purpose, std::string_view text) const {
  std::string box(kOverhead + text.size(), '\0');
  box[0] = kVersion;
  unsigned char* const nonce = bytes(box) + 1;
  hash({reinterpret_cast<const char*>(nonce_key_.data()), kKeyBytes}, purpose, text, nonce, kNonceBytes);
  const std::string bound = bound_data(purpose);
  crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + kNonceBytes, nullptr, bytes(text), text.size(), bytes(bound),
                                             bound.size(), nullptr, nonce, text_key_.data());
  return base64url(box);
}

std::optional<std::string> Seal::open(std::string_view purpose, std::string_view sealed) const {
  auto box = from_base64url(sealed);
  if (!box || box->size() < kOverhead || box->front() != kVersion) return std::nullopt;
  std::string text(box->size() - kOverhead, '\0');
  const std::string bound = bound_data(purpose);
  const unsigned char* const nonce = bytes(*box) + 1;
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(bytes(text), nullptr, nullptr, nonce + kNonceBytes,
                                                 box->size() - 1 - kNonceBytes, bytes(bound), bound.size(), nonce,
                                                 text_key_.data()) != 0) {
    return std::nullopt;
  }
  return text;
}

Secret make_seal_key() {
  KV_CHECK(sodium_init() >= 0);
  std::string key(Seal::kKeyBytes, '\0');
  randombytes_buf(key.data(), key.size());
  Secret out(key);
  sodium_memzero(key.data(), key.size());
  return out;
}

}  // namespace kvern
