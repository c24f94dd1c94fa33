// The benches: each makes a function that measures one of its points.
//
// `make_*` throws Unavailable where the bench cannot run on this machine (a library, a second GPU is missing). The
// function it makes throws Unavailable where one point cannot be had, and GpuError where the GPU is in no state to go
// on. `check_*` compares kernels with the CPU's double precision; it returns what is wrong, or nothing.
#pragma once

#include <memory>

#include "device.h"

namespace ddlsim::measure {

using Bench = std::function<Measured(const Point&)>;

class Cublas;

/// Null where cuBLAS cannot be found; `why` says so.
std::shared_ptr<Cublas> open_cublas(Gpu& gpu, std::string& why);
[[nodiscard]] std::string cublas_version(const Cublas& cublas);
/// The GEMM's launch: operands from the GPU's rings, row-major, as `layout` says: nt: B is stored [n, k].
[[nodiscard]] Launch gemm_launch(Gpu& gpu, std::shared_ptr<Cublas> cublas, const Point& point);

Bench make_launches(Gpu& gpu, std::shared_ptr<Cublas> cublas);
Bench make_streams(Gpu& gpu);
Bench make_rows(Gpu& gpu);
Bench make_gemms(Gpu& gpu, std::shared_ptr<Cublas> cublas);
Bench make_convolutions(Gpu& gpu, std::string& version);
Bench make_copies(Gpu& gpu);
Bench make_collectives(Gpu& gpu, std::string& version);
Bench make_overlap(Gpu& gpu, std::shared_ptr<Cublas> cublas);
Bench make_host();

/// y = a + 2 b, `bytes` in all, as the streams' bench launches it.
[[nodiscard]] Launch triad_launch(Gpu& gpu, std::int64_t bytes);

std::string check_streams(Gpu& gpu);
std::string check_rows(Gpu& gpu);
std::string check_gemms(Gpu& gpu, std::shared_ptr<Cublas> cublas);

}  // namespace ddlsim::measure
