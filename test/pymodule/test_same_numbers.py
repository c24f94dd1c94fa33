"""200 random jobs: the module's numbers are the command's, to the bit."""

import concurrent.futures
import random

import ddlsim
from conftest import command, command_json

MODELS = ["resnet50", "vgg16", "bert_large", "gpt2", "resnet152", "alexnet", "inception_v3", "llama_3_1_8b"]
NODES = ["dgx1-v100", "dgx-a100", "dgx-h100", "p3.16xlarge", "pcie-8xp100", "p4d.24xlarge"]


def draw(seed):
    dice = random.Random(seed)
    job = {"model": dice.choice(MODELS), "node": dice.choice(NODES), "nodes": dice.choice([1, 2, 3, 4, 8, 16, 64])}
    if dice.random() < 0.6:
        job["network"] = f"{dice.choice([10, 25, 40, 100, 200, 400])} Gb/s"
    if dice.random() < 0.7:
        job["strategy"] = dice.choice(["ps", "allreduce", "pytorch-ddp", "horovod"])
    if dice.random() < 0.7:
        job["batch"] = dice.choice([1, 2, 8, 16, 32, 64, 100])
    if dice.random() < 0.5:
        job["precision"] = dice.choice(["fp32", "fp16", "bf16", "tf32"])
    if dice.random() < 0.3:
        job["efficiency.compute"] = dice.choice([0.5, 0.333, "45 %"])
    if dice.random() < 0.2:
        job["gpu.memory_bandwidth"] = f"{dice.randint(500, 5000)} GB/s"
    if dice.random() < 0.15:
        job["parallel.zero"] = dice.choice([1, 2, 3])
    if dice.random() < 0.15:
        job["parallel.tensor"] = dice.choice([2, 4])
    return job


def both(seed):
    job = draw(seed)
    flags = [part for path, value in job.items() for part in ("--set", f"{path}={value}")]
    flags = ["--model", job["model"], "--node", job["node"], *flags]
    try:
        told = ddlsim.predict(job)
    except ddlsim.Error as error:
        assert error.message in command("predict", *flags, fails=True), job
        return False
    expected = command_json("predict", *flags)
    assert told.to_dict() == expected, job
    assert told.step_time_s == expected["prediction"]["step_time_s"], job
    assert told.throughput_samples_per_s == expected["prediction"]["throughput_samples_per_s"], job
    assert list(told.interval_90_s) == expected["prediction"]["interval_90_s"], job
    return True


def test_two_hundred_random_jobs():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answered = sum(pool.map(both, range(200)))
    assert answered > 100, "too few of the jobs have an answer to say much"
