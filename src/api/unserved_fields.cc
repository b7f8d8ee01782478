#include "api/unserved_fields.h"

#include <algorithm>
#include <array>

namespace kvern::api {
namespace {

constexpr std::uint8_t kOnServe = kOnChat | kOnCompletions | kOnResponses | kOnMessages;
constexpr std::uint8_t kEverywhere = kOnServe | kOnWire;
constexpr std::string_view kLeaveOut = "leave it out";
constexpr std::string_view kFree = "answers are not constrained";
constexpr std::string_view kSampler = "no such sampler";
constexpr std::string_view kTextOnly = "only text";
constexpr std::string_view kNewMessage = "an answer always begins a new message";
constexpr std::string_view kTools = "use `tools` and `tool_choice`";
constexpr std::string_view kPromptAsIs = "the prompt is taken as it is";

// vLLM's names first of all; `regex` to `ebnf` and `lora_path` are SGLang's, most samplers llama.cpp's.
constexpr std::array kFields{
    UnservedField{"add_generation_prompt", kOnChat, Off::kTrue, kNewMessage},
    UnservedField{"add_special_tokens", kOnChat, Off::kFalse, kPromptAsIs},
    UnservedField{"add_special_tokens", kOnCompletions, Off::kTrue, "what the model expects around text is added"},
    UnservedField{"allowed_token_ids", kEverywhere, Off::kNullOnly, kLeaveOut},
    UnservedField{"audio", kOnChat, Off::kNullOnly, kTextOnly},
    UnservedField{"background", kOnResponses, Off::kFalse, "answers are not stored"},
    UnservedField{"bad_words", kEverywhere, Off::kEmpty, kLeaveOut},
    UnservedField{"continue_final_message", kOnChat, Off::kFalse, kNewMessage},
    UnservedField{"conversation", kOnResponses, Off::kNullOnly, "answers are not stored; send the items as `input`"},
    UnservedField{"custom_logit_processor", kEverywhere, Off::kNullOnly, kLeaveOut},
    UnservedField{"documents", kOnChat, Off::kEmpty, "put them into a message"},
    UnservedField{"dry_multiplier", kEverywhere, Off::kZero, kSampler},
    UnservedField{"dynatemp_range", kEverywhere, Off::kZero, kSampler},
    UnservedField{"early_stopping", kEverywhere, Off::kFalse, "no beams"},
    UnservedField{"ebnf", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"echo", kEverywhere, Off::kFalse, "the prompt is not repeated"},
    UnservedField{"function_call", kOnChat, Off::kNullOnly, kTools},
    UnservedField{"functions", kOnChat, Off::kNullOnly, kTools},
    UnservedField{"grammar", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"guided_choice", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"guided_grammar", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"guided_json", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"guided_regex", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"include_reasoning", kOnChat, Off::kTrue, "reasoning is always told"},
    UnservedField{"include_stop_str_in_output", kOnServe, Off::kFalse, kLeaveOut},
    UnservedField{"json_schema", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"kv_transfer_params", kOnWire, Off::kEmpty, kLeaveOut},
    UnservedField{"length_penalty", kEverywhere, Off::kOne, "no beams"},
    UnservedField{"logits_processors", kEverywhere, Off::kEmpty, kLeaveOut},
    UnservedField{"lora_path", kEverywhere, Off::kNullOnly, "ask for a model that is served"},
    UnservedField{"mirostat", kEverywhere, Off::kZero, kSampler},
    UnservedField{"no_repeat_ngram_size", kEverywhere, Off::kZero, kSampler},
    UnservedField{"prompt", kOnResponses, Off::kNullOnly, "no prompt templates are kept; send `input`"},
    UnservedField{"prompt_embeds", kEverywhere, Off::kEmpty, "only text and token ids"},
    UnservedField{"prompt_logprobs", kEverywhere, Off::kNullOnly, kLeaveOut},
    UnservedField{"regex", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"repetition_detection", kEverywhere, Off::kNullOnly, kLeaveOut},
    UnservedField{"return_token_ids", kOnServe, Off::kFalse, kLeaveOut},
    UnservedField{"return_tokens_as_token_ids", kOnServe, Off::kFalse, kLeaveOut},
    UnservedField{"skip_special_tokens", kOnServe, Off::kTrue, "they are never shown"},
    UnservedField{"structural_tag", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"structured_outputs", kEverywhere, Off::kNullOnly, kFree},
    UnservedField{"suffix", kOnCompletions | kOnWire, Off::kEmpty, "text is only continued, not filled in"},
    UnservedField{"thinking_token_budget", kOnServe, Off::kNullOnly, kLeaveOut},
    UnservedField{"truncate_prompt_tokens", kEverywhere, Off::kNullOnly, kPromptAsIs},
    UnservedField{"typical_p", kEverywhere, Off::kOne, kSampler},
    UnservedField{"use_beam_search", kEverywhere, Off::kFalse, "no beams"},
    UnservedField{"web_search_options", kOnChat, Off::kNullOnly, kTextOnly},
    UnservedField{"xtc_probability", kEverywhere, Off::kZero, kSampler},
};
static_assert(std::ranges::is_sorted(kFields, {}, &UnservedField::name));

bool is_empty(json::Value value) {
  switch (value.kind()) {
    case json::Kind::kNull: return true;
    case json::Kind::kString: return value.raw().size() <= 2;  // the quotes
    case json::Kind::kArray:
    case json::Kind::kObject: return value.size() == 0;
    default: return false;
  }
}

bool is_off(json::Value value, Off off) {
  if (value.is(json::Kind::kNull)) return true;
  switch (off) {
    case Off::kNullOnly: return false;
    case Off::kFalse: return value.is(json::Kind::kBool) && !value.boolean();
    case Off::kTrue: return value.is(json::Kind::kBool) && value.boolean();
    case Off::kZero: return value.is(json::Kind::kNumber) && value.number() == 0;
    case Off::kOne: return value.is(json::Kind::kNumber) && value.number() == 1;
    case Off::kEmpty: return is_empty(value);
  }
  return false;
}

}  // namespace

std::span<const UnservedField> unserved_fields() noexcept { return kFields; }

void refuse_unserved_fields(const Fields& fields, Endpoints endpoint) {
  for (const auto& [key, value] : fields.children()) {
    for (const auto& row : std::ranges::equal_range(kFields, key, {}, &UnservedField::name)) {
      (void)fields.has(row.name);  // known, whatever its value
      if ((row.endpoints & endpoint) == 0 || is_off(value, row.off)) continue;
      fields.decoding().unsupported(fields.path(row.name), row.advice);
    }
  }
}

}  // namespace kvern::api
