// Sizes of what a GGUF file holds: metadata values and tensor blocks. Facts of the format, kept in step with the pinned
// ggml by a test that reads its header.
#pragma once

#include <array>
#include <cstdint>

namespace kvern::prompt {

enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

/// Bytes of a metadata scalar; 0 for strings, arrays and unknown types.
constexpr std::uint64_t scalar_bytes(std::uint32_t type) {
  constexpr std::array<std::uint8_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

/// How a tensor type is stored: `bytes` for every `elements` along the first dimension. Zeros: no such type.
struct TensorBlock {
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;
};
constexpr TensorBlock tensor_block(std::uint32_t type) {
  constexpr std::array<TensorBlock, 43> kBlocks = {{
      {1, 4},    {1, 2},    {32, 18},   {32, 20},   {0, 0},     {0, 0},     {32, 22},   {32, 24},  {32, 34},
      {32, 36},  {256, 84}, {256, 110}, {256, 144}, {256, 176}, {256, 210}, {256, 292}, {256, 66}, {256, 74},
      {256, 98}, {256, 50}, {32, 18},   {256, 110}, {256, 82},  {256, 136}, {1, 1},     {1, 2},    {1, 4},
      {1, 8},    {1, 8},    {256, 56},  {1, 2},     {0, 0},     {0, 0},     {0, 0},     {256, 54}, {256, 66},
      {0, 0},    {0, 0},    {0, 0},     {32, 17},   {64, 36},   {128, 18},  {64, 18},
  }};
  return type < kBlocks.size() ? kBlocks[type] : TensorBlock{};
}

}  // namespace kvern::prompt
