// Stand-ins for what llama-vocab.cpp takes from the rest of llama.cpp. Included inside namespace kvern_vocab.

#define LLAMA_LOG_INFO(...) static_cast<void>(0)
#define LLAMA_LOG_WARN(...) static_cast<void>(0)
#define LLAMA_LOG_ERROR(...) static_cast<void>(0)
#define LLAMA_LOG_DEBUG(...) static_cast<void>(0)

// What ends the process in llama.cpp is an error of one file here.
#undef GGML_ASSERT
#define GGML_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : throw std::runtime_error("vocabulary: unmet condition: " #condition))
#undef GGML_ABORT
#define GGML_ABORT(...) throw std::runtime_error("vocabulary: not usable")

inline std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char buffer[512];
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

inline void replace_all(std::string& text, const std::string& search, const std::string& replacement) {
  if (search.empty()) return;
  std::string out;
  out.reserve(text.size());
  std::size_t from = 0;
  for (std::size_t at = text.find(search); at != std::string::npos; at = text.find(search, from)) {
    out.append(text, from, at - from).append(replacement);
    from = at + search.size();
  }
  out.append(text, from, std::string::npos);
  text = std::move(out);
}

enum llm_kv {
  LLM_KV_GENERAL_ARCHITECTURE,
  LLM_KV_GENERAL_NAME,
  LLM_KV_VOCAB_SIZE,
  LLM_KV_TOKENIZER_MODEL,
  LLM_KV_TOKENIZER_PRE,
  LLM_KV_TOKENIZER_LIST,
  LLM_KV_TOKENIZER_TOKEN_TYPE,
  LLM_KV_TOKENIZER_TOKEN_TYPE_COUNT,
  LLM_KV_TOKENIZER_SCORES,
  LLM_KV_TOKENIZER_MERGES,
  LLM_KV_TOKENIZER_BOS_ID,
  LLM_KV_TOKENIZER_EOS_ID,
  LLM_KV_TOKENIZER_EOT_ID,
  LLM_KV_TOKENIZER_EOM_ID,
  LLM_KV_TOKENIZER_UNK_ID,
  LLM_KV_TOKENIZER_SEP_ID,
  LLM_KV_TOKENIZER_PAD_ID,
  LLM_KV_TOKENIZER_MASK_ID,
  LLM_KV_TOKENIZER_ADD_BOS,
  LLM_KV_TOKENIZER_ADD_EOS,
  LLM_KV_TOKENIZER_ADD_SEP,
  LLM_KV_TOKENIZER_ADD_PREFIX,
  LLM_KV_TOKENIZER_REMOVE_EXTRA_WS,
  LLM_KV_TOKENIZER_PRECOMPILED_CHARSMAP,
  LLM_KV_TOKENIZER_NORMALIZER_LOWERCASE,
  LLM_KV_TOKENIZER_NORMALIZER_STRIP_ACCENTS,
  LLM_KV_TOKENIZER_FIM_PRE_ID,
  LLM_KV_TOKENIZER_FIM_SUF_ID,
  LLM_KV_TOKENIZER_FIM_MID_ID,
  LLM_KV_TOKENIZER_FIM_PAD_ID,
  LLM_KV_TOKENIZER_FIM_REP_ID,
  LLM_KV_TOKENIZER_FIM_SEP_ID,
  LLM_KV_TOKENIZER_PREFIX_ID,
  LLM_KV_TOKENIZER_SUFFIX_ID,
  LLM_KV_TOKENIZER_MIDDLE_ID,
  LLM_KV_TOKENIZER_SUPPRESS_TOKENS,
};

struct LLM_KV {
  std::string architecture;
  std::string operator()(llm_kv key) const {
    switch (key) {
      case LLM_KV_GENERAL_ARCHITECTURE: return "general.architecture";
      case LLM_KV_GENERAL_NAME: return "general.name";
      case LLM_KV_VOCAB_SIZE: return architecture + ".vocab_size";
      case LLM_KV_TOKENIZER_MODEL: return "tokenizer.ggml.model";
      case LLM_KV_TOKENIZER_PRE: return "tokenizer.ggml.pre";
      case LLM_KV_TOKENIZER_LIST: return "tokenizer.ggml.tokens";
      case LLM_KV_TOKENIZER_TOKEN_TYPE: return "tokenizer.ggml.token_type";
      case LLM_KV_TOKENIZER_TOKEN_TYPE_COUNT: return "tokenizer.ggml.token_type_count";
      case LLM_KV_TOKENIZER_SCORES: return "tokenizer.ggml.scores";
      case LLM_KV_TOKENIZER_MERGES: return "tokenizer.ggml.merges";
      case LLM_KV_TOKENIZER_BOS_ID: return "tokenizer.ggml.bos_token_id";
      case LLM_KV_TOKENIZER_EOS_ID: return "tokenizer.ggml.eos_token_id";
      case LLM_KV_TOKENIZER_EOT_ID: return "tokenizer.ggml.eot_token_id";
      case LLM_KV_TOKENIZER_EOM_ID: return "tokenizer.ggml.eom_token_id";
      case LLM_KV_TOKENIZER_UNK_ID: return "tokenizer.ggml.unknown_token_id";
      case LLM_KV_TOKENIZER_SEP_ID: return "tokenizer.ggml.seperator_token_id";
      case LLM_KV_TOKENIZER_PAD_ID: return "tokenizer.ggml.padding_token_id";
      case LLM_KV_TOKENIZER_MASK_ID: return "tokenizer.ggml.mask_token_id";
      case LLM_KV_TOKENIZER_ADD_BOS: return "tokenizer.ggml.add_bos_token";
      case LLM_KV_TOKENIZER_ADD_EOS: return "tokenizer.ggml.add_eos_token";
      case LLM_KV_TOKENIZER_ADD_SEP: return "tokenizer.ggml.add_sep_token";
      case LLM_KV_TOKENIZER_ADD_PREFIX: return "tokenizer.ggml.add_space_prefix";
      case LLM_KV_TOKENIZER_REMOVE_EXTRA_WS: return "tokenizer.ggml.remove_extra_whitespaces";
      case LLM_KV_TOKENIZER_PRECOMPILED_CHARSMAP: return "tokenizer.ggml.precompiled_charsmap";
      case LLM_KV_TOKENIZER_NORMALIZER_LOWERCASE: return "tokenizer.ggml.normalizer.lowercase";
      case LLM_KV_TOKENIZER_NORMALIZER_STRIP_ACCENTS: return "tokenizer.ggml.normalizer.strip_accents";
      case LLM_KV_TOKENIZER_FIM_PRE_ID: return "tokenizer.ggml.fim_pre_token_id";
      case LLM_KV_TOKENIZER_FIM_SUF_ID: return "tokenizer.ggml.fim_suf_token_id";
      case LLM_KV_TOKENIZER_FIM_MID_ID: return "tokenizer.ggml.fim_mid_token_id";
      case LLM_KV_TOKENIZER_FIM_PAD_ID: return "tokenizer.ggml.fim_pad_token_id";
      case LLM_KV_TOKENIZER_FIM_REP_ID: return "tokenizer.ggml.fim_rep_token_id";
      case LLM_KV_TOKENIZER_FIM_SEP_ID: return "tokenizer.ggml.fim_sep_token_id";
      case LLM_KV_TOKENIZER_PREFIX_ID: return "tokenizer.ggml.prefix_token_id";
      case LLM_KV_TOKENIZER_SUFFIX_ID: return "tokenizer.ggml.suffix_token_id";
      case LLM_KV_TOKENIZER_MIDDLE_ID: return "tokenizer.ggml.middle_token_id";
      case LLM_KV_TOKENIZER_SUPPRESS_TOKENS: return "tokenizer.ggml.suppress_tokens";
    }
    return {};
  }
};

/// The metadata as gguf_* functions see it: keys by position.
struct gguf_context {
  std::vector<std::pair<const std::string*, const Value*>> entries;
};

inline std::int64_t gguf_find_key(const gguf_context* context, const char* key) {
  for (std::size_t i = 0; i < context->entries.size(); ++i) {
    if (*context->entries[i].first == key) return static_cast<std::int64_t>(i);
  }
  return -1;
}
inline const Value& value_at(const gguf_context* context, std::int64_t id) {
  return *context->entries.at(static_cast<std::size_t>(id)).second;
}
inline gguf_type gguf_get_kv_type(const gguf_context* context, std::int64_t id) {
  return static_cast<gguf_type>(value_at(context, id).type);
}
inline gguf_type gguf_get_arr_type(const gguf_context* context, std::int64_t id) {
  return static_cast<gguf_type>(value_at(context, id).element_type);
}
inline std::size_t gguf_get_arr_n(const gguf_context* context, std::int64_t id) { return value_at(context, id).count; }
inline const void* gguf_get_arr_data(const gguf_context* context, std::int64_t id) {
  return value_at(context, id).words.data();
}
inline const char* gguf_get_arr_str(const gguf_context* context, std::int64_t id, std::size_t at) {
  return value_at(context, id).strings.at(at).c_str();
}

struct llama_model_loader {
  gguf_context* metadata;
  const LLM_KV& kv;

  const Value* find(llm_kv key, bool required) const {
    const std::string name = kv(key);
    const std::int64_t id = gguf_find_key(metadata, name.c_str());
    if (id >= 0) return &value_at(metadata, id);
    if (required) throw std::runtime_error("key not found in model: " + name);
    return nullptr;
  }
  bool get_key(llm_kv key, std::string& result, bool required = true) const {
    const Value* value = find(key, required);
    if (value == nullptr) return false;
    if (value->type != GGUF_TYPE_STRING) throw std::runtime_error("wrong type of key " + kv(key));
    result = value->text;
    return true;
  }
  bool get_key(llm_kv key, bool& result, bool required = true) const {
    const Value* value = find(key, required);
    if (value == nullptr) return false;
    if (value->type != GGUF_TYPE_BOOL) throw std::runtime_error("wrong type of key " + kv(key));
    result = (value->words.at(0) & 0xFFU) != 0;
    return true;
  }
  bool get_key(llm_kv key, std::uint32_t& result, bool required = true) const {
    const Value* value = find(key, required);
    if (value == nullptr) return false;
    if (value->type != GGUF_TYPE_UINT32) throw std::runtime_error("wrong type of key " + kv(key));
    result = static_cast<std::uint32_t>(value->words.at(0));
    return true;
  }
};
