// exp2 and log2 from arithmetic alone: the same bits on every machine, which the C library does not promise (glibc
// chooses another implementation where the processor has fused multiply-add).
#pragma once

#include <span>

namespace ddlsim {

/// 2^x to about 1 unit in the last place, for |x| <= 1000.
[[nodiscard]] double portable_exp2(double x);
/// Each value's: the same bits, several at a time.
void portable_exp2(std::span<double> values);

/// log2(x) for finite x > 0, to about 1 unit in the last place.
[[nodiscard]] double portable_log2(double x);

}  // namespace ddlsim
