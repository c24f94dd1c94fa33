// What of a model's name says how it was released or tuned, not how it is built; and names that are made of an
// architecture and its backbone. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddlsim::io {

/// The name without who released it and without its last word, where that is of a release or a tuning:
/// "Qwen/Qwen3-30B-A3B-Instruct-2507" gives Qwen3-30B-A3B-Instruct-2507, that Qwen3-30B-A3B-Instruct, that
/// Qwen3-30B-A3B. Nothing where none is left to drop. Only of names that keep a size (7B, 0.6b): elsewhere "base" is
/// one itself, and where a file may be meant.
[[nodiscard]] std::optional<std::string_view> less_of_release(std::string_view name);

/// The id that a detector or a segmenter would have: "Mask-RCNN R-50", "mask_rcnn_r50_fpn" and "Mask R-CNN (ResNet-50
/// FPN)" give maskrcnn_resnet50_fpn, "PSPNet R-101V1c" pspnet_resnet101. Nothing: the name is of nothing like that.
[[nodiscard]] std::optional<std::string> id_by_backbone(std::string_view name);

}  // namespace ddlsim::io
