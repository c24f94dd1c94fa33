// Names as people write them: folding, and the nearest valid one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddlsim {

/// Lower case, with every run of spaces, '_' and '-' as one '-': "ResNet_50  v1.5" and "resnet-50 v1.5" fold alike.
[[nodiscard]] std::string fold_name(std::string_view name);

/// Up to `most` candidates nearest to `name` by edit distance with transpositions, best first; none that is too far
/// to be a slip (more than a third of the longer word, at least 1). A candidate that `name` is a part of counts as
/// near.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                                     std::size_t most = 3);

/// "did you mean 'a' or 'b'?" or, with nothing near, "valid: a, b, c" (all of them up to `limit`, then a count).
[[nodiscard]] std::string suggestion(std::string_view name, std::span<const std::string> candidates,
                                     std::size_t limit = 40);

/// a, b, c
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

}  // namespace ddlsim
