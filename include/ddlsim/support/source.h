// Where the values of a data file come from.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddlsim {

/// `text` names the datasheet, paper or measurement behind the value of `key`.
struct Source {
  std::string key;
  std::string text;
};

/// A list that nobody changes any more: a server, copied for every question, shares it with its copies.
class Sources {
 public:
  Sources() = default;
  explicit Sources(std::vector<Source> list) : list_(std::make_shared<const std::vector<Source>>(std::move(list))) {}

  [[nodiscard]] const Source* begin() const { return list_ ? list_->data() : nullptr; }
  [[nodiscard]] const Source* end() const { return list_ ? list_->data() + list_->size() : nullptr; }
  [[nodiscard]] std::size_t size() const { return list_ ? list_->size() : 0; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const Source& operator[](std::size_t i) const { return (*list_)[i]; }

 private:
  std::shared_ptr<const std::vector<Source>> list_;
};

}  // namespace ddlsim
