#include "api/responses/compaction.h"

#include <utility>

#include "api/responses/response_object.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

constexpr std::string_view kAsk =
    "Summarise this conversation for whoever goes on with the task and sees of it only the user's messages and your "
    "summary. Say what was asked, what was done and found (names of files, commands, values, decisions and their "
    "reasons), what is still to do, and which rules hold. Answer with the summary alone, as plain text; call no tool.";

bool is_of_user(json::Value item) {
  const auto role = item.is(json::Kind::kObject) ? item.find("role") : std::nullopt;
  return role && role->is(json::Kind::kString) && role->string() == "user";
}

class Compaction final : public ResponsesEncoder {
 public:
  explicit Compaction(CompactionPlan plan) : plan_(std::move(plan)) {}

  void set_model(std::string_view) override {}
  void set_extension(std::string json) override { extension_ = std::move(json); }
  void keep_alive(std::string&) override {}

  void add(std::uint32_t, const ir::Event& event, std::string& out) override {
    if (const auto* block = std::get_if<ir::BlockStart>(&event)) {
      in_text_ = block->kind == ir::BlockKind::kText;
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      if (in_text_) summary_ += delta->text;
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      usage_ = end->usage;
      append_object(out);
    }
  }

  void append_object(std::string& out) const override {
    if (summary_.find_first_not_of(" \n\r\t") == std::string::npos) return;
    json::Writer writer(out);
    const std::string id = hex64(plan_.response.id.value);
    writer.begin_object().member("id", "resp_" + id).member("object", "response.compaction");
    writer.member("created_at", plan_.response.created.count());
    writer.key("output").begin_array();
    if (!plan_.kept.empty()) writer.raw(plan_.kept);
    writer.begin_object().member("id", "cmp_" + id + "_0").member("type", "compaction");
    writer.member("encrypted_content", plan_.response.seal->seal(plan_.purpose, summary_)).end_object();
    writer.end_array();
    write_usage(usage_, writer);
    if (!extension_.empty()) writer.key("nvext").raw(extension_);
    writer.end_object();
  }

  void append_failed(const Error&, std::string&) const override {}
  void withdraw(const Error&, std::string& out) override { out.clear(); }
  void cancel(std::string&) override {}

 private:
  const CompactionPlan plan_;
  bool in_text_ = false;
  std::string summary_;
  std::string extension_;
  ir::Usage usage_;
};

}  // namespace

ir::Message compaction_request() { return {ir::Role::kUser, {}, {{ir::Text{std::string(kAsk)}, std::nullopt}}}; }

std::string compaction_kept(const std::vector<json::Value>& conversation, std::string_view input) {
  std::string out;
  const auto keep = [&out](json::Value item) {
    if (!is_of_user(item)) return;
    if (!out.empty()) out += ',';
    out += item.raw();
  };
  for (const json::Value item : conversation) keep(item);
  // Written by items_to_store a moment ago, out of what was within the limits.
  const auto own = json::Document::parse(input, {1U << 16U, 1U << 26U, 1U << 20U});
  if (!own) return out;
  for (const auto& [key, item] : (*own)->root().children()) keep(item);
  return out;
}

std::unique_ptr<ResponsesEncoder> make_compaction(CompactionPlan plan) {
  return std::make_unique<Compaction>(std::move(plan));
}

}  // namespace kvern::api
