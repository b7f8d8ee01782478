#include "api/responses/input_items.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

constexpr std::uint32_t kPageMax = 100;

std::string_view id_prefix(std::string_view type) {
  static constexpr std::array kPrefixes{
      std::pair<std::string_view, std::string_view>{"message", "msg_"},
      std::pair<std::string_view, std::string_view>{"reasoning", "rs_"},
      std::pair<std::string_view, std::string_view>{"function_call", "fc_"},
      std::pair<std::string_view, std::string_view>{"function_call_output", "fco_"},
      std::pair<std::string_view, std::string_view>{"custom_tool_call", "ctc_"},
      std::pair<std::string_view, std::string_view>{"custom_tool_call_output", "ctco_"},
  };
  const auto* found = std::ranges::find(kPrefixes, type, &std::pair<std::string_view, std::string_view>::first);
  return found == kPrefixes.end() ? "item_" : found->second;
}

std::string text_member(json::Value item, std::string_view name) {
  const auto value = item.find(name);
  return value && value->is(json::Kind::kString) ? value->string() : std::string();
}

/// One part, whatever short form it came in.
void write_text(std::string_view text, bool of_assistant, json::Writer& writer) {
  writer.key("content").begin_array().begin_object();
  writer.member("type", of_assistant ? "output_text" : "input_text").member("text", text);
  if (of_assistant) writer.key("annotations").begin_array().end_array();
  writer.end_object().end_array();
}

class ItemWriter {
 public:
  ItemWriter(RequestId id, const HistoryItems& history, std::string& out) : id_(id), history_(history), writer_(out) {
    writer_.begin_array();
  }

  void add(json::Value item) {
    std::string type = text_member(item, "type");
    const std::string id = text_member(item, "id");
    if (type == "item_reference" || (type.empty() && !item.find("role"))) {
      const auto referred = history_.find(id);
      if (referred && ids_.insert(id).second) {
        writer_.raw(referred->raw());
      } else if (referred) {
        add(*referred);
      }
      return;
    }
    if (type.empty()) type = "message";
    // A list is paged by ids, so one that a client gave twice is kept once.
    const bool own = !id.empty() && ids_.insert(id).second;
    writer_.begin_object().member("id", own ? id : next_id(type)).member("type", type);
    if (type == "message" && !item.find("status")) writer_.member("status", "completed");
    for (const auto& [key, value] : item.children()) {
      if (key == "id" || key == "type") continue;
      if (type == "message" && key == "content" && value.is(json::Kind::kString)) {
        write_text(value.string(), text_member(item, "role") == "assistant", writer_);
      } else {
        writer_.key(key).raw(value.raw());
      }
    }
    writer_.end_object();
    ++count_;
  }

  void add_text(std::string_view text) {
    writer_.begin_object().member("id", next_id("message")).member("type", "message").member("status", "completed");
    writer_.member("role", "user");
    write_text(text, false, writer_);
    writer_.end_object();
  }

  void end() { writer_.end_array(); }

 private:
  std::string next_id(std::string_view type) const {
    return std::string(id_prefix(type)) + hex64(id_.value) + "_in" + std::to_string(count_);
  }

  const RequestId id_;
  const HistoryItems& history_;
  json::Writer writer_;
  std::set<std::string> ids_;
  std::uint32_t count_ = 0;
};

}  // namespace

std::string items_to_store(const Fields& fields, RequestId id, const HistoryItems& history) {
  std::string out;
  ItemWriter items(id, history, out);
  if (const auto input = fields.find("input")) {
    if (input->is(json::Kind::kString)) {
      items.add_text(input->string());
    } else if (input->is(json::Kind::kArray)) {
      for (const auto& [key, item] : input->children()) items.add(item);
    }
  }
  items.end();
  return out;
}

Result<ListPage> decode_list_page(std::string_view limit, std::string_view order, std::string_view after) {
  ListPage page;
  page.after = after;
  if (!order.empty() && order != "asc" && order != "desc") return invalid("order", "`order` is `asc` or `desc`");
  page.newest_first = order != "asc";
  if (limit.empty()) return page;
  const auto [end, fault] = std::from_chars(limit.data(), limit.data() + limit.size(), page.limit);
  if (fault != std::errc{} || end != limit.data() + limit.size() || page.limit < 1 || page.limit > kPageMax) {
    return invalid("limit", "`limit` is a number from 1 to 100");
  }
  return page;
}

Result<std::string> render_input_items(std::string_view input, const ListPage& page, const Limits& limits) {
  const auto document = json::Document::parse(input, stored_read_limits(limits));
  std::vector<json::Value> items;
  if (document && (*document)->root().is(json::Kind::kArray)) {
    for (const auto& [key, item] : (*document)->root().children()) items.push_back(item);
  }
  if (page.newest_first) std::ranges::reverse(items);
  std::size_t begin = 0;
  if (!page.after.empty()) {
    const auto at = std::ranges::find(items, page.after, [](json::Value item) { return text_member(item, "id"); });
    if (at == items.end()) return invalid("after", "`after` is the id of no item of this response");
    begin = static_cast<std::size_t>(at - items.begin()) + 1;
  }
  const std::size_t end = std::min(items.size(), begin + page.limit);
  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("object", "list").key("data").begin_array();
  for (std::size_t i = begin; i < end; ++i) writer.raw(items[i].raw());
  writer.end_array();
  for (const auto& [name, at] : {std::pair("first_id", begin), std::pair("last_id", end - 1)}) {
    writer.key(name);
    begin < end ? writer.value(text_member(items[at], "id")) : writer.null();
  }
  writer.member("has_more", end < items.size()).end_object();
  return out;
}

}  // namespace kvern::api
