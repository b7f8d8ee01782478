#include "pipeline/model.h"

#include "base/check.h"
#include "base/text.h"

namespace kvern::pipeline {

ModelSet::ModelSet(std::vector<std::shared_ptr<const Model>> models) : models_(std::move(models)) {
  KV_CHECK(!models_.empty());
}

std::shared_ptr<const Model> ModelSet::find(std::string_view name) const {
  for (const auto& model : models_) {
    if (model->name == name) return model;
  }
  for (const auto& model : models_) {
    for (const auto& alias : model->aliases) {
      if (glob_match(alias, name)) return model;
    }
  }
  return name.empty() && models_.size() == 1 ? models_.front() : nullptr;
}

}  // namespace kvern::pipeline
