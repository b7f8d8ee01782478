#include "api/responses/responses_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "api/responses/input_parts.h"
#include "api/responses/response_ids.h"
#include "api/responses/responses_tools.h"

namespace kvern::api {
namespace {

std::optional<ir::Role> role_of(std::string_view name) {
  for (const ir::Role role : {ir::Role::kSystem, ir::Role::kDeveloper, ir::Role::kUser, ir::Role::kAssistant}) {
    if (name == to_string(role)) return role;
  }
  return std::nullopt;
}

class InputDecoder {
 public:
  InputDecoder(const Fields& fields, const Seal& seal, std::string_view tenant, const HistoryItems* history,
               ToolNames& names)
      : decoding_(fields.decoding()),
        seal_(seal),
        reasoning_(reasoning_purpose(tenant)),
        compaction_(compaction_purpose(tenant)),
        history_(history),
        continues_(fields.has("previous_response_id")),
        names_(names) {}

  /// From here on marks are read.
  void take_marks(CacheMarks& marks) { marks_ = &marks; }

  void add(json::Value value, const Path& path) {
    if (!value.is(json::Kind::kObject)) return decoding_.wrong_type(path, "an object", value.kind());
    const Fields item(value, path, decoding_);
    std::string type;
    if (!item.string("type", type)) {
      // The short form of a message has no type, nor has that of a reference.
      type = item.has("role") || !item.has("id") ? "message" : "item_reference";
    }
    const auto kind = std::ranges::find(kKinds, type, &Kind::type);
    if (kind != kKinds.end()) {
      (this->*kind->add)(item);
      mark_last_block(item);
    } else if (std::ranges::find(kOfServers, type) != kOfServers.end()) {
      out_.left_out.push_back(path.str() + " " + type);
    } else {
      decoding_.fail(item.path("type"), fmt::format("is no kind of item: {}", shown(type)));
    }
  }

  ResponsesInput take() { return std::move(out_); }

 private:
  struct Kind {
    std::string_view type;
    void (InputDecoder::*add)(const Fields& item);
  };

  void mark_last_block(const Fields& item) {
    if (marks_ == nullptr || decoding_.failed()) return;
    const auto mark = marks_->read(item);
    if (mark && !out_.messages.empty() && !out_.messages.back().blocks.empty()) {
      out_.messages.back().blocks.back().cache = mark;
    }
  }

  void add_message(const Fields& item) {
    std::string name;
    if (!item.required("role") || !item.string("role", name)) return;
    const auto role = role_of(name);
    if (!role) {
      return decoding_.fail(item.path("role"),
                            fmt::format("must be system, developer, user or assistant, not {}", shown(name)));
    }
    std::string phase;  // which part of an answer it was: for clients, not for models
    item.string("phase", phase);
    if (!item.required("content")) return;
    ir::Message& message = *role == ir::Role::kAssistant ? assistant() : begin(*role);
    add_blocks(decode_input_parts(item, "content", marks_), message.blocks);
  }

  void add_reasoning(const Fields& item) {
    ir::Thinking thinking;
    item.string("encrypted_content", thinking.encrypted);
    std::string content = joined_texts(item, "content");
    std::string summary = joined_texts(item, "summary");
    if (auto opened = seal_.open(reasoning_, thinking.encrypted)) {
      thinking.text = *std::move(opened);
      thinking.encrypted.clear();  // it says nothing more
    } else {
      thinking.text = content.empty() ? std::move(summary) : std::move(content);
    }
    if (!thinking.text.empty()) {
      assistant().blocks.push_back({std::move(thinking), std::nullopt});
    } else if (!thinking.encrypted.empty()) {
      assistant().blocks.push_back({ir::RedactedThinking{std::move(thinking.encrypted)}, std::nullopt});
    }
  }

  void add_function_call(const Fields& item) {
    ir::ToolCall call;
    if (item.required("name")) item.string("name", Limit::kToolNameBytes, call.name);
    item.string("namespace", Limit::kToolNameBytes, call.tool_namespace);
    if (item.required("arguments")) item.string("arguments", call.arguments);
    add_call(item, std::move(call));
  }

  void add_custom_call(const Fields& item) {
    ir::ToolCall call;
    call.kind = ir::ToolKind::kCustom;
    if (item.required("name")) item.string("name", Limit::kToolNameBytes, call.name);
    item.string("namespace", Limit::kToolNameBytes, call.tool_namespace);
    if (item.required("input")) item.string("input", call.arguments);
    add_call(item, std::move(call));
  }

  void add_search_call(const Fields& item) { add_typed_call(item, "tool_search", "arguments"); }
  void add_local_shell_call(const Fields& item) { add_typed_call(item, "local_shell", "action"); }
  void add_shell_call(const Fields& item) { add_typed_call(item, "shell", "action"); }
  void add_patch_call(const Fields& item) { add_typed_call(item, "apply_patch", "operation"); }

  /// A call whose tool is its type and whose arguments are an object.
  void add_typed_call(const Fields& item, std::string_view name, std::string_view member) {
    ir::ToolCall call;
    call.name = name;
    if (const auto arguments = item.find(member)) call.arguments = arguments->raw();
    add_call(item, std::move(call));
  }

  void add_call(const Fields& item, ir::ToolCall call) {
    call.id = call_id(item);
    assistant().blocks.push_back({std::move(call), std::nullopt});
    decoding_.within(Limit::kToolCalls, ++calls_, item.path("type"));
  }

  void add_output(const Fields& item) { add_result(item, ir::ToolKind::kFunction); }
  void add_custom_output(const Fields& item) { add_result(item, ir::ToolKind::kCustom); }

  void add_result(const Fields& item, ir::ToolKind kind) {
    ir::ToolResult result;
    result.kind = kind;
    result.call_id = call_id(item);
    std::optional<ir::CacheMark> mark;
    if (item.required("output")) {
      for (MarkedPart& marked : decode_input_parts(item, "output", marks_)) {
        if (marked.cache) mark = marked.cache;  // a result is kept as a whole
        result.parts.push_back(std::move(marked.part));
      }
    }
    begin(ir::Role::kTool).blocks.push_back({std::move(result), mark});
  }

  /// Its output is a string or a structure of its own; the model reads that as it stands.
  void add_typed_output(const Fields& item) {
    ir::ToolResult result;
    result.call_id = call_id(item);
    if (!item.required("output")) return;
    const auto output = item.find("output");
    result.parts.emplace_back(
        ir::Text{output->is(json::Kind::kString) ? output->string() : std::string(output->raw())});
    begin(ir::Role::kTool).blocks.push_back({std::move(result), std::nullopt});
  }

  /// Of a patch there may be no output: then how it went is all there is.
  void add_patch_output(const Fields& item) {
    if (item.has("output")) return add_typed_output(item);
    ir::ToolResult result;
    result.call_id = call_id(item);
    ir::Text status;
    if (!item.required("status") || !item.string("status", status.text)) return;
    result.parts.emplace_back(std::move(status));
    begin(ir::Role::kTool).blocks.push_back({std::move(result), std::nullopt});
  }

  void add_search_output(const Fields& item) {
    ir::ToolResult result;
    result.call_id = call_id(item);
    result.parts.emplace_back(ir::Text{found_tools(item)});
    begin(ir::Role::kTool).blocks.push_back({std::move(result), std::nullopt});
  }

  void add_more_tools(const Fields& item) {
    begin(ir::Role::kDeveloper).blocks.push_back({ir::Text{"More tools:\n" + found_tools(item)}, std::nullopt});
  }

  /// Tools that came in the middle are described there: in the list of all they would change the prompt from its start.
  std::string found_tools(const Fields& item) {
    const ResponsesTools found = decode_responses_tools(item, marks_);
    for (const ir::Tool& tool : found.tools) {
      const std::string name = ir::prompt_name(tool.tool_namespace, tool.name);
      // The same tool may be found again; one of that name in the list stays what it is.
      if (tool.kind != ir::ToolKind::kHosted) names_.add(name, found.names.find(name));
    }
    return describe_tools(found.tools);
  }

  void add_reference(const Fields& item) {
    std::string id;
    if (!item.required("id") || !item.string("id", Limit::kIdBytes, id)) return;
    if (history_ == nullptr) return need(item, id);
    const auto found = history_->find(id);
    if (!found) return not_found(item);
    // A stored item is none, so this ends here.
    add(*found, item.path("id"));
  }

  void not_found(const Fields& item) {
    decoding_.fail(item.path("id"), "is not found among the stored items: send the item itself", "not_found");
  }

  void need(const Fields& item, std::string_view id) {
    const auto response = response_of_item(id);
    // An id of the client's own may be one of the conversation.
    if (!response && !continues_) return not_found(item);
    if (!response || std::ranges::find(out_.references, *response) != out_.references.end()) return;
    if (out_.references.size() < kReferencedMax) return out_.references.push_back(*response);
    decoding_.fail(item.path("id"), fmt::format("refers to one response more than {}", kReferencedMax));
  }

  /// What an earlier part of the conversation was put into.
  void add_compaction(const Fields& item) {
    std::string sealed;
    item.string("encrypted_content", sealed);
    const auto summary = seal_.open(compaction_, sealed);
    if (!summary) return out_.left_out.push_back(item.path("type").parent->str() + " compaction");
    begin(ir::Role::kUser)
        .blocks.push_back({ir::Text{"Summary of the conversation so far:\n" + *summary}, std::nullopt});
  }

  /// Client-run calls may lack one, then the item's own id pairs it.
  std::string call_id(const Fields& item) const {
    std::string id;
    if (item.string("call_id", Limit::kIdBytes, id)) return id;
    if (!item.string("id", Limit::kIdBytes, id)) (void)item.required("call_id");
    return id;
  }

  ir::Message& begin(ir::Role role) {
    calls_ = 0;
    out_.messages.push_back({role, {}, {}});
    return out_.messages.back();
  }
  ir::Message& assistant() {
    const bool goes_on = !out_.messages.empty() && out_.messages.back().role == ir::Role::kAssistant;
    return goes_on ? out_.messages.back() : begin(ir::Role::kAssistant);
  }

  static constexpr std::array kKinds{
      Kind{"message", &InputDecoder::add_message},
      Kind{"reasoning", &InputDecoder::add_reasoning},
      Kind{"function_call", &InputDecoder::add_function_call},
      Kind{"function_call_output", &InputDecoder::add_output},
      Kind{"custom_tool_call", &InputDecoder::add_custom_call},
      Kind{"custom_tool_call_output", &InputDecoder::add_custom_output},
      Kind{"tool_search_call", &InputDecoder::add_search_call},
      Kind{"tool_search_output", &InputDecoder::add_search_output},
      Kind{"additional_tools", &InputDecoder::add_more_tools},
      Kind{"local_shell_call", &InputDecoder::add_local_shell_call},
      Kind{"local_shell_call_output", &InputDecoder::add_typed_output},
      Kind{"shell_call", &InputDecoder::add_shell_call},
      Kind{"shell_call_output", &InputDecoder::add_typed_output},
      Kind{"apply_patch_call", &InputDecoder::add_patch_call},
      Kind{"apply_patch_call_output", &InputDecoder::add_patch_output},
      Kind{"item_reference", &InputDecoder::add_reference},
      Kind{"compaction", &InputDecoder::add_compaction},
  };
  /// What another server ran or made and only that one can read.
  static constexpr std::array<std::string_view, 15> kOfServers{"web_search_call",
                                                               "file_search_call",
                                                               "code_interpreter_call",
                                                               "image_generation_call",
                                                               "computer_call",
                                                               "computer_call_output",
                                                               "mcp_list_tools",
                                                               "mcp_call",
                                                               "mcp_approval_request",
                                                               "mcp_approval_response",
                                                               "program",
                                                               "program_output",
                                                               "compaction_trigger",
                                                               "context_compaction",
                                                               "ghost_snapshot"};

  Decoding& decoding_;
  const Seal& seal_;
  const std::string reasoning_;
  const std::string compaction_;
  const HistoryItems* const history_;  // nullptr: not known yet
  const bool continues_;
  ToolNames& names_;
  CacheMarks* marks_ = nullptr;
  ResponsesInput out_;
  std::uint64_t calls_ = 0;  // of the last assistant message
};

}  // namespace

std::string reasoning_purpose(std::string_view tenant) { return "responses reasoning of " + std::string(tenant); }
std::string compaction_purpose(std::string_view tenant) { return "responses compaction of " + std::string(tenant); }

ResponsesInput decode_responses_input(const Fields& fields, const Seal& seal, std::string_view tenant,
                                      const HistoryItems* history, ToolNames& names, CacheMarks& marks) {
  InputDecoder decoder(fields, seal, tenant, history, names);
  Decoding& decoding = fields.decoding();
  const bool continues = fields.has("previous_response_id");
  if (history != nullptr) {
    const Path path = fields.path("previous_response_id");
    if (!decoding.within(Limit::kMessages, history->conversation().size(), path)) return {};
    for (const json::Value item : history->conversation()) decoder.add(item, path);
  }
  decoder.take_marks(marks);
  const auto input = fields.find("input");
  // What goes on may need no further word.
  if (!input && (continues || !fields.required("input"))) return decoder.take();
  const Path path = fields.path("input");
  if (input->is(json::Kind::kString)) {
    ResponsesInput out = decoder.take();
    out.messages.push_back({ir::Role::kUser, {}, {{ir::Text{input->string()}, std::nullopt}}});
    return out;
  }
  if (!input->is(json::Kind::kArray)) {
    decoding.wrong_type(path, "a string or an array of items", input->kind());
    return {};
  }
  if (input->size() == 0 && !continues) decoding.fail(path, "must hold at least one item");
  if (!decoding.within(Limit::kMessages, input->size(), path)) return {};
  std::size_t index = 0;
  for (const auto& child : input->children()) {
    if (decoding.failed()) break;
    decoder.add(child.value, element_of(path, index++));
  }
  return decoder.take();
}

}  // namespace kvern::api
