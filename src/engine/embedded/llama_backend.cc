#include "engine/embedded/llama_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "engine/embedded/host.h"
#include "engine/embedded/llama_log.h"

namespace kvern::engine {
namespace {

// llama.cpp pads its cache to this many cells.
constexpr std::uint32_t kCellStep = 256;
// Recurrent memories reserve a whole state per sequence id, so these models get fewer.
constexpr std::uint32_t kRecurrentSequences = 16;

std::uint64_t metadata_number(const llama_model* model, const std::string& key, std::uint64_t otherwise) {
  std::array<char, 64> value{};
  if (llama_model_meta_val_str(model, key.c_str(), value.data(), value.size()) <= 0) return otherwise;
  const std::uint64_t number = std::strtoull(value.data(), nullptr, 10);
  return number == 0 ? otherwise : number;
}

/// Bytes of keys and values of one token over all layers, in the cache's 16-bit floats.
std::uint64_t bytes_per_cell(const llama_model* model) {
  std::array<char, 64> name{};
  llama_model_meta_val_str(model, "general.architecture", name.data(), name.size());
  const std::string architecture(name.data());
  const auto heads = static_cast<std::uint64_t>(std::max(1, llama_model_n_head(model)));
  const std::uint64_t head_size = static_cast<std::uint64_t>(llama_model_n_embd(model)) / heads;
  const std::uint64_t key = metadata_number(model, architecture + ".attention.key_length", head_size);
  const std::uint64_t value = metadata_number(model, architecture + ".attention.value_length", head_size);
  const auto kv_heads = static_cast<std::uint64_t>(std::max(1, llama_model_n_head_kv(model)));
  return static_cast<std::uint64_t>(llama_model_n_layer(model)) * kv_heads * (key + value) * 2;
}

std::uint32_t round_up(std::uint64_t tokens) {
  return static_cast<std::uint32_t>((tokens + kCellStep - 1) / kCellStep * kCellStep);
}

/// The sampler of a request, on the logits of the context.
class LlamaSampler final : public TokenSampler {
 public:
  LlamaSampler(const LlamaBackend& backend, Sampler sampler, SamplerScratch& scratch)
      : backend_(backend), sampler_(std::move(sampler)), scratch_(scratch) {}
  Drawn sample(std::uint32_t index, bool may_stop) override {
    return sampler_.draw(backend_.logits(index), may_stop, scratch_);
  }

 private:
  const LlamaBackend& backend_;
  Sampler sampler_;
  SamplerScratch& scratch_;
};

Error start_up_error(const std::string& path, const std::string& what) {
  return fail(ErrorCode::kInvalidRequest, fmt::format("cannot load the model {}: {}", path, what));
}

}  // namespace

Result<std::unique_ptr<LlamaBackend>> LlamaBackend::load(const LlamaOptions& options) {
  std::unique_ptr<LlamaBackend> backend(new LlamaBackend());
  try {
    if (auto opened = backend->open(options); !opened) return opened.error();
  } catch (const std::exception& thrown) {
    return start_up_error(options.model_path, thrown.what());
  }
  return backend;
}

Result<void> LlamaBackend::open(const LlamaOptions& options) {
  const std::string& path = options.model_path;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return start_up_error(path, "there is no such file");
  route_llama_log(options.on_log);
  llama_backend_init();
  const LogCapture log;

  auto model_params = llama_model_default_params();
  model_params.n_gpu_layers = options.gpu_layers;
  model_.reset(llama_model_load_from_file(path.c_str(), model_params));
  if (!model_)
    return start_up_error(path, log.last().empty() ? "it is not a GGUF file llama.cpp can read" : log.last());
  if (llama_model_has_encoder(model_.get()) || !llama_model_has_decoder(model_.get()) ||
      llama_model_is_diffusion(model_.get())) {
    return start_up_error(path, "it does not continue text token by token");
  }
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  vocab_size_ = static_cast<std::uint32_t>(llama_vocab_n_tokens(vocab));
  if (vocab_size_ == 0) return start_up_error(path, "it has no vocabulary");
  for (TokenId token = 0; token < static_cast<TokenId>(vocab_size_); ++token) {
    if (llama_vocab_is_eog(vocab, token)) end_tokens_.push_back(token);
  }
  // Read before the context is made: with YaRN, llama.cpp raises it.
  trained_tokens_ = static_cast<std::uint32_t>(std::max(1, llama_model_n_ctx_train(model_.get())));
  const bool recurrent = llama_model_is_recurrent(model_.get()) || llama_model_is_hybrid(model_.get());
  sequences_ = recurrent ? std::min(options.sequences, kRecurrentSequences) : options.sequences;
  batch_tokens_ = options.batch_tokens;
  cell_bytes_ = bytes_per_cell(model_.get());
  size_pool(options);

  auto params = llama_context_default_params();
  params.n_ctx = cells_total_;
  params.n_batch = batch_tokens_;
  params.n_ubatch = batch_tokens_;
  // One more where sequences cost nothing: save() and restore() lend it parts of others.
  const bool spare = !recurrent && sequences_ < llama_max_parallel_sequences();
  params.n_seq_max = sequences_ + (spare ? 1 : 0);
  params.n_outputs_max = params.n_seq_max;
  params.n_outputs_max_per_seq = 1;
  params.n_threads = static_cast<std::int32_t>(options.threads > 0 ? options.threads : usable_cores());
  params.n_threads_batch = params.n_threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;  // on wherever the device can
  params.kv_unified = true;
  params.swa_full = false;
  params.no_perf = true;
  params.abort_callback = [](void* self) { return static_cast<LlamaBackend*>(self)->stopping_.load(); };
  params.abort_callback_data = this;
  if (context_tokens_ > trained_tokens_) {
    const float trained_scale = llama_model_rope_freq_scale_train(model_.get());
    params.rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_YARN;
    params.rope_freq_scale = (trained_scale > 0 ? trained_scale : 1.0F) * static_cast<float>(trained_tokens_) /
                             static_cast<float>(context_tokens_);
    warnings_.push_back(
        fmt::format("the context of {} tokens exceeds the {} the model was trained for: positions are scaled (YaRN), "
                    "and answers may be worse at any length",
                    context_tokens_, trained_tokens_));
  }
  context_.reset(llama_init_from_model(model_.get(), params));
  if (!context_) return start_up_error(path, log.last().empty() ? "no memory for its context" : log.last());

  // Without one, ggml makes and joins threads anew for each step.
  ggml_threadpool_params threads = ggml_threadpool_params_default(params.n_threads);
  threads_.reset(ggml_threadpool_new(&threads));
  if (!threads_) return start_up_error(path, "no threads for its work");
  llama_attach_threadpool(context_.get(), threads_.get(), threads_.get());

  memory_ = llama_get_memory(context_.get());
  if (memory_ == nullptr) return start_up_error(path, "it keeps no state between tokens");
  can_hold_ = llama_memory_can_hold(memory_);
  if (can_hold_) {
    cells_total_ = llama_memory_n_cells(memory_);
    if (spare) spare_sequence_ = static_cast<SequenceId>(sequences_);
  } else {
    warnings_.emplace_back(
        "the memory of this model cannot be shared by blocks (recurrent, hybrid or sliding window): prompts are "
        "computed in full, without reuse");
  }
  batch_ = llama_batch_init(static_cast<std::int32_t>(batch_tokens_), 0, 1);
  return try_out(path);
}

/// One token through the model before anything is served: weights that do not run, or give no numbers, are a fault of
/// the file and belong to start-up. It also brings the first pages in, so the first request does not wait for them.
Result<void> LlamaBackend::try_out(const std::string& path) {
  batch_.n_tokens = 1;
  batch_.token[0] = 0;
  batch_.pos[0] = 0;
  batch_.n_seq_id[0] = 1;
  batch_.seq_id[0][0] = 0;
  batch_.logits[0] = 1;
  if (llama_decode(context_.get(), batch_) != 0) return start_up_error(path, "the model does not run");
  const float* logits = llama_get_logits_ith(context_.get(), 0);
  // What is no number turns into nothing at the next quantised product, and then all tokens are as likely.
  const bool numbers = logits != nullptr &&
                       std::all_of(logits, logits + vocab_size_, [](float logit) { return !std::isnan(logit); }) &&
                       std::any_of(logits, logits + vocab_size_, [logits](float logit) { return logit != logits[0]; });
  if (!numbers) return start_up_error(path, "its weights give no numbers");
  llama_memory_clear(memory_, false);
  return {};
}

void LlamaBackend::size_pool(const LlamaOptions& options) {
  context_tokens_ = options.context_tokens > 0 ? options.context_tokens : trained_tokens_;
  std::uint64_t cells = options.cells;
  if (cells == 0) {
    cells = 4ULL * context_tokens_;
    const std::uint64_t fit = free_memory_bytes() / 2 / std::max<std::uint64_t>(1, cell_bytes_);
    if (fit > 0 && fit < cells) {
      cells = std::max<std::uint64_t>(fit / kCellStep * kCellStep, kCellStep);
      warnings_.push_back(fmt::format("the KV cache is cut to {} tokens, half of the free memory", cells));
    }
  }
  cells = round_up(std::min<std::uint64_t>(cells, 1ULL << 30U));
  if (cells < context_tokens_) {
    warnings_.push_back(
        fmt::format("the context is cut from {} to {} tokens, the size of the KV cache", context_tokens_, cells));
    context_tokens_ = static_cast<std::uint32_t>(cells);
  }
  cells_total_ = static_cast<std::uint32_t>(cells);
}

LlamaBackend::~LlamaBackend() {
  context_.reset();
  threads_.reset();
  model_.reset();
  route_llama_log({});  // the function given at load need not outlive the engine
  if (batch_.token != nullptr) llama_batch_free(batch_);
}

void LlamaBackend::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  route_llama_log({});  // what it says of a decode broken off is no error
}

std::span<const float> LlamaBackend::logits(std::uint32_t index) const {
  return {llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index)), vocab_size_};
}

DecodeStatus LlamaBackend::decode(std::span<const BatchToken> batch) {
  KV_CHECK(!batch.empty() && batch.size() <= batch_tokens_);
  batch_.n_tokens = static_cast<std::int32_t>(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch_.token[i] = batch[i].token;
    batch_.pos[i] = batch[i].position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = batch[i].sequence;
    batch_.logits[i] = batch[i].sampled ? 1 : 0;
  }
  int status = -1;
  try {
    status = llama_decode(context_.get(), batch_);
  } catch (const std::exception&) {
    status = -1;
  }
  if (status == 0) return DecodeStatus::kOk;
  return status == 2 || stopping_.load() ? DecodeStatus::kAborted : DecodeStatus::kFailed;
}

std::unique_ptr<TokenSampler> LlamaBackend::make_sampler(const GenerateRequest& request,
                                                         std::span<const TokenId> prompt) {
  return std::make_unique<LlamaSampler>(*this, Sampler(request, prompt, end_tokens_, vocab_size_), scratch_);
}

bool LlamaBackend::ends_generation(TokenId token) const { return std::ranges::binary_search(end_tokens_, token); }

bool LlamaBackend::remove(SequenceId sequence, std::int32_t from, std::int32_t to) {
  return llama_memory_seq_rm(memory_, sequence, from, to);
}

void LlamaBackend::cells(SequenceId sequence, std::int32_t from, std::int32_t to, std::vector<kv::CellId>& out) const {
  const std::size_t before = out.size();
  out.resize(before + static_cast<std::size_t>(to - from));
  const std::size_t found =
      llama_memory_seq_cells(memory_, sequence, from, to, out.data() + before, out.size() - before);
  out.resize(before + found);
}

void LlamaBackend::hold(std::span<const kv::CellId> cells) {
  KV_CHECK(llama_memory_hold(memory_, cells.data(), cells.size()));
}

void LlamaBackend::unhold(std::span<const kv::CellId> cells) {
  KV_CHECK(llama_memory_unhold(memory_, cells.data(), cells.size()));
}

void LlamaBackend::attach(SequenceId sequence, std::span<const kv::CellId> cells) {
  KV_CHECK(llama_memory_seq_attach(memory_, sequence, cells.data(), cells.size()));
}

bool LlamaBackend::save(SequenceId sequence, std::int32_t from, std::size_t bytes_max, std::vector<std::byte>& state) {
  // llama.cpp saves whole sequences: a part is lent to the spare one first.
  const SequenceId saved = from > 0 ? spare_sequence_ : sequence;
  if (saved < 0) return false;
  if (from > 0) llama_memory_seq_cp(memory_, sequence, saved, from, -1);
  const std::size_t before = state.size();
  const std::size_t size = llama_state_seq_get_size(context_.get(), saved);
  bool done = size > 0 && size <= bytes_max;
  if (done) {
    state.resize(before + size);
    auto* to = reinterpret_cast<std::uint8_t*>(state.data() + before);
    done = llama_state_seq_get_data(context_.get(), to, size, saved) == size;
    if (!done) state.resize(before);
  }
  if (from > 0) llama_memory_seq_rm(memory_, saved, -1, -1);
  return done;
}

bool LlamaBackend::restore(SequenceId sequence, std::span<const std::byte> state) {
  const SequenceId restored = can_hold_ ? spare_sequence_ : sequence;
  if (restored < 0) return false;
  const auto* from = reinterpret_cast<const std::uint8_t*>(state.data());
  const bool done = llama_state_seq_set_data(context_.get(), from, state.size(), restored) == state.size();
  if (done && restored != sequence) llama_memory_seq_cp(memory_, restored, sequence, -1, -1);
  if (!done || restored != sequence) llama_memory_seq_rm(memory_, restored, -1, -1);
  return done;
}

std::optional<std::uint32_t> LlamaBackend::cells_used() const {
  if (!can_hold_) return std::nullopt;
  return llama_memory_n_cells_used(memory_);
}

}  // namespace kvern::engine
