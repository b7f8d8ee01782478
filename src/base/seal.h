// Text that leaves kvern and comes back unread and unchanged: what a client is given to keep (a model's reasoning, as
// `encrypted_content`). Authenticated encryption by libsodium, XChaCha20-Poly1305, under one 256-bit key; every process
// that has the key opens what another sealed, and holds nothing else.
//
//   sealed = base64url( 0x01, nonce[24], ciphertext and tag )
//
// The nonce is a keyed BLAKE2b of purpose and text (the SIV construction), so sealing needs no randomness, cannot go
// wrong by a repeated nonce, and gives the same text the same seal: a replayed turn stays byte-equal. What that tells
// an onlooker is that two texts are equal, no more.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace kvern {

/// Immutable; any thread. About 10 ns a byte on a busy 2-core VM.
class Seal {
 public:
  static constexpr std::size_t kKeyBytes = 32;

  /// `key` is kKeyBytes of randomness.
  explicit Seal(const Secret& key);
  ~Seal();
  Seal(const Seal&) = default;
  Seal& operator=(const Seal&) = default;

  /// A seal opens only for the purpose it was made for: say what the text is and whose.
  std::string seal(std::string_view purpose, std::string_view text) const;
  /// nullopt for whatever this key did not seal for this purpose: foreign, cut, forged or old.
  std::optional<std::string> open(std::string_view purpose, std::string_view sealed) const;

 private:
  using Key = std::array<unsigned char, kKeyBytes>;
  Key text_key_{};
  Key nonce_key_{};
};

/// A fresh key from the operating system's entropy.
Secret make_seal_key();

}  // namespace kvern
