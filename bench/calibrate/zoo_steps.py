#!/usr/bin/env python3
"""Step times of models of the zoo (models/*.yaml) as torchvision and transformers build them, one GPU.

A step: forward, backward, optimizer, on synthetic data that is on the GPU already; weights are random. Beside the time:
the most memory PyTorch allocated, and what the kernels of one more step took, by name (torch.profiler). As with
ground_truth.py, predictions are compared with these, never fitted to them.

  python3 zoo_steps.py --out zoo.jsonl --budget 500
  python3 zoo_steps.py --only resnet50,llama_3_2_1b --list

A line each: {"model", "precision", "batch", "layout" or "sequence", "time_s", "wall_s", "memory_bytes", "kernels", ...}.
precision: amp is autocast of bf16 (amp-fp16: fp16 and a scaled loss), bf16: weights and states too, tf32 and fp32.
"""

import argparse
import contextlib
import json
import random
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from ground_truth import clocks, context, measure_steps, set_precision

SIZES = {"inception_v3": 299, "efficientnet_b1": 240, "efficientnet_b2": 260, "efficientnet_b3": 300, "efficientnet_b4": 380,
         "efficientnet_v2_s": 384, "deeplabv3_resnet50": 520, "fcn_resnet50": 520, "inception_v4": 299,
         "inception_resnet_v2": 299, "xception": 299, "nasnet_large": 331}
TORCHVISION = {"vit_base": "vit_b_16", "vit_large": "vit_l_16", "vit_huge": "vit_h_14", "regnetx_16gf": "regnet_x_16gf",
               "regnety_16gf": "regnet_y_16gf", "wide_resnet101_2": "wide_resnet101_2"}
TIMM = {"resnet50d": "resnet50d", "se_resnet50": "legacy_seresnet50", "se_resnext50_32x4d": "legacy_seresnext50_32x4d",
        "inception_v4": "inception_v4", "inception_resnet_v2": "inception_resnet_v2", "xception": "legacy_xception",
        "nasnet_large": "nasnetalarge", "darknet53": "darknet53", "vit_small": "vit_small_patch16_224",
        "vit_tiny": "vit_tiny_patch16_224"}
ADAM = {"vit_base", "vit_large", "vit_huge", "vit_small", "vit_tiny", "convnext_base", "convnext_tiny", "swin_t", "swin_s",
        "swin_b"}
DETECTION = {"maskrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16"}


class Float8Product(torch.autograd.Function):
    """x w' with all three products in 8 bits: e4m3 forward, e5m2 for gradients, scales of this step's own largest values,
    one a tensor or one a row."""

    @staticmethod
    def cast(x, kind, by_row):
        largest = x.abs().amax(-1, keepdim=True).float() if by_row else x.abs().amax().float()
        scale = torch.finfo(kind).max / largest.clamp(min=1e-12)
        return (x.float() * scale).to(kind), scale.reciprocal()

    @staticmethod
    def product(a, b, kinds, by_row):
        """a[m, k] b[n, k]' of bf16 tensors."""
        a, one = Float8Product.cast(a, kinds[0], by_row)
        b, other = Float8Product.cast(b, kinds[1], by_row)
        return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=other.t() if by_row else other, out_dtype=torch.bfloat16,
                                use_fast_accum=True)

    @staticmethod
    def forward(context, x, weight, by_row):
        context.save_for_backward(x, weight)
        context.by_row = by_row
        kinds = (torch.float8_e4m3fn, torch.float8_e4m3fn)
        return Float8Product.product(x.reshape(-1, x.shape[-1]), weight, kinds, by_row).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        dy, flat = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
        wide = torch.float8_e4m3fn if context.by_row else torch.float8_e5m2  # row-wise recipes keep e4m3 throughout
        dx = Float8Product.product(dy, weight.t().contiguous(), (wide, torch.float8_e4m3fn), context.by_row)
        dw = Float8Product.product(dy.t().contiguous(), flat.t().contiguous(), (wide, torch.float8_e4m3fn), context.by_row)
        return dx.view_as(x), dw, None


class Float8Linear(nn.Linear):
    by_row = False

    def forward(self, x):
        return Float8Product.apply(x, self.weight, self.by_row)


def with_eight_bits(model, recipe):
    for name, module in model.named_modules():
        if type(module) is nn.Linear and "lm_head" not in name:
            module.__class__ = Float8Linear
            module.by_row = recipe == "rowwise"


def detection(job):
    """torchvision's detectors, 20 boxes an image; of their transforms the images need none."""
    import torchvision
    name, batch = job["model"], job["batch"]
    fixed = {} if name.startswith("ssd") else {"min_size": 800, "max_size": 1088}
    model = torchvision.models.detection.__dict__[name](weights=None, weights_backbone=None, **fixed)
    height, width = (300, 300) if name.startswith("ssd") else (800, 1088)
    images = [torch.rand(3, height, width) for _ in range(batch)]
    corners = torch.rand(20, 2) * 0.5 * torch.tensor([width, height])
    boxes = torch.cat([corners, corners + 20 + torch.rand(20, 2) * 0.4 * torch.tensor([width, height])], 1)
    masks = torch.zeros(20, height, width, dtype=torch.uint8)
    masks[:, 100:200, 100:200] = 1
    targets = [{"boxes": boxes, "labels": torch.randint(1, 91, (20,)), "masks": masks} for _ in range(batch)]
    return model, lambda: sum(model(images, targets).values())


def vision(job):
    import torchvision
    name = job["model"]
    if name in DETECTION:
        return detection(job)
    arguments = {}
    if name in ("googlenet", "inception_v3"):
        arguments = {"init_weights": False, "aux_logits": name == "inception_v3"}
    if name in ("deeplabv3_resnet50", "fcn_resnet50"):
        arguments = {"weights_backbone": None, "aux_loss": True}
    if name in TIMM:
        import timm
        model = timm.create_model(TIMM[name], pretrained=False)
    else:
        model = torchvision.models.get_model(TORCHVISION.get(name, name), weights=None, **arguments)
    size, batch = SIZES.get(name, 224), job["batch"]
    x = torch.randn(batch, 3, size, size)
    dense = "weights_backbone" in arguments
    target = torch.randint(21, (batch, size, size)) if dense else torch.randint(1000, (batch,))
    if job.get("layout") == "channels-last":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)

    def loss(output):
        if dense:
            return sum(w * functional.cross_entropy(output[k].float(), target) for k, w in (("out", 1.0), ("aux", 0.5)))
        if isinstance(output, tuple):  # Inception's second classifier
            return functional.cross_entropy(output[0].float(), target) + 0.4 * functional.cross_entropy(
                output[1].float(), target)
        return functional.cross_entropy(output.float(), target)
    return model, lambda: loss(model(x))


def configuration(name):
    import transformers as t
    llama = {"llama_3_2_1b": (128256, 2048, 8192, 16, 32, 8, 64, True), "llama_3_2_3b": (128256, 3072, 8192, 28, 24, 8, 128, True),
             "llama_3_1_8b": (128256, 4096, 14336, 32, 32, 8, 128, False),
             "tinyllama_1_1b": (32000, 2048, 5632, 22, 32, 4, 64, False),
             "llama_2_7b": (32000, 4096, 11008, 32, 32, 32, 128, False)}
    if name in llama:
        words, width, inner, layers, heads, kv_heads, head, tied = llama[name]
        return t.LlamaConfig(vocab_size=words, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                             num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head,
                             tie_word_embeddings=tied, max_position_embeddings=16384)
    gpt = {"gpt2": (768, 12, 12), "gpt2_medium": (1024, 24, 16), "gpt2_large": (1280, 36, 20), "gpt2_xl": (1600, 48, 25)}
    if name in gpt:
        width, layers, heads = gpt[name]
        return t.GPT2Config(n_embd=width, n_layer=layers, n_head=heads)
    if name == "opt_1_3b":
        return t.OPTConfig(hidden_size=2048, ffn_dim=8192, num_hidden_layers=24, num_attention_heads=32,
                           word_embed_proj_dim=2048)
    if name == "pythia_1b":
        return t.GPTNeoXConfig(vocab_size=50304, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                               num_attention_heads=8, rotary_pct=0.25, max_position_embeddings=2048)
    if name == "qwen2_5_7b":
        return t.Qwen2Config(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
                             num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False)
    if name == "mistral_7b":
        return t.MistralConfig(vocab_size=32000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                               num_attention_heads=32, num_key_value_heads=8, sliding_window=None)
    if name == "phi_3_mini":
        return t.Phi3Config(pad_token_id=0)
    if name == "qwen3_8b":
        return t.Qwen3Config(vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
                             num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False)
    if name == "qwen3_30b_a3b":
        return t.Qwen3MoeConfig(vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=48,
                                num_attention_heads=32, num_key_value_heads=4, head_dim=128, num_experts=128,
                                num_experts_per_tok=8, moe_intermediate_size=768, tie_word_embeddings=False)
    if name == "mixtral_8x7b":
        return t.MixtralConfig(sliding_window=None)
    if name == "gemma_2_9b":
        return t.Gemma2Config(hidden_size=3584, intermediate_size=14336, num_hidden_layers=42, num_attention_heads=16,
                              num_key_value_heads=8, head_dim=256, query_pre_attn_scalar=256, sliding_window=4096)
    if name == "falcon_7b":
        return t.FalconConfig()
    if name == "gpt_neox_20b":
        return t.GPTNeoXConfig()
    if name == "gptj_6b":
        return t.GPTJConfig()
    if name == "gpt_oss_20b":
        return t.GptOssConfig(num_local_experts=32, num_hidden_layers=24)
    if name == "opt_6_7b":
        return t.OPTConfig(hidden_size=4096, ffn_dim=16384, num_hidden_layers=32, num_attention_heads=32,
                           word_embed_proj_dim=4096)
    if name == "bert_base":
        return t.BertConfig()
    if name in ("bert_large", "roberta_large"):
        sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
        return t.BertConfig(**sizes) if name == "bert_large" else t.RobertaConfig(
            vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **sizes)
    if name in ("t5_small", "t5_large"):
        width, inner, layers, heads = (512, 2048, 6, 8) if name == "t5_small" else (1024, 4096, 24, 16)
        return t.T5Config(vocab_size=32128, d_model=width, d_kv=64, d_ff=inner, num_layers=layers, num_heads=heads,
                          decoder_start_token_id=0)
    if name == "whisper_small":
        return t.WhisperConfig(vocab_size=51865, d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
                               decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
    if name == "clip_vit_b32":
        return t.CLIPConfig(text_config={"vocab_size": 49408}, vision_config={"patch_size": 32})
    if name == "roberta_base":
        return t.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    if name == "distilbert":
        return t.DistilBertConfig()
    if name == "t5_base":
        return t.T5Config(vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12,
                          decoder_start_token_id=0)
    raise ValueError(f"no configuration of {name}")


def language(job):
    import transformers as t
    name, batch = job["model"], job["batch"]
    config = configuration(name)
    config.use_cache = False
    if "layers" in job:
        config.num_hidden_layers = job["layers"]
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:job["layers"]]
    family = (t.AutoModelForQuestionAnswering if job.get("head") == "answers"
              else t.AutoModelForMaskedLM if name in ("bert_base", "bert_large", "roberta_base", "roberta_large", "distilbert")
              else t.AutoModelForSeq2SeqLM if name.startswith("t5") else t.AutoModelForSpeechSeq2Seq if name.startswith("whisper")
              else t.AutoModel if name.startswith("clip")
              else t.AutoModelForCausalLM)
    model = family.from_config(config, attn_implementation=job.get("attention", "sdpa"))
    if job["precision"] == "bf16":
        model = model.to(torch.bfloat16)
    else:
        model = model.float()
    if job.get("recompute") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if job.get("lora_rank"):
        import peft
        names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        if job.get("recompute") == "full":
            model.enable_input_require_grads()
        model = peft.get_peft_model(model, peft.LoraConfig(r=job["lora_rank"], target_modules=names, lora_dropout=0.0))
    if job.get("eight_bits"):
        with_eight_bits(model, job["eight_bits"])
    if name.startswith("whisper"):
        sound, labels = torch.randn(batch, 80, 3000), torch.randint(50000, (batch, job["sequence"]))
        return model, lambda: model(input_features=sound, labels=labels).loss
    words = getattr(config, "vocab_size", 49408)
    ids = torch.randint(words, (batch, job["sequence"]))
    if name.startswith("clip"):
        images = torch.randn(batch, 3, 224, 224)
        return model, lambda: model(input_ids=ids, pixel_values=images, return_loss=True).loss
    if job.get("head") == "answers":
        first, last = (torch.randint(job["sequence"], (batch,)) for _ in range(2))
        return model, lambda: model(input_ids=ids, start_positions=first, end_positions=last).loss
    labels = torch.randint(words, (batch, 114)) if name.startswith("t5") else ids
    return model, lambda: model(input_ids=ids, labels=labels).loss


def recurrent(job):
    """Two LSTM layers of 1500 between an embedding and a head, as ptb_lstm_large.yaml lists them."""
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.cells = nn.Embedding(10000, 1500), nn.LSTM(1500, 1500, 2, dropout=0.65)
            self.head = nn.Linear(1500, 10000)

        def forward(self, ids):
            return self.head(self.cells(self.words(ids))[0])
    model = Words()
    ids = torch.randint(10000, (35, job["batch"]))
    return model, lambda: functional.cross_entropy(model(ids).float().view(-1, 10000), ids.view(-1))


def optimizer_of(name, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4)
    if name == "sgd-momentum":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=1e-5, fused=name == "adamw-fused")


class Job:
    """What ground_truth.measure_steps wants: step()."""

    def __init__(self, job):
        set_precision(job["precision"])
        torch.manual_seed(1)
        make = vision if "layout" in job else recurrent if job["model"].startswith("ptb") else language
        with torch.device("cuda"):
            self.model, self.loss = make(job)
        self.model.train()
        self.parts = job.get("accumulation", 1)
        kinds = {"amp": torch.bfloat16, "amp-fp16": torch.float16}
        self.kind = kinds.get(job["precision"])
        self.scaler = torch.amp.GradScaler("cuda") if self.kind == torch.float16 else None
        self.optimizer = optimizer_of(job["optimizer"], [p for p in self.model.parameters() if p.requires_grad])
        if job.get("compile"):
            self.model.compile()

    def step(self):
        for _ in range(self.parts):
            with torch.autocast("cuda", self.kind) if self.kind else contextlib.nullcontext():
                loss = self.loss() / self.parts
            (self.scaler.scale(loss) if self.scaler else loss).backward()
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def kernels_of(job):
    """Of one step: {name: [calls, microseconds]}, and the time from the first kernel's start to the last one's end."""
    job.step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        job.step()
        torch.cuda.synchronize()
    kernels, first, last = {}, None, 0
    for event in profile.profiler.kineto_results.events():
        if event.device_type() != torch.autograd.DeviceType.CUDA:
            continue
        calls = kernels.setdefault(event.name()[:110], [0, 0.0])
        calls[0] += 1
        calls[1] = round(calls[1] + event.duration_ns() * 1e-3, 2)
        first = event.start_ns() if first is None else min(first, event.start_ns())
        last = max(last, event.start_ns() + event.duration_ns())
    return {"kernels": kernels, "span_s": (last - (first or 0)) * 1e-9,
            "busy_s": sum(us for _, us in kernels.values()) * 1e-6, "launches": sum(n for n, _ in kernels.values())}


def vision_jobs():
    kinds = (("amp", "channels-first"), ("amp", "channels-last"), ("tf32", "channels-first"), ("fp32", "channels-first"))
    names = ("resnet50", "resnet18", "resnet152", "resnext50_32x4d", "resnext101_32x8d", "wide_resnet50_2", "densenet121",
             "efficientnet_b0", "efficientnet_b4", "efficientnet_v2_s", "mobilenet_v2", "mobilenet_v3_large", "vgg16",
             "inception_v3", "googlenet", "alexnet", "squeezenet1_1", "shufflenet_v2_x1_0", "regnetx_16gf",
             "convnext_base", "swin_t", "vit_base", "deeplabv3_resnet50", "fcn_resnet50")
    small = {"deeplabv3_resnet50": 16, "fcn_resnet50": 16, "efficientnet_b4": 32, "efficientnet_v2_s": 32}
    for name in names:
        optimizer = "adamw" if name in ADAM else "sgd-momentum"
        for precision, layout in kinds:
            yield {"model": name, "precision": precision, "layout": layout, "batch": small.get(name, 64),
                   "optimizer": optimizer}
        yield {"model": name, "precision": "amp", "layout": "channels-last", "batch": 2 * small.get(name, 128),
               "optimizer": optimizer}
    for name in ("resnet50", "vgg16", "mobilenet_v2", "vit_base"):
        optimizer = "adamw" if name in ADAM else "sgd-momentum"
        for batch in (1, 8):
            yield {"model": name, "precision": "amp", "layout": "channels-first", "batch": batch, "optimizer": optimizer}
    for precision, layout in (("amp-fp16", "channels-first"), ("amp-fp16", "channels-last"), ("tf32", "channels-last")):
        yield {"model": "resnet50", "precision": precision, "layout": layout, "batch": 128, "optimizer": "sgd-momentum"}
    for name in ("resnet50", "vit_base", "convnext_base"):
        optimizer = "adamw" if name in ADAM else "sgd-momentum"
        yield {"model": name, "precision": "amp", "layout": "channels-last", "batch": 128, "optimizer": optimizer,
               "compile": True}


def language_jobs():
    def job(model, precision, batch, sequence, optimizer="adamw", **more):
        return {"model": model, "precision": precision, "batch": batch, "sequence": sequence, "optimizer": optimizer, **more}
    for batch, sequence in ((1, 2048), (4, 2048), (8, 2048), (2, 4096), (1, 8192), (2, 8192)):
        yield job("llama_3_2_1b", "bf16", batch, sequence)
    yield job("llama_3_2_1b", "bf16", 4, 2048, "adamw-fused")
    yield job("llama_3_2_1b", "bf16", 4, 2048, "sgd")
    yield job("llama_3_2_1b", "bf16", 4, 2048, recompute="full")
    yield job("llama_3_2_1b", "bf16", 8, 2048, recompute="full")
    yield job("llama_3_2_1b", "bf16", 4, 2048, compile=True)
    yield job("llama_3_2_1b", "bf16", 1, 2048, accumulation=4)
    yield job("llama_3_2_1b", "bf16", 4, 2048, attention="eager")
    yield job("llama_3_2_1b", "amp", 4, 2048)
    yield job("llama_3_2_1b", "tf32", 2, 2048)
    yield job("llama_3_2_1b", "fp32", 2, 2048)
    yield job("llama_3_2_3b", "bf16", 2, 2048)
    yield job("llama_3_2_3b", "bf16", 4, 4096, "adamw-fused", recompute="full")
    yield job("llama_3_1_8b", "bf16", 1, 4096, "sgd", recompute="full")
    yield job("llama_3_1_8b", "bf16", 1, 2048, lora_rank=16)
    yield job("llama_3_1_8b", "bf16", 2, 4096, lora_rank=16, recompute="full")
    yield job("tinyllama_1_1b", "bf16", 8, 2048)
    yield job("tinyllama_1_1b", "amp", 4, 2048)
    yield job("qwen2_5_7b", "bf16", 1, 4096, "sgd", recompute="full")
    yield job("mistral_7b", "bf16", 1, 4096, "sgd")
    yield job("phi_3_mini", "bf16", 2, 4096, "sgd")
    yield job("opt_1_3b", "bf16", 4, 2048)
    yield job("opt_1_3b", "amp", 4, 2048)
    yield job("pythia_1b", "bf16", 4, 2048)
    for name, batch in (("gpt2", 16), ("gpt2_medium", 8), ("gpt2_large", 8), ("gpt2_xl", 4)):
        yield job(name, "bf16", batch, 1024)
        yield job(name, "amp", batch, 1024)
    yield job("gpt2", "amp", 2, 1024)
    yield job("gpt2", "amp", 16, 1024, compile=True)
    yield job("gpt2", "tf32", 8, 1024)
    yield job("gpt2", "fp32", 8, 1024)
    for name, sequence in (("bert_base", 128), ("distilbert", 128), ("roberta_base", 512)):
        for precision in ("amp", "bf16", "tf32", "fp32"):
            yield job(name, precision, 32, sequence)
    yield job("bert_base", "amp", 4, 128)
    yield job("t5_base", "amp", 16, 512)
    yield job("t5_base", "bf16", 16, 512)
    for precision in ("tf32", "fp32", "amp"):
        yield {"model": "ptb_lstm_large", "precision": precision, "batch": 64, "sequence": 35, "optimizer": "sgd"}


def more_jobs():
    """Families that the others have none of; of large models a few layers (`layers`)."""
    def image(model, precision, layout, batch):
        return {"model": model, "precision": precision, "layout": layout, "batch": batch,
                "optimizer": "adamw" if model in ADAM else "sgd-momentum"}

    def job(model, precision, batch, sequence, optimizer="adamw", **more):
        return {"model": model, "precision": precision, "batch": batch, "sequence": sequence, "optimizer": optimizer, **more}
    for name in ("maskrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16"):
        for precision in ("amp", "tf32"):
            yield image(name, precision, "channels-first", 32 if name.startswith("ssd") else 4)
    for name, batch in (("resnet50d", 128), ("se_resnet50", 128), ("se_resnext50_32x4d", 64), ("inception_v4", 64),
                        ("inception_resnet_v2", 64), ("xception", 64), ("nasnet_large", 16), ("darknet53", 128),
                        ("vit_small", 128), ("vit_tiny", 256), ("vit_huge", 32), ("swin_s", 64), ("convnext_tiny", 128),
                        ("resnet101", 128), ("wide_resnet101_2", 64), ("regnety_16gf", 64), ("efficientnet_b1", 64),
                        ("efficientnet_b3", 64), ("densenet169", 64), ("vgg16_bn", 64)):
        yield image(name, "amp", "channels-last", batch)
        yield image(name, "tf32", "channels-first", batch)
    for precision in ("amp-fp16", "tf32", "fp32"):
        yield job("bert_large", precision, 32, 384, head="answers")
        yield job("bert_large", precision, 8, 384, head="answers", attention="eager")
    yield job("bert_large", "amp-fp16", 64, 128)
    yield job("roberta_large", "amp", 8, 512)
    for name, batch in (("t5_small", 64), ("t5_large", 8)):
        yield job(name, "amp", batch, 512)
        yield job(name, "tf32", batch, 512)
    for precision in ("amp", "tf32"):
        yield job("whisper_small", precision, 8, 448)
        yield job("clip_vit_b32", precision, 128, 77)
    for name, layers, batch, sequence in (
            ("qwen3_8b", 8, 1, 4096), ("llama_2_7b", 8, 2, 4096), ("gemma_2_9b", 8, 1, 4096), ("falcon_7b", 8, 2, 2048),
            ("gpt_neox_20b", 8, 2, 2048), ("gptj_6b", 8, 2, 2048), ("opt_6_7b", 8, 2, 2048), ("mixtral_8x7b", 2, 1, 4096),
            ("qwen3_30b_a3b", 4, 1, 4096), ("gpt_oss_20b", 4, 1, 4096)):
        more = {"attention": "eager"} if name in ("gpt_oss_20b", "gptj_6b") else {}
        yield job(name, "bf16", batch, sequence, "adamw-fused", layers=layers, **more)
    yield job("llama_2_7b", "amp", 1, 4096, "adamw-fused", layers=8)
    yield job("qwen3_8b", "tf32", 1, 2048, "adamw-fused", layers=8)


def measure(description, options):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    job = Job(description)
    parameters = sum(p.numel() for p in job.model.parameters())
    times, wall = measure_steps(job, options.steps, options.seconds, least=8)
    median = statistics.median(times)
    row = {**description, "time_s": median, "mad_s": statistics.median(abs(t - median) for t in times), "min_s": min(times),
           "wall_s": wall, "steps": len(times), "parameters": parameters,
           "memory_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(), **clocks()}
    if options.kernels:
        try:
            row.update(kernels_of(job))
        except Exception as problem:  # a profiler that may not look costs no step time
            print(f"  no kernels: {problem}", file=sys.stderr)
    return row


def chosen_jobs(options):
    """Those whose compilation takes long come last; the others in random order."""
    makers = {"vision": [vision_jobs], "language": [language_jobs], "more": [more_jobs]}.get(
        options.kind, [vision_jobs, language_jobs, more_jobs])
    jobs = [job for make in makers for job in make() if not options.only or job["model"] in options.only]
    random.Random(options.seed).shuffle(jobs)
    return sorted(jobs, key=lambda job: job.get("compile", False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="zoo.jsonl")
    parser.add_argument("--budget", type=float, default=500, help="seconds (500)")
    parser.add_argument("--steps", type=int, default=30, help="at most so many are timed, at least 8 (30)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed steps for one row (1)")
    parser.add_argument("--only", default="", help="models, joined by ','")
    parser.add_argument("--kind", choices=("all", "vision", "language", "more"), default="all")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--list", action="store_true", help="print the jobs")
    parser.add_argument("--most", type=int, default=0, help="so many jobs (all)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.only = [name for name in options.only.split(",") if name]
    jobs = chosen_jobs(options)
    if options.most:
        jobs = jobs[:options.most]
    if options.list:
        for job in jobs:
            print(json.dumps(job))
        return 0
    if not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        return 1
    end, done = time.monotonic() + options.budget, 0
    with open(options.out, "w", encoding="utf-8") as out:
        print(json.dumps({"schema": "ddlsim/steps/1", "context": context()}), file=out, flush=True)
        for number, job in enumerate(jobs):
            if time.monotonic() > end:
                print(f"the budget is spent; {len(jobs) - number} were not reached", file=sys.stderr)
                break
            start = time.monotonic()
            try:
                row = measure(job, options)
            except Exception as problem:
                row = {**job, "error": f"{type(problem).__name__}: {str(problem)[:200]}"}
            done += "time_s" in row
            print(json.dumps(row), file=out, flush=True)
            said = f"{row['time_s'] * 1e3:9.2f} ms, wall {row['wall_s'] * 1e3:9.2f}" if "time_s" in row else row["error"]
            print(f"{number + 1:3}/{len(jobs)} {time.monotonic() - start:5.1f} s  {json.dumps(job)}  {said}", file=sys.stderr,
                  flush=True)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
