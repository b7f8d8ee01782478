#include "pipeline/model.h"

#include "base/text.h"

namespace kvern::pipeline {

void ModelSet::replace(std::vector<std::shared_ptr<const Model>> models) {
  const std::lock_guard lock(mutex_);
  models_.swap(models);  // the old ones may end with `models`, after the lock
}

std::vector<std::shared_ptr<const Model>> ModelSet::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

std::shared_ptr<const Model> ModelSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
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
