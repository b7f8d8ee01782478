// The check that a GGUF file passes before anything of llama.cpp opens it: every count, length, type, dimension and
// offset of its header is held against the file itself, so that no later reader can be led past its end or into an
// allocation the file cannot pay for. The same pass takes out what the layers above need to know of the model.
//
// Reads the header only, through one buffer, never tensor data: O(header) time (98 MB SmolLM2 in about 30 ms), memory
// bounded by the header's own size. Messages name the place in the file and never the path; start-up adds that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace kvern::prompt {

/// Metadata kept for the tokenizer (prompt/gguf_metadata.h).
struct GgufMetadata;

/// What a checked file says about its model. Text is as the file has it: hostile until proven otherwise.
struct GgufInfo {
  std::string architecture;
  std::string name;
  std::string chat_template;         // empty: the file has none
  std::string tokenizer_model;       // "gpt2", "llama", "bert"...
  std::uint32_t context_tokens = 0;  // trained length; 0: not said
  std::uint32_t vocab_tokens = 0;
  std::uint64_t tensors = 0;  // 0 in a file that has a vocabulary only
  std::uint64_t file_bytes = 0;
  std::shared_ptr<const GgufMetadata> metadata;
};

/// Bounds beyond what the file's size already implies. Real files stay far below each.
struct GgufLimits {
  std::uint64_t keys = 65'536;
  std::uint64_t tensors = 1'000'000;
  std::uint64_t key_bytes = 65'535;          // of one key
  std::uint64_t token_bytes = 4'096;         // of one token's spelling
  std::uint64_t tokens = 4'000'000;          // of a vocabulary
  std::uint64_t template_bytes = 1U << 20U;  // of a chat template
};

Result<GgufInfo> inspect(const std::filesystem::path& path, const GgufLimits& limits = {});
/// The same for a file that is in memory.
Result<GgufInfo> inspect_bytes(std::span<const std::byte> bytes, const GgufLimits& limits = {});

}  // namespace kvern::prompt
