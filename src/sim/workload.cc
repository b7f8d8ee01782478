#include "sim/workload.h"

#include <utility>

#include "sim/draw.h"
#include "sim/sim_model.h"

namespace kvern::sim {
namespace {

constexpr std::uint32_t kSharedBeginnings = 3;
// Above the size that dispatchers prepare on the loop, so that these go to the pool.
constexpr std::size_t kToolBytes = 6000;

ir::Message message(ir::Role role, std::string text) {
  ir::Message made;
  made.role = role;
  made.blocks.push_back({ir::Text{std::move(text)}, {}});
  return made;
}

}  // namespace

Conversation::Conversation(Rng rng) : rng_(rng) {
  // Everybody who draws the same number has the same system message.
  const std::uint32_t beginning = draw(rng_, 1, kSharedBeginnings);
  const Rng own = std::exchange(rng_, Rng(beginning));
  history_.push_back(message(ir::Role::kSystem, words(draw(rng_, 10, 80))));
  rng_ = own;
  tenant_ = chance(rng_, 0.3) ? "acme" : "default";
  if (chance(rng_, 0.2)) salt_ = "pepper";
  has_tools_ = chance(rng_, 0.2);
}

std::string Conversation::words(std::uint32_t count) {
  std::string text;
  for (std::uint32_t i = 0; i < 3 * count; ++i) text += kLetters[rng_.below(kLetters.size())];
  return text;
}

std::string Conversation::draw_stop_string() {
  const std::string text = words(2);
  return text.substr(0, draw(rng_, 1, 4));
}

ir::Stopping Conversation::draw_stopping() {
  ir::Stopping stopping;
  if (chance(rng_, 0.8)) stopping.max_tokens = draw(rng_, 1, chance(rng_, 0.3) ? 200 : 60);
  if (chance(rng_, 0.2)) stopping.min_tokens = draw(rng_, 0, stopping.max_tokens.value_or(20));
  for (std::uint32_t i = chance(rng_, 0.4) ? draw(rng_, 1, 3) : 0; i > 0; --i) {
    stopping.strings.push_back(draw_stop_string());
  }
  for (std::uint32_t i = chance(rng_, 0.2) ? draw(rng_, 1, 40) : 0; i > 0; --i) {
    stopping.token_ids.push_back(static_cast<TokenId>(rng_.below(kWords)));
  }
  stopping.ignore_eos = stopping.max_tokens && chance(rng_, 0.3);
  return stopping;
}

ir::Request Conversation::ask() {
  request_ = ir::Request{};
  request_.tenant = tenant_;
  request_.hints.cache_salt = salt_;
  request_.hints.priority = chance(rng_, 0.3) ? static_cast<std::int32_t>(draw(rng_, 0, 4)) - 2 : 0;
  request_.stopping = draw_stopping();
  if (has_tools_) request_.tools.push_back({"look", std::string(kToolBytes, 'x'), "{}", false});
  if (chance(rng_, 0.05)) {
    request_.prompt = words(draw(rng_, 1, 100));
  } else if (chance(rng_, 0.05)) {
    request_.prompt = SimTokenizer().encode_text(words(draw(rng_, 1, 100)), true);
  } else {
    auto messages = history_;
    messages.push_back(message(ir::Role::kUser,
                               chance(rng_, 0.02) ? "refuse me" : words(draw(rng_, 1, chance(rng_, 0.3) ? 200 : 60))));
    request_.prompt = std::move(messages);
  }
  return request_;
}

void Conversation::answered(const std::string& text) {
  auto* messages = std::get_if<std::vector<ir::Message>>(&request_.prompt);
  if (messages == nullptr) return;
  history_ = *messages;
  history_.push_back(message(ir::Role::kAssistant, text));
}

}  // namespace kvern::sim
