// Metadata of a checked GGUF file, in the form the vendored vocabulary takes it. Private to this room.
#pragma once

#include "kvern_vocab.h"

namespace kvern::prompt {

struct GgufMetadata {
  kvern_vocab::Metadata values;  // general.* and tokenizer.* keys, and <architecture>.context_length and .vocab_size
};

}  // namespace kvern::prompt
