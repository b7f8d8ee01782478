#include <utility>

#include "api/responses/output_items.h"
#include "api/responses/response_object.h"
#include "api/responses/responses_stream.h"

namespace kvern::api {
namespace {

class ResponsesWhole final : public Encoder {
 public:
  explicit ResponsesWhole(ResponsePlan plan) : plan_(std::move(plan)), items_(plan_) {}

  void set_model(std::string_view name) override { plan_.model = name; }
  void set_extension(std::string json) override { extension_ = std::move(json); }
  void keep_alive(std::string&) override {}

  void add(std::uint32_t, const ir::Event& event, std::string& out) override {
    if (const auto* block = std::get_if<ir::BlockStart>(&event)) {
      close(ItemStatus::kCompleted);
      items_.open(*block);
      item_open_ = true;
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      items_.append(*delta);
    } else if (std::holds_alternative<ir::BlockStop>(event)) {
      items_.finish();
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      close(end->reason == ir::FinishReason::kLength ? ItemStatus::kIncomplete : ItemStatus::kCompleted);
      append_response(plan_, {&items_, end, nullptr, extension_}, out);
    }
  }

 private:
  void close(ItemStatus status) {
    if (item_open_) items_.close(status);
    item_open_ = false;
  }

  ResponsePlan plan_;
  OutputItems items_;
  bool item_open_ = false;
  std::string extension_;
};

}  // namespace

std::unique_ptr<Encoder> make_responses_whole(ResponsePlan plan) {
  return std::make_unique<ResponsesWhole>(std::move(plan));
}

}  // namespace kvern::api
