#include "ddlsim/io/input_files.h"

#include <catch2/catch.hpp>

#include "catalog.h"

using namespace ddlsim;
using ddlsim::test::catalog;

TEST_CASE("input files: what is written reads back as it was", "[unit][io]") {
  for (const std::string& id : catalog().ids(io::Kind::kStorage)) {
    const auto storage = catalog().storage(id).value();
    const std::string text = io::to_yaml(storage);
    const auto again = io::parse_yaml(text, id).and_then(io::read_storage).value();
    CHECK(again.bandwidth == storage.bandwidth);
    CHECK(again.latency == storage.latency);
    CHECK(again.iops == storage.iops);
    CHECK(again.attached == storage.attached);
    CHECK(io::to_yaml(again) == text);
  }
  for (const std::string& id : catalog().ids(io::Kind::kCpus)) {
    const auto cpu = catalog().cpu(id).value();
    const std::string text = io::to_yaml(cpu);
    const auto again = io::parse_yaml(text, id).and_then(io::read_cpu).value();
    CHECK(again.decode_speed == cpu.decode_speed);
    CHECK(io::to_yaml(again) == text);
  }
  for (const std::string& id : catalog().ids(io::Kind::kDatasets)) {
    const auto dataset = catalog().dataset(id).value();
    const std::string text = io::to_yaml(*dataset);
    const auto again = io::parse_yaml(text, id).and_then(io::read_dataset).value();
    CHECK(again.samples == dataset->samples);
    CHECK(again.decode == dataset->decode);
    CHECK(io::to_yaml(again) == text);
  }
}

TEST_CASE("input files: a server's host comes with its processor and storage", "[unit][io]") {
  const auto node = catalog().node("p3.16xlarge").value();
  REQUIRE(node.host.cpu);
  REQUIRE(node.host.storage);
  CHECK(node.host.cpu->id == "xeon-e5-2686-v4");
  CHECK(node.host.cores() == 32);
  CHECK(node.host.memory == gibibytes(488));
  CHECK(node.host.storage->id == "ebs-gp2");
  CHECK(catalog().node("p2.xlarge")->host.storage->bandwidth == bytes_per_second(93.75e6));
  CHECK(catalog().node("p3.8xlarge")->host.storage->bandwidth == bytes_per_second(250 * 1048576.0));
  for (const io::Kind kind : {io::Kind::kNodes, io::Kind::kInstances}) {
    for (const std::string& id : catalog().ids(kind)) CHECK(catalog().node(id));
  }
}

TEST_CASE("input files: a server bounds its volumes and no other storage", "[unit][io]") {
  const hardware::Host host{.volume_bandwidth = bytes_per_second(875e6)};
  CHECK(host.reaching(catalog().storage("ebs-gp3-max").value()).bandwidth == bytes_per_second(875e6));
  CHECK(host.reaching(catalog().storage("ebs-gp3").value()).bandwidth == bytes_per_second(125 * 1048576.0));
  CHECK(host.reaching(catalog().storage("ebs-gp2").value()).bandwidth == bytes_per_second(250 * 1048576.0));
  CHECK(host.reaching(catalog().storage("nvme").value()).bandwidth == bytes_per_second(2896e6));
  CHECK(host.reaching(catalog().storage("object-store").value()).bandwidth == bytes_per_second(12.5e9));
}

TEST_CASE("input files: how a storage is attached is said, or follows from who reads it", "[unit][io]") {
  const auto storage = [](const std::string& more) {
    const std::string text = "storage: x\nname: X\nbandwidth: 1 GB/s\nrequest: 1 MiB\nlatency: 1 ms\n" + more +
                             "sources: {bandwidth: a, request: a, latency: a, shared: a" +
                             (more.find("attached") == std::string::npos ? "}\n" : ", attached: a}\n");
    return io::parse_yaml(text, "x.yaml").and_then(io::read_storage);
  };
  CHECK(storage("shared: yes\n")->attached == hardware::Attachment::kNetwork);
  CHECK(storage("shared: no\n")->attached == hardware::Attachment::kServer);
  CHECK(storage("shared: no\nattached: network\n")->attached == hardware::Attachment::kNetwork);
  const auto torn = storage("shared: yes\nattached: server\n");
  REQUIRE_FALSE(torn);
  CHECK(torn.error().where.line == 7);
}

TEST_CASE("input files: faults are named with their place", "[unit][io]") {
  const auto cpu = [](const std::string& change) {
    const std::string text = "cpu: x\nname: X\n" + change +
                             "threads_per_core: 2\nclock: 2 GHz\ndecode_speed: 1\nsecond_thread: 0.2\nsources: {cores: "
                             "a, threads_per_core: a, "
                             "clock: a, decode_speed: a, second_thread: a}\n";
    return io::parse_yaml(text, "x.yaml").and_then(io::read_cpu);
  };
  CHECK(cpu("cores: 4\n"));
  REQUIRE_FALSE(cpu("cores: 0\n"));
  CHECK(cpu("cores: 0\n").error().where.line == 3);
  CHECK_FALSE(cpu("cores: 4\nspeed: 3\n"));
  CHECK_FALSE(io::parse_yaml("storage: x\nname: X\nbandwidth: 5\n", "x.yaml").and_then(io::read_storage));
  CHECK_FALSE(io::parse_yaml("dataset: x\nname: X\nsample: image\nsamples: 0\n", "x.yaml").and_then(io::read_dataset));
}
