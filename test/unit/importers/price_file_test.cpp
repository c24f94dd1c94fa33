#include "ddlsim/importers/price_file.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

namespace {

std::string refusal(const std::string& text) {
  const auto prices = parse_prices(text, "vms.csv");
  REQUIRE_FALSE(prices);
  return to_string(prices.error());
}

}  // namespace

TEST_CASE("price file: SkyPilot's columns, by their names", "[unit][importers]") {
  const auto prices = parse_prices(
      "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
      "a1.large,,,2.0,4.0,,0.051,0.051,us-east-1,use1-az2\n"
      "p3.2xlarge,V100,1.0,8.0,61.0,\"{'Gpus': [{'Name': 'V100', 'Count': 1}]}\",3.06,0.918,us-east-1,use1-az1\n"
      "p3.2xlarge,V100,1.0,8.0,61.0,\"{'Gpus': []}\",3.06,,us-east-1,use1-az2\n"
      ",A100,1.0,,,,2.9,1.1,us-central1,us-central1-a\n",
      "vms.csv");
  REQUIRE(prices);
  REQUIRE(prices->size() == 2);  // no server without GPUs, no GPU without a server
  CHECK(prices->front().instance == "p3.2xlarge");
  CHECK(prices->front().region == "us-east-1");
  CHECK(prices->front().on_demand->in(dollars_per_hour) == Approx(3.06));
  CHECK(prices->front().spot->in(dollars_per_hour) == Approx(0.918));
  CHECK_FALSE(prices->back().spot);
}

TEST_CASE("price file: the order of columns is free, and one may be new", "[unit][importers]") {
  const auto prices = parse_prices(
      "Price,Region,SpotPrice,Colour,InstanceType\n"
      "4.4,us-west-1,,blue,gpu_8x_v100\n",
      "vms.csv");
  REQUIRE(prices);
  CHECK(prices->front().instance == "gpu_8x_v100");
  CHECK(prices->front().on_demand->in(dollars_per_hour) == Approx(4.4));
}

TEST_CASE("price file: what is no price list is refused, with its place", "[unit][importers]") {
  CHECK_THAT(refusal("InstanceType,Price,Region\np3.2xlarge,3.06,us-east-1\n"),
             Contains("vms.csv:1:") && Contains("'SpotPrice' is missing"));
  CHECK_THAT(refusal("InstanceType,Price,SpotPrice,Region,Price\n"), Contains("duplicate column 'Price'"));
  CHECK_THAT(refusal("InstanceType,Price,SpotPrice,Region\np3.2xlarge,cheap,,us-east-1\n"),
             Contains("vms.csv:2:12") && Contains("'cheap' is not a number"));
  CHECK_THAT(refusal("InstanceType,Price,SpotPrice,Region\np3.2xlarge,-3,,us-east-1\n"),
             Contains("vms.csv:2:12") && Contains("negative"));
  CHECK_THAT(refusal("InstanceType,Price,SpotPrice,Region\np3.2xlarge,,,us-east-1\n"), Contains("no price"));
  CHECK_THAT(refusal("InstanceType,Price,SpotPrice,Region\np3.2xlarge,1\n"), Contains("2 fields"));
  CHECK_THAT(refusal(""), Contains("empty"));
}
